//! `auto` in random scenarios, against a naive recomputation. A failure prints its seed; `FREEHOLD_SIM_SEED=n
//! FREEHOLD_SIM_SCENARIOS=1` runs it alone.

mod common;

use std::collections::BTreeSet;

use common::checked;
use freehold_core::units::{ByteLen, PAGE_SIZE};
use freehold_scenario::{
    PageRange, RegionIndex, RegionUse, ReservationIndex, ReservationKind, Scenario, ScenarioSpec, Sharing,
};
use freehold_sim::{Mix, Options, Profile, ample, decide, profile, random_scenario, simulate};

/// A random scenario in which regions that are not under `none` ask for `auto`.
fn automatic(seed: u64) -> (ScenarioSpec, Scenario) {
    let mix = Mix {
        firm: seed.is_multiple_of(2),
        unmanaged: seed.is_multiple_of(3),
        ..Mix::default()
    };
    let spec = random_scenario(seed, mix).spec().clone();
    let mut asking = spec.clone();
    for (number, region) in (0..).zip(&mut asking.regions) {
        if region.sharing != Sharing::None && !(seed + number).is_multiple_of(4) {
            region.sharing = Sharing::Auto;
        }
    }
    // What a lock by the region's own setting gave back is not there under `auto`: room for all, mostly for more.
    let ample = seed % 4 != 1;
    let sizes = asking.reservations.iter_mut().map(|reservation| &mut reservation.size);
    let larger = |size: &mut ByteLen| {
        *size = ByteLen::new(size.get() + if ample { 12 * PAGE_SIZE } else { 0 });
        size.get()
    };
    let sum: u64 = sizes.map(larger).sum();
    asking.memory.pool = ByteLen::new(sum.max(spec.memory.pool.get()) * if ample { 3 } else { 1 });
    let scenario = checked(asking.clone());
    (asking, scenario)
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, default| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let first = number("FREEHOLD_SIM_SEED", 1);
    first..first + number("FREEHOLD_SIM_SCENARIOS", 300)
}

fn set(ranges: &[PageRange]) -> BTreeSet<u32> {
    let pages = |range: &PageRange| range.first.get()..range.first.get() + range.pages.get();
    ranges.iter().flat_map(pages).collect()
}

/// Whether the rule wants the lock, page by page, from the scenario as it was when the region was looked at.
fn naive(scenario: &Scenario, profile: &Profile, region: usize) -> bool {
    let (mut locked, mut touched, mut sum) = (BTreeSet::new(), BTreeSet::new(), 0.0);
    let (mut whole, mut mappers, mut fixed) = (0, 0, 0);
    for (number, reservation) in scenario.reservations.iter().enumerate() {
        let used = &reservation.regions[region];
        if !used.mapped {
            continue;
        }
        mappers += 1;
        let written = &scenario.spec().reservations[number];
        let name = &scenario.regions[region].name;
        let says = written.sharing.iter().any(|(of, _)| of == name) || written.locks.iter().any(|l| l.region == *name);
        if says {
            fixed += 1;
            locked.extend(set(&used.locks));
            continue;
        }
        let index = |position: usize| u16::try_from(position).expect("few");
        let found = profile.usage(ReservationIndex::new(index(number)), RegionIndex::new(index(region)));
        let found = found.expect("of this scenario");
        touched.extend(set(found.touched()));
        sum += found.average();
        whole += (1..)
            .take_while(|pages| f64::from(*pages) <= found.average() + 1e-6)
            .count();
    }
    let max = touched.difference(&locked).count();
    mappers > 1 && fixed < mappers && (max as f64) < sum && max < whole
}

#[test]
fn the_choice_is_that_of_a_naive_recomputation() {
    let (mut asked, mut chosen, mut refused) = (0, 0, 0);
    for seed in seeds() {
        let (_, scenario) = automatic(seed);
        let decision = decide(&scenario).unwrap();
        let mut current = scenario.clone();
        let taken = profile(&scenario).unwrap();
        for advice in &decision.advice {
            let region = scenario.region_index(&advice.name).unwrap().get();
            let wants = naive(&current, &taken, region);
            asked += 1;
            match advice.choice {
                Some(Sharing::Spel) => {
                    assert!(wants, "seed {seed}: {advice:#?}");
                    chosen += 1;
                }
                _ if wants => {
                    let reasons = ["cannot be locked", "too small"];
                    let said = reasons.iter().any(|reason| advice.reason.contains(reason));
                    assert!(said, "seed {seed}: {advice:#?}");
                    refused += 1;
                }
                _ => {}
            }
            // The next region is looked at beside these locks: take this region over from the decision.
            let (mut spec, after) = (current.spec().clone(), decision.scenario.spec());
            spec.regions[region].sharing = after.regions[region].sharing;
            // The sizes are those of the end, and some locks that belong to them are yet to come.
            spec.memory.pool = ByteLen::new(4096 * PAGE_SIZE);
            for (before, after) in spec.reservations.iter_mut().zip(&after.reservations) {
                let mine = |of: &String| *of == advice.name;
                before.sharing.retain(|(of, _)| !mine(of));
                before
                    .sharing
                    .extend(after.sharing.iter().filter(|(of, _)| mine(of)).cloned());
                before.locks.retain(|lock| !mine(&lock.region));
                before
                    .locks
                    .extend(after.locks.iter().filter(|lock| mine(&lock.region)).cloned());
                before.size = after.size;
            }
            current = checked(spec);
        }
        let after = |of: &Scenario| of.spec().reservations.iter().map(|r| r.size.get()).collect::<Vec<_>>();
        assert_eq!(after(&current), after(&decision.scenario), "seed {seed}");
    }
    println!("{asked} regions asked, {chosen} locked, {refused} could not be");
    assert!(asked > 300 && chosen > 60 && refused > 20, "{asked} {chosen} {refused}");
}

