//! Policies and affinity, set and read back in threads that end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, AffinityError, Deadline, DeadlineFlags, GetPolicyError, Policy, SetPolicyError};
use std::time::Duration;

fn in_thread<T: Send>(body: impl FnOnce(ThreadId) -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| body(ThreadId::current())).join().unwrap())
}

fn deadline(runtime: u64, period: u64) -> Policy {
    let (runtime, period) = (Duration::from_millis(runtime), Duration::from_millis(period));
    Policy::Deadline(Deadline {
        runtime,
        deadline: period,
        period,
        flags: DeadlineFlags::NONE,
    })
}

/// Whether the right is there; if not, says so in the test's output.
fn permitted(result: Result<(), SetPolicyError>) -> bool {
    match result {
        Ok(()) => true,
        Err(SetPolicyError::NotPermitted) => {
            println!("NOT CHECKED: {}", SetPolicyError::NotPermitted);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn policies_are_set_and_read_back() {
    let flagged = Deadline {
        runtime: Duration::from_millis(2),
        deadline: Duration::from_millis(50),
        period: Duration::from_millis(100),
        flags: DeadlineFlags::RECLAIM | DeadlineFlags::OVERRUN_SIGNAL,
    };
    for policy in [
        Policy::Other { nice: 3 },
        Policy::Fifo { priority: 7 },
        deadline(2, 100),
        Policy::Deadline(flagged),
    ] {
        in_thread(|me| {
            if permitted(sched::set_policy(me, policy)) {
                assert_eq!(sched::policy(me), Ok(policy));
            }
        });
    }
}

#[test]
fn a_deadline_thread_may_start_threads_and_change_its_runtime() {
    in_thread(|me| {
        if !permitted(sched::set_policy(me, deadline(5, 100))) {
            return;
        }
        sched::set_policy(me, deadline(10, 100)).unwrap();
        let child = in_thread(|child| sched::policy(child).unwrap());
        assert_eq!(child, Policy::Other { nice: 0 });
        sched::set_policy(me, Policy::Other { nice: 0 }).unwrap();
    });
}

#[test]
fn another_threads_policy_is_set() {
    let (send, receive) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let before = sched::policy(ThreadId::current());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            send.send(ThreadId::current()).unwrap();
            let _ = stopped.recv();
        });
        let other = receive.recv().unwrap();
        if permitted(sched::set_policy(other, Policy::Fifo { priority: 2 })) {
            assert_eq!(sched::policy(other), Ok(Policy::Fifo { priority: 2 }));
        }
        assert_eq!(sched::policy(ThreadId::current()), before);
        drop(stop);
    });
}

#[test]
fn impossible_parameters_and_threads_are_named() {
    let reversed = deadline(20, 10);
    in_thread(|me| {
        let before = sched::policy(me);
        assert_eq!(sched::set_policy(me, reversed), Err(SetPolicyError::Invalid(reversed)));
        let unused = Policy::Unused(3);
        assert_eq!(sched::set_policy(me, unused), Err(SetPolicyError::Invalid(unused)));
        let urgent = Policy::Fifo { priority: 100 };
        assert_eq!(sched::set_policy(me, urgent), Err(SetPolicyError::Invalid(urgent)));
        assert_eq!(sched::policy(me), before);
    });
    let nobody = ThreadId::from_raw(i32::MAX).unwrap();
    assert_eq!(sched::policy(nobody), Err(GetPolicyError::NoSuchThread(nobody.get())));
    assert_eq!(
        sched::set_policy(nobody, deadline(1, 10)),
        Err(SetPolicyError::NoSuchThread(nobody.get()))
    );
    assert_eq!(
        sched::affinity(nobody).err(),
        Some(AffinityError::NoSuchThread(nobody.get()))
    );
}

#[test]
fn pinning_restricts_only_the_thread_pinned() {
    let before = sched::allowed_cpus().unwrap();
    let cpu = *before.last().unwrap();
    in_thread(|me| {
        sched::pin(me, cpu).unwrap();
        assert_eq!(sched::allowed_cpus().unwrap(), [cpu]);
        assert_eq!(sched::pin(me, 1023), Err(AffinityError::NoUsableCpu));
        assert_eq!(sched::pin(me, 100_000), Err(AffinityError::NoUsableCpu));
        if before.len() > 1 {
            // A pinned thread is refused, and the message says why that may be.
            let error = sched::set_policy(me, deadline(1, 100)).unwrap_err();
            assert_eq!(error, SetPolicyError::NotPermitted);
        } else {
            println!("NOT CHECKED: pinning excludes SCHED_DEADLINE (one CPU only)");
        }
    });
    in_thread(|me| {
        if before.len() > 1 && permitted(sched::set_policy(me, deadline(1, 100))) {
            assert_eq!(sched::pin(me, cpu), Err(AffinityError::DeadlineThread));
        }
    });
    assert_eq!(sched::allowed_cpus().unwrap(), before);
}
