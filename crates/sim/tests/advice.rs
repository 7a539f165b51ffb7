//! `auto`: the paper's own task sets, and every edge of the rule.

mod common;

use std::path::Path;

use common::{checked, ms, pages, region, reservation, spec, walking};
use freehold_core::units::{ByteLen, PageIndex};
use freehold_scenario::results::RegionAdvice;
use freehold_scenario::{
    LockSpec, Pattern, RegionKind, RegionSpec, ReservationIndex, Scenario, ScenarioSpec, Sharing, TraceEntry,
};
use freehold_sim::{Options, advise, decide, differential, profile, simulate};

const AUTO: &str = "region.shm.sharing=auto";

fn experiment(file: &str, sets: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments")
        .join(file);
    Scenario::load(&path, sets).expect("a shipped scenario")
}

fn only(scenario: &Scenario) -> RegionAdvice {
    let profile = profile(scenario).expect("a profile");
    let advice = advise(scenario, &profile).expect("advice");
    advice
        .into_iter()
        .find(|advice| advice.name == "shm")
        .expect("the region")
}

fn own(advice: &RegionAdvice) -> Vec<(u64, f64, u64)> {
    let of = |part: &freehold_scenario::results::ReservationAdvice| (part.max, part.avg, part.frames_spel);
    advice.reservations.iter().map(of).collect()
}

const MIB: u64 = 256;

#[test]
fn the_papers_task_sets() {
    // Table III: 13 MB against 12 MB, 4 MB against 12 MB, 22 MB against 12 MB.
    let cases = [
        ("spc-table3-12.toml", [2560.0, 256.0], [13, 12], Sharing::Spel),
        ("spc-table3-22.toml", [256.0, 256.0], [4, 12], Sharing::Spc),
        ("spc-table3-11.toml", [2560.0, 2560.0], [22, 12], Sharing::Spel),
    ];
    for (file, averages, [spc, spel], choice) in cases {
        let found = only(&experiment(file, &[AUTO]));
        assert_eq!((found.n, found.max), (2, 2560), "{file}");
        assert_eq!(own(&found), averages.map(|avg| (2560, avg, 11 * MIB)), "{file}");
        assert_eq!((found.frames_spc, found.frames_spel), (spc * MIB, spel * MIB), "{file}");
        assert_eq!(found.choice, Some(choice), "{file}: {}", found.reason);
        assert_eq!(found.max_below_n_avg, choice == Sharing::Spel, "{file}");
    }
}

#[test]
fn a_region_under_spel_is_weighed_with_the_sizes_it_has() {
    let sets = ["region.shm.sharing=spel", "reservation.r2.size=11MiB"];
    let found = only(&experiment("spc-table3-12.toml", &sets));
    assert_eq!(
        (found.frames_spc, found.frames_spel),
        (13 * MIB, 12 * MIB),
        "{found:#?}"
    );
    assert_eq!((found.asked, found.choice), (Sharing::Spel, Some(Sharing::Spel)));
}

#[test]
fn what_is_chosen_is_what_runs() {
    let scenario = experiment("spc-table3-12.toml", &[AUTO]);
    let outcome = simulate(&scenario, &Options::default()).unwrap();
    assert!(outcome.laws_hold(), "{:#?}", outcome.result.laws);
    let result = &outcome.result;
    assert_eq!(result.memory.used, 12 * MIB);
    assert_eq!(result.reservations[1].lists.capacity, 11 * MIB);
    let region = &result.regions[0];
    assert_eq!((region.asked, region.sharing), (Sharing::Auto, Sharing::Spel));
    assert_eq!(region.in_force, [Some(Sharing::Spel); 2]);
    let advice = region.advice.as_ref().unwrap();
    assert_eq!((advice.frames_spc, advice.frames_spel), (13 * MIB, 12 * MIB));
    let note = result.warnings.join("\n");
    for words in ["region.shm.sharing: auto is spel", "r2 grows from 512 to 2816 frames"] {
        assert!(note.contains(words), "{note}");
    }
    // As decided it is a scenario like any other, in its text too, and runs the same.
    let decided = decide(&scenario).unwrap().scenario;
    let again = Scenario::parse(&decided.to_toml(), "s.toml").unwrap();
    assert_eq!(again, decided);
    let fixed = simulate(&decided, &Options::default()).unwrap();
    assert_eq!(fixed.result.tasks, result.tasks);

    let scenario = experiment("spc-table3-22.toml", &[AUTO]);
    let result = simulate(&scenario, &Options::default()).unwrap().result;
    assert_eq!((result.memory.used, result.regions[0].sharing), (4 * MIB, Sharing::Spc));
}

