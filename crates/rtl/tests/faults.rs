//! Faults of the time-sharing side do not reach a separate task; what shares its memory ends with it.

mod common;

use std::sync::{Mutex, PoisonError};

use common::World;
use freehold_rtl::campaign;
use freehold_rtl::inject::Fault;

/// One campaign at a time: the task that is late by itself would hold the other's up on their CPU.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_separate_task_keeps_its_periods_and_its_fifo_through_every_fault() {
    let Some(world) = World::new("faults") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let report = campaign::run(&world.directory, 64, 7).expect("the separate task goes on");
    println!("{report:#?}");
    assert_eq!(report.faults.len(), Fault::ALL.len());
    assert!(report.faults.values().all(|toll| toll.separate_ended == 0));
    assert_eq!(report.missed, 0);
    assert_eq!((report.torn, report.disordered), (0, 0));
    assert!(report.messages > 0 && report.periods > 0);
    // Each of these ends the process, and what shares it.
    for fault in [Fault::Kill, Fault::Stop] {
        let toll = report.faults[&fault];
        assert_eq!(toll.shared_ended, toll.injected, "{fault:?}");
    }
    assert!(report.restarts >= 16);
    // Each was noticed, and said.
    assert!(report.corrupt_claims >= report.faults[&Fault::CorruptFifos].injected);
    assert!(report.corruption_said);
}

/// Campaigns until enough can be judged. On a machine that holds the reference thread up all the time nothing can.
const CAMPAIGNS: u64 = 8;
/// A look is at more than twice as many periods as one in which the task is late.
const ENOUGH: u64 = 4;

#[test]
fn a_task_that_is_late_by_its_own_fault_is_not_excused() {
    let Some(world) = World::new("own-fault") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in 7..7 + CAMPAIGNS {
        let report = campaign::run_late(&world.directory, 24, seed, 40).expect("the separate task goes on");
        println!("{report:#?}");
        assert_eq!(report.looks, 24);
        if report.judged_looks >= ENOUGH {
            assert!(report.missed > 0, "nothing was found of what the task does");
            return;
        }
    }
    panic!("the machine is too slow to judge anything");
}
