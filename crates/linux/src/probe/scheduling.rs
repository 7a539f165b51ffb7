//! Trials of scheduling policies and PI futexes, in threads that end.

use super::trial::{ensure, say};
use super::{Finding, Item, Need, Status};
use crate::pi_mutex::PiMutex;
use crate::sched::{self, Deadline, DeadlineFlags, Policy, SetPolicyError};
use crate::{ThreadId, tick};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn all() -> Vec<Finding> {
    vec![fifo(), deadline(), pi_futex(), cpus(), throttling(), scheduler_tick()]
}

/// Sets `policy` in a short-lived thread and reads it back there.
fn set_and_read(policy: Policy) -> Result<Policy, String> {
    std::thread::scope(|scope| {
        let trial = move || {
            let thread = ThreadId::current();
            sched::set_policy(thread, policy).map_err(|error: SetPolicyError| error.to_string())?;
            say("read back", sched::policy(thread))
        };
        let thread = std::thread::Builder::new()
            .name("freehold-probe".to_owned())
            .spawn_scoped(scope, trial);
        say("thread", thread)?
            .join()
            .unwrap_or_else(|_| Err("the trial panicked".to_owned()))
    })
}

fn fifo() -> Finding {
    let item = Item {
        name: "sched-fifo",
        need: Need::Recommended,
        why: "tasks of class fifo run before everything else; otherwise their jobs compete with time sharing",
        fix: "run as root, grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (ulimit -r, rtprio in limits.conf); where the \
              control group has a cpu.rt_runtime_us of 0, give it some, or leave it",
    };
    let wanted = Policy::Fifo { priority: 1 };
    item.tried(set_and_read(wanted).and_then(|got| {
        ensure(got == wanted, &format!("the kernel reports {got:?}"))?;
        Ok("priority 1 was set".to_owned())
    }))
}

fn deadline() -> Finding {
    let item = Item {
        name: "sched-deadline",
        need: Need::Recommended,
        why: "tasks of class deadline are reserved their budget by the kernel",
        fix: "run as root or grant CAP_SYS_NICE; let the process use all CPUs of its cpuset; leave bandwidth free",
    };
    let wanted = Policy::Deadline(Deadline {
        runtime: Duration::from_millis(1),
        deadline: Duration::from_millis(100),
        period: Duration::from_millis(100),
        flags: DeadlineFlags::NONE,
    });
    item.tried(set_and_read(wanted).and_then(|got| {
        ensure(got == wanted, &format!("the kernel reports {got:?}"))?;
        Ok("1 ms every 100 ms was admitted".to_owned())
    }))
}

fn pi_futex() -> Finding {
    let item = Item {
        name: "pi-futex",
        need: Need::Required,
        why: "a preempted holder of the core's lock inherits the priority of who waits for it",
        fix: "kernel with CONFIG_FUTEX_PI (CONFIG_RT_MUTEXES)",
    };
    let mutex = PiMutex::new(());
    let start = Barrier::new(2);
    let waiting = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            start.wait();
            waiting.store(true, Ordering::Release);
            mutex.lock_checked().map(|_| ())
        });
        let guard = mutex.lock_checked();
        start.wait();
        while !waiting.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // Long enough that the waiter is most likely in the kernel; the answer is right even if not.
        std::thread::sleep(Duration::from_millis(1));
        drop(guard);
        waiter.join()
    });
    item.tried(match result {
        Ok(Ok(())) => Ok("a contended mutex was handed over".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the trial panicked".to_owned()),
    })
}

fn cpus() -> Finding {
    let item = Item {
        name: "cpus",
        need: Need::Optional,
        why: "a server's pager runs beside its client, best effort elsewhere; one CPU makes them share",
        fix: "allow more CPUs (cpuset, taskset); nothing is needed on a machine with one",
    };
    match sched::allowed_cpus() {
        Ok(cpus) if cpus.len() > 1 => item.found(Status::Present, format!("{} allowed: {cpus:?}", cpus.len())),
        Ok(cpus) => item.found(Status::Limited, format!("{} allowed: {cpus:?}", cpus.len())),
        Err(error) => item.found(Status::Absent, error.to_string()),
    }
}

fn throttling() -> Finding {
    let item = Item {
        name: "rt-throttling",
        need: Need::Optional,
        why: "the share of CPU time that real-time tasks may have, which admission counts; SCHED_FIFO beyond it stops",
        fix: "sysctl kernel.sched_rt_runtime_us (-1 lifts the limit, and the protection against a runaway task)",
    };
    match sched::rt_throttling() {
        Ok(limit) => match limit.runtime {
            None => item.found(Status::Present, "no limit"),
            Some(runtime) if runtime.is_zero() => item.found(Status::Absent, "real-time tasks may not run at all"),
            Some(runtime) => item.found(Status::Present, format!("{runtime:?} of every {:?}", limit.period)),
        },
        Err(error) => item.found(Status::Absent, error.to_string()),
    }
}

fn scheduler_tick() -> Finding {
    let item = Item {
        name: "tick",
        need: Need::Optional,
        why: "SCHED_DEADLINE budgets are enforced at ticks: runtimes should be several times longer",
        fix: "nothing to do; a kernel with CONFIG_HZ=1000 enforces more finely",
    };
    match tick::period() {
        Ok(period) => item.found(Status::Present, format!("{period:?}")),
        Err(errno) => item.found(Status::Absent, errno.to_string()),
    }
}