/// Two reservations whose tasks walk through 40 shared pages, all of them every period.
fn shared(frames: u64, pool: u64) -> ScenarioSpec {
    let mut spec = spec(100, pool);
    region(&mut spec, "shm", 40);
    spec.regions[0].sharing = Sharing::Auto;
    for name in ["a", "b"] {
        reservation(&mut spec, name, frames);
        spec.tasks.push(walking(&format!("in-{name}"), name, "shm", 10, true));
    }
    spec
}

fn decided(spec: ScenarioSpec) -> (RegionAdvice, Scenario) {
    let mut decision = decide(&checked(spec)).expect("a decision");
    assert!(
        decision
            .scenario
            .regions
            .iter()
            .all(|region| region.sharing != Sharing::Auto),
        "something is open"
    );
    (decision.advice.remove(0), decision.scenario)
}

fn locks(scenario: &Scenario, reservation: usize) -> Vec<(u32, u32)> {
    let ranges = &scenario.reservations[reservation].regions[0].locks;
    ranges
        .iter()
        .map(|range| (range.first.get(), range.pages.get()))
        .collect()
}

#[test]
fn each_locks_the_pages_it_touches_itself() {
    let mut spec = shared(60, 200);
    // Pages 0 to 23, and 16 to 39.
    spec.tasks[0].accesses[0].amount = Some(pages(24));
    spec.tasks[0].accesses[0].pattern = Pattern::Window {
        size: pages(24),
        shift: ByteLen::ZERO,
        every: 1,
    };
    tracing(&mut spec, 1, &(16..40).collect::<Vec<_>>(), 24);
    let (advice, scenario) = decided(spec);
    assert_eq!((advice.max, advice.avg, advice.choice), (40, 24.0, Some(Sharing::Spel)));
    assert_eq!(
        (locks(&scenario, 0), locks(&scenario, 1)),
        (vec![(0, 24)], vec![(16, 24)])
    );
    // The union is paid once: 8 pages are locked by both.
    assert_eq!((advice.frames_spc, advice.frames_spel), (120, 112));
}

#[test]
fn growth_that_cannot_be_had_is_conservation_with_its_reason() {
    let cases = [
        // Eight frames stay unlocked: Avg is Max, so nothing grows.
        (47, 200, "leave 8 frames unlocked"),
        (48, 200, ""),
        // The first locks give back nothing yet, so the second finds too few frames. That is no matter under SPC.
        (60, 120, ""),
    ];
    for (frames, pool, words) in cases {
        let (advice, _) = decided(shared(frames, pool));
        let wanted = if words.is_empty() { Sharing::Spel } else { Sharing::Spc };
        assert_eq!(advice.choice, Some(wanted), "{}", advice.reason);
        assert!(advice.reason.contains(words), "{}", advice.reason);
    }
    // One grows from 20 to 60 frames: 60 + 60 are too many for the pool before any lock gives back.
    let narrow = |pool| {
        let mut spec = shared(60, pool);
        spec.reservations[1].size = pages(24);
        spec.tasks[1].accesses[0].amount = Some(pages(4));
        decided(spec).0
    };
    assert_eq!(narrow(120).choice, Some(Sharing::Spel));
    let refused = narrow(119);
    assert_eq!(refused.choice, Some(Sharing::Spc));
    assert!(
        refused.reason.contains("reservation b: not admitted"),
        "{}",
        refused.reason
    );
}

