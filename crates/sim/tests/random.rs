//! Thousands of random scenarios. `FREEHOLD_SIM_SCENARIOS` says how many; `FREEHOLD_SIM_SEED` says where to begin, so
//! that a failing seed can be run alone with `FREEHOLD_SIM_SCENARIOS=1`.

use freehold_scenario::ReservationIndex;
use freehold_sim::{Mix, Options, compare_alone, not_comparable, random_scenario, simulate};

/// Prints the seed where the test fails, be it by a panic in the core.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "failed with seed {0}: FREEHOLD_SIM_SEED={0} FREEHOLD_SIM_SCENARIOS=1",
                self.0
            );
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The seeds to run, `default` of them.
fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let first = number("FREEHOLD_SIM_SEED", 0);
    first..first + number("FREEHOLD_SIM_SCENARIOS", default)
}

fn reservations(count: usize) -> impl Iterator<Item = ReservationIndex> {
    (0..count).map(|position| ReservationIndex::new(u16::try_from(position).expect("few")))
}

#[test]
fn law_0_holds_under_spc_and_spel() {
    let (mut scenarios, mut compared, mut softened, mut others) = (0, 0, 0, 0);
    for seed in seeds(6_000) {
        let _guard = Seed(seed);
        let scenario = random_scenario(seed, Mix::default());
        let outcome = simulate(
            &scenario,
            &Options {
                sequences: true,
                ..Options::default()
            },
        )
        .unwrap();
        assert!(outcome.laws_hold(), "{:#?}", outcome.result.laws);
        for reservation in reservations(scenario.reservations.len()) {
            if not_comparable(&scenario, reservation).is_some() {
                continue;
            }
            let company = &outcome.sequences[reservation.get()];
            match compare_alone(&scenario, reservation, company).unwrap() {
                Ok(agreement) => {
                    compared += agreement.compared;
                    softened += agreement.softened;
                    others += agreement.written_by_others;
                }
                Err(difference) => panic!("reservation {}: {difference}", reservation.get()),
            }
            scenarios += 1;
        }
    }
    println!("{scenarios} reservations, {compared} events, {softened} softened, {others} written by others");
    if number("FREEHOLD_SIM_SCENARIOS", 6_000) >= 1_000 {
        assert!(
            compared > 100_000 && softened > 1_000 && others > 100,
            "the scenarios test too little"
        );
    }
}

#[test]
fn all_laws_hold_whatever_happens() {
    let (mut errors, mut misses, mut jobs, mut shared) = (0, 0, 0, 0);
    for seed in seeds(6_000) {
        let _guard = Seed(seed);
        let scenario = random_scenario(seed, Mix::everything());
        let outcome = simulate(&scenario, &Options::default()).unwrap();
        assert!(outcome.laws_hold(), "{:#?}", outcome.result.laws);
        errors += outcome.extras.iter().map(|extras| extras.errors).sum::<u64>();
        for task in &outcome.result.tasks {
            misses += task.misses;
            jobs += task.jobs;
            shared += task.faults.shared_swap_ins;
        }
    }
    println!("{jobs} jobs, {misses} misses, {errors} errors, {shared} shared swap-ins");
    if number("FREEHOLD_SIM_SCENARIOS", 6_000) >= 1_000 {
        assert!(
            errors > 100 && misses > 1_000 && jobs > 10_000 && shared > 100,
            "the scenarios test too little"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let options = Options {
        history: true,
        schedule: true,
        sequences: true,
        ..Options::default()
    };
    for seed in seeds(200) {
        let _guard = Seed(seed);
        let run = || simulate(&random_scenario(seed, Mix::everything()), &options).unwrap();
        assert_eq!(run(), run());
    }
}
