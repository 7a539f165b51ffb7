//! The deadline class of a periodic program's main thread.

use std::time::Duration;

use clap::ValueEnum;
use freehold_linux::sched::{Deadline, DeadlineFlags, Policy, SetPolicyError, policy, set_policy};
use freehold_linux::{ThreadId, tick};

use crate::exit_status::Failure;
use crate::output;

/// A thread for which a page is being brought is held on its CPU meanwhile, and the kernel gives the class to none that
/// may not run on all: so often it is asked again, so long after each refusal.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// How the main thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// SCHED_DEADLINE with budget and period
    Deadline,
    /// As it begins: nobody enforces the budget
    None,
}

/// Puts the main thread into the deadline class, if it is to have it, and says so.
///
/// # Errors
/// The kernel refuses it.
pub fn give(thread: ThreadId, period: Duration, budget: Duration, class: Class) -> Result<(), Failure> {
    if class == Class::None {
        let class = policy(thread).map_or_else(|error| error.to_string(), class_name);
        output::note(&format!(
            "freehold: thread {} (main) is not put into the deadline class and has {class}: nobody enforces its \
             budget, and there is no swap budget",
            thread.get()
        ));
        return Ok(());
    }
    let wanted = Policy::Deadline(Deadline {
        runtime: budget,
        deadline: period,
        period,
        flags: DeadlineFlags::NONE,
    });
    let before = policy(thread);
    set(thread, wanted).map_err(|error| Failure::Run(format!("--period, --budget: {error}")))?;
    let tick = tick::period().map_or_else(|_| "an unknown tick".to_owned(), |tick| format!("a tick of {tick:?}"));
    output::note(&format!(
        "freehold: thread {} (main) has the deadline class, {budget:?} in {period:?}, enforced at {tick}; threads and \
         processes that it makes have not",
        thread.get()
    ));
    if let Ok(before) = before
        && before != (Policy::Other { nice: 0 })
    {
        output::note(&format!(
            "freehold: the deadline class replaces the one that the thread had, {}: --class none leaves it that",
            class_name(before)
        ));
    }
    Ok(())
}

fn set(thread: ThreadId, wanted: Policy) -> Result<(), SetPolicyError> {
    for _ in 1..TRIES {
        match set_policy(thread, wanted) {
            Err(SetPolicyError::NotPermitted) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    set_policy(thread, wanted)
}

/// What Linux calls a class.
#[must_use]
pub fn class_name(policy: Policy) -> String {
    match policy {
        Policy::Other { .. } => "SCHED_OTHER".to_owned(),
        Policy::Fifo { priority } => format!("SCHED_FIFO, priority {priority}"),
        Policy::Deadline(_) => "SCHED_DEADLINE".to_owned(),
        Policy::Unused(number) => format!("scheduling policy {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, set};
    use freehold_linux::ThreadId;
    use freehold_linux::sched::{Deadline, DeadlineFlags, Policy, SetPolicyError, affinity, pin, policy, set_affinity};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_thread_that_is_held_on_one_cpu_gets_its_class_when_it_is_let_go() {
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        let thread = ThreadId::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let cpus = affinity(thread).unwrap();
        let (runtime, period) = (Duration::from_millis(1), Duration::from_millis(100));
        let wanted = Policy::Deadline(Deadline {
            runtime,
            deadline: period,
            period,
            flags: DeadlineFlags::NONE,
        });
        let first = (0..).find(|cpu| cpus.is_set(*cpu)).unwrap();
        pin(thread, first).unwrap();
        let never = set(thread, wanted);
        let later = std::thread::scope(|scope| {
            let later = scope.spawn(|| set(thread, wanted));
            std::thread::sleep(5 * PAUSE);
            set_affinity(thread, &cpus).unwrap();
            later.join().unwrap()
        });
        let has = policy(thread);
        let _ = child.kill();
        let _ = child.wait();
        if cpus.count() == 1 {
            return println!("NOT CHECKED: there is one CPU only");
        }
        assert_eq!(never, Err(SetPolicyError::NotPermitted));
        if later == Err(SetPolicyError::NotPermitted) {
            return println!("NOT CHECKED: no right to have the deadline class, or let go too late");
        }
        assert_eq!((later, has), (Ok(()), Ok(wanted)));
    }
}