#[test]
fn nothing_to_choose() {
    let mut one = shared(60, 200);
    one.tasks.pop();
    let (advice, _) = decided(one);
    assert!(advice.reason.contains("only a maps it"), "{}", advice.reason);
    assert_eq!(advice.choice, Some(Sharing::Spc));

    let mut nobody = shared(60, 200);
    nobody.tasks.clear();
    assert!(decided(nobody).0.reason.contains("no reservation maps it"));

    // Tasks without a reservation do not count.
    let mut unreserved = shared(60, 200);
    unreserved.tasks[1].reservation = None;
    let (advice, _) = decided(unreserved);
    assert_eq!((advice.n, advice.choice), (1, Some(Sharing::Spc)));

    let mut all_say = shared(60, 200);
    all_say.reservations[0].sharing = vec![("shm".to_owned(), Sharing::Spc)];
    all_say.reservations[1].locks = vec![lock(0, 4)];
    assert!(decided(all_say).0.reason.contains("says itself"));

    let (advice, scenario) = {
        let mut view = shared(100, 400);
        view.regions[0].kind = RegionKind::File;
        view.regions[0].name = "base".to_owned();
        view.regions.insert(
            0,
            RegionSpec {
                kind: RegionKind::Private,
                size: None,
                copy_of: Some("base".to_owned()),
                ..RegionSpec::new("shm", pages(40))
            },
        );
        view.regions[0].sharing = Sharing::Auto;
        decided(view)
    };
    assert!(
        advice.max_below_n_avg && advice.reason.contains("copy-on-write"),
        "{}",
        advice.reason
    );
    assert!(simulate(&scenario, &Options::default()).unwrap().laws_hold());
}

fn lock(first: u64, size: u64) -> LockSpec {
    LockSpec {
        region: "shm".to_owned(),
        offset: pages(first),
        size: pages(size),
    }
}

#[test]
fn who_says_himself_how_he_shares_stays_as_he_is() {
    // The first locks 30 pages by itself: the second pays for the other ten alone.
    let mut spec = shared(60, 200);
    spec.reservations[0].locks = vec![lock(0, 30)];
    let (advice, scenario) = decided(spec.clone());
    assert_eq!(
        (advice.max, advice.n, advice.choice),
        (10, 1, Some(Sharing::Spel)),
        "{}",
        advice.reason
    );
    assert_eq!(
        (locks(&scenario, 0), locks(&scenario, 1)),
        (vec![(0, 30)], vec![(0, 40)])
    );
    assert_eq!((advice.frames_spc, advice.frames_spel), (120, 90));
    // Without its locks there is nothing to gain from the second's.
    spec.reservations[0].locks.clear();
    spec.reservations[0].sharing = vec![("shm".to_owned(), Sharing::Spc)];
    let (advice, scenario) = decided(spec);
    assert_eq!(
        (advice.max, advice.n, advice.choice),
        (40, 1, Some(Sharing::Spc)),
        "{}",
        advice.reason
    );
    assert_eq!((locks(&scenario, 0), locks(&scenario, 1)), (vec![], vec![]));
}

/// A task that goes through these pages, `amount` of them a job.
fn tracing(spec: &mut ScenarioSpec, task: usize, listed: &[u32], amount: u64) {
    let entry = |(line, page): (u32, &u32)| TraceEntry {
        page: PageIndex::new(*page),
        write: true,
        line,
    };
    let access = &mut spec.tasks[task].accesses[0];
    access.write = false;
    access.amount = Some(pages(amount));
    access.pattern = Pattern::Trace {
        file: "pages.txt".to_owned(),
        entries: (1..).zip(listed).map(entry).collect(),
    };
}