#[test]
fn auto_refuses_nothing_that_spc_admits() {
    let mut locked = 0;
    for seed in seeds() {
        let (mut conserving, scenario) = automatic(seed);
        for region in &mut conserving.regions {
            if region.sharing == Sharing::Auto {
                region.sharing = Sharing::Spc;
            }
        }
        let options = Options {
            check_every: Some(64),
            ..Options::default()
        };
        let conserving = simulate(&checked(conserving), &options);
        match (conserving, simulate(&scenario, &options)) {
            (Ok(_), Err(refused)) => panic!("seed {seed}: {refused}"),
            (_, Ok(outcome)) => {
                assert!(outcome.laws_hold(), "seed {seed}: {:#?}", outcome.result.laws);
                let regions = outcome.result.regions.iter();
                locked += regions
                    .filter(|r| r.asked == Sharing::Auto && r.sharing == Sharing::Spel)
                    .count();
            }
            (Err(_), Err(_)) => {}
        }
    }
    assert!(locked > 60, "{locked}");
}

#[test]
fn a_profile_is_that_of_an_ample_run() {
    for seed in seeds().take(100) {
        let (_, scenario) = automatic(seed);
        let taken = profile(&scenario).unwrap();
        let ample = simulate(&ample(&scenario).unwrap(), &Options::default()).unwrap();
        for (region, found) in (0..).zip(&ample.result.regions) {
            for reservation in 0..scenario.reservations.len() {
                let index = ReservationIndex::new(u16::try_from(reservation).unwrap());
                let used = taken.usage(index, RegionIndex::new(region)).unwrap();
                assert_eq!(used.max(), found.max_use[reservation], "seed {seed}");
                assert_eq!(used.average(), found.avg_use[reservation], "seed {seed}");
                assert_eq!(set(used.touched()).len() as u64, used.max(), "seed {seed}");
            }
        }
        // Nothing that is there once is ever lost.
        for task in ample
            .result
            .tasks
            .iter()
            .zip(&scenario.tasks)
            .filter(|(_, task)| task.reservation.is_some())
        {
            assert_eq!(
                (task.0.faults.swap_ins, task.0.faults.evictions),
                (0, 0),
                "seed {seed}: {:#?}",
                task.0
            );
        }
    }
}

/// What the advice says a choice costs is what the core's books show in the run.
#[test]
fn the_frames_promised_are_those_held() {
    let (mut compared, mut locked) = (0, 0);
    for seed in seeds() {
        let (mut asking, _) = automatic(seed);
        asking
            .reservations
            .iter_mut()
            .for_each(|reservation| reservation.kind = ReservationKind::Hard);
        for region in asking
            .regions
            .iter_mut()
            .filter(|region| region.sharing == Sharing::None)
        {
            region.sharing = Sharing::Spc;
        }
        let scenario = checked(asking);
        let decision = decide(&scenario).unwrap();
        let Ok(outcome) = simulate(&scenario, &Options::default()) else {
            continue;
        };
        for advice in &decision.advice {
            let region = scenario.region_index(&advice.name).unwrap().get();
            let decided = decision.scenario.reservations.iter().zip(&outcome.result.reservations);
            let mapping: Vec<_> = decided.filter(|(found, _)| found.regions[region].mapped).collect();
            // Frames that locks of other regions give back, and growth for them, are not this region's.
            let elsewhere = |(position, used): (usize, &RegionUse)| position != region && !used.locks.is_empty();
            if mapping
                .iter()
                .any(|(found, _)| found.regions.iter().enumerate().any(elsewhere))
            {
                continue;
            }
            let held: u64 = mapping.iter().map(|(_, found)| found.frames.held).sum();
            let promised = match advice.choice {
                Some(Sharing::Spel) => advice.frames_spel,
                _ => advice.frames_spc,
            };
            assert_eq!(held, promised, "seed {seed}: {advice:#?}");
            compared += 1;
            locked += u64::from(advice.choice == Some(Sharing::Spel));
        }
    }
    assert!(compared > 100 && locked > 20, "{compared} {locked}");
}
