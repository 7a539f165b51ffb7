//! A wait for a unit: how long it takes to block, have the holder go on, and get the unit from it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use freehold_linux::pi_word::{Scope, lock, unlock};
use freehold_linux::sched::{self, Policy};
use freehold_linux::{ThreadId, clock, futex};

use super::{BOUND, HOLDER, URGENT, on_cpu, one_cpu, pool};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const WAITS: u32 = 2_000;

/// `cbuf-contended`.
pub(in crate::bench) const CONTENDED: Bench = Bench {
    name: "cbuf-contended",
    about: "a thread of priority 30 waits for the only buffer, which one of priority 10 on its CPU has",
    floor: "the same wait for a bare PI futex",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.2,
    run,
};

/// What both threads do: whoever has the thing rings, is preempted by the waiter, and releases it when it runs again.
trait Thing: Sync {
    type Held;
    fn take(&self) -> Option<Self::Held>;
    fn release(&self, held: Self::Held) -> bool;
}

struct Bare(AtomicU32);

impl Thing for Bare {
    type Held = ();

    fn take(&self) -> Option<()> {
        let own = ThreadId::current().get();
        let free = self
            .0
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        let taken = free || lock(&self.0, Scope::Shared, Some(clock::now().saturating_add(BOUND))).is_ok();
        taken.then_some(())
    }

    fn release(&self, (): ()) -> bool {
        let own = ThreadId::current().get();
        let free = self
            .0
            .compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        free || unlock(&self.0, Scope::Shared).is_ok()
    }
}

struct Ours(freehold_tmem::Pool);

impl Thing for Ours {
    type Held = usize;

    fn take(&self) -> Option<usize> {
        self.0.take(64).ok().map(|buffer| buffer.start.addr())
    }

    fn release(&self, start: usize) -> bool {
        self.0.release(std::ptr::without_provenance(start)).is_ok()
    }
}

pub(super) fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let (bare, ours) = (Bare(AtomicU32::new(0)), Ours(pool(1, 1, 0)?));
    let (cpu, waits) = (one_cpu()?, effort.scaled(WAITS));
    found.alternate(
        effort,
        |samples| contend(samples, &bare, cpu, waits),
        |samples| contend(samples, &ours, cpu, waits),
    )?;
    let contended = ours.0.usage().contended;
    found.row(
        "waits of ours",
        f64::from(u32::try_from(contended).unwrap_or(u32::MAX)),
        "",
    );
    Ok(found)
}

fn contend<T: Thing>(samples: &mut Samples, thing: &T, cpu: usize, waits: u32) -> Result<(), Failure> {
    let (doorbell, done, ready) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
    on_cpu(cpu, Some(HOLDER), || {
        let waiter = |samples: &mut Samples| -> Result<(), Failure> {
            sched::set_policy(ThreadId::current(), Policy::Fifo { priority: URGENT }).map_err(refused)?;
            ready.store(true, Ordering::Release);
            let mut seen = 0;
            while !done.load(Ordering::Acquire) {
                let rung = doorbell.load(Ordering::Acquire);
                if rung == seen {
                    let _ = futex::wait(&doorbell, seen, None);
                    continue;
                }
                seen = rung;
                let held = samples.time(|| thing.take()).ok_or_else(|| refused("a wait failed"))?;
                if !thing.release(held) {
                    return Err(refused("a release failed"));
                }
            }
            Ok(())
        };
        thread::scope(|threads| {
            // The affinity of this thread is the other's too.
            let waiter = threads.spawn(|| waiter(samples));
            // It begins with this thread's priority, on the same CPU.
            while !ready.load(Ordering::Acquire) && !waiter.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            let mut failed = false;
            for _ in 0..waits {
                // The waiter may have died of an error: then nothing is contended any more, and the join tells.
                let Some(held) = thing.take() else {
                    failed = true;
                    break;
                };
                doorbell.fetch_add(1, Ordering::Release);
                futex::wake(&doorbell, 1);
                failed |= !thing.release(held);
            }
            done.store(true, Ordering::Release);
            doorbell.fetch_add(1, Ordering::Release);
            futex::wake(&doorbell, 1);
            let ended = waiter.join().unwrap_or_else(|_| Err(refused("the waiter failed")));
            if failed {
                Err(refused("the holder failed"))
            } else {
                ended
            }
        })
    })
}