#[test]
fn frames_are_whole() {
    let four = |listed: &[u32]| {
        let mut spec = shared(60, 400);
        spec.duration = ms(120);
        for name in ["c", "d"] {
            reservation(&mut spec, name, 60);
            spec.tasks.push(walking(&format!("in-{name}"), name, "shm", 10, true));
        }
        (0..4).for_each(|task| tracing(&mut spec, task, listed, 2));
        decided(spec).0
    };
    // Of six jobs each touches 2, 2, 1 pages twice: 5/3. Each would grow by 4 frames, which is one too many.
    let rounded = four(&[0, 1, 2, 3, 4, 4]);
    assert_eq!(
        (rounded.max, rounded.n, rounded.max_below_n_avg),
        (5, 4, true),
        "{rounded:#?}"
    );
    assert_eq!((rounded.frames_spc, rounded.frames_spel), (240, 240 + 4 * 4 - 3 * 5));
    assert_eq!(rounded.choice, Some(Sharing::Spc));
    assert!(rounded.reason.contains("but not in whole frames"), "{}", rounded.reason);
    // A mean that is whole loses nothing.
    let exact = four(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(
        (exact.max, exact.avg, exact.choice),
        (6, 2.0, Some(Sharing::Spel)),
        "{exact:#?}"
    );
    assert_eq!((exact.frames_spc, exact.frames_spel), (240, 240 + 4 * 4 - 3 * 6));
}

#[test]
fn a_task_without_a_period_counts_per_job_even_its_first() {
    let mut spec = shared(60, 200);
    spec.tasks[1].period = None;
    // Its first job does not end.
    spec.tasks[1].accesses[0].pattern = Pattern::Window {
        size: pages(8),
        shift: ByteLen::ZERO,
        every: 1,
    };
    spec.tasks[1].compute = ms(1_000);
    let (advice, _) = decided(spec.clone());
    assert!(
        advice.reservations[1].avg > 0.0 && advice.reservations[1].avg < 8.0,
        "{advice:#?}"
    );
    spec.tasks[1].compute = ms(1);
    let (advice, _) = decided(spec);
    assert_eq!(own(&advice)[1].1, 8.0);
}

#[test]
fn a_profile_too_large_is_conservation_with_its_reason() {
    let mut spec = spec(1, 1 << 20);
    region(&mut spec, "shm", 1 << 25);
    spec.regions[0].sharing = Sharing::Auto;
    for name in ["a", "b", "c"] {
        reservation(&mut spec, name, 60);
        let mut task = walking(&format!("in-{name}"), name, "shm", 10, false);
        task.accesses[0].amount = Some(pages(4));
        spec.tasks.push(task);
    }
    let (advice, _) = decided(spec);
    assert_eq!(advice.choice, Some(Sharing::Spc));
    assert!(advice.reason.contains("no profile could be taken"), "{}", advice.reason);
}

#[test]
fn a_reservation_smaller_than_its_pages_does_not_make_the_lock_look_cheap() {
    // It has 20 frames for 40 pages a period: by M_R + Max - Avg it would lock 40 pages in 20 frames.
    let mut spec = shared(60, 200);
    spec.reservations[1].size = pages(20);
    let (advice, _) = decided(spec);
    assert_eq!(advice.choice, Some(Sharing::Spc));
    assert!(
        advice.reason.contains("grown by Max - Avg b is too small"),
        "{}",
        advice.reason
    );
    assert_eq!((advice.frames_spc, advice.frames_spel), (80, 60 + 48 - 40));
}

#[test]
fn law_0_holds_with_the_decision_fixed() {
    // Alone, a reservation is compared under what was decided for it in company: locks and a larger second one.
    let scenario = experiment("spc-table3-12.toml", &[AUTO]);
    for reservation in [0, 1] {
        let agreement = differential(&scenario, ReservationIndex::new(reservation)).unwrap();
        assert!(
            agreement.is_ok_and(|agreement| agreement.compared > 256),
            "{agreement:?}"
        );
    }
}

#[test]
fn max_that_equals_n_avg_is_not_below_it() {
    // Each touches half of the pages every period, and in the end all.
    let mut spec = shared(60, 200);
    for task in &mut spec.tasks {
        task.accesses[0].amount = Some(pages(20));
    }
    let (advice, _) = decided(spec);
    assert_eq!((advice.max, advice.n, advice.avg), (40, 2, 20.0), "{advice:#?}");
    assert_eq!((advice.max_below_n_avg, advice.choice), (false, Some(Sharing::Spc)));
    assert!(advice.reason.contains("is not below"), "{}", advice.reason);
}
