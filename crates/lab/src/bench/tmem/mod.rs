//! Units, calls and buffers of components (docs/book/src/components.md), each beside the least that the machine needs.

mod calls;
mod contended;
mod iceoryx2;
mod passing;
mod peer;
mod table;
mod units;

pub(super) use calls::{CHAIN, SEPARATE, SHARED};
pub(super) use contended::CONTENDED;
pub(super) use passing::PASSING;
pub(crate) use peer::{Arguments, perform};
pub(crate) use table::{Operation, operations};
pub(super) use units::{MAP, PAIR, TAKE};

use freehold_linux::pi_word::Scope;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{PAGE_SIZE, ThreadId};
use freehold_tmem::{Pool, PoolSettings};
use std::time::Duration;

use super::rounds::refused;
use freehold_command::exit_status::Failure;

/// The priority of who calls, or waits.
const URGENT: u32 = 30;
/// The priority of who has a unit meanwhile.
const HOLDER: u32 = 10;
/// No wait here lasts so long, if all is well.
const BOUND: Duration = Duration::from_secs(10);

fn pool(units: usize, pages: usize, guard_pages: usize) -> Result<Pool, Failure> {
    Pool::create(PoolSettings {
        component: 1,
        units,
        unit_bytes: (pages + guard_pages) * PAGE_SIZE,
        minimum: 1,
        guard_pages,
        bound: BOUND,
        scope: Scope::Shared,
    })
    .map_err(refused)
}

/// A CPU on which everything of a benchmark runs.
fn one_cpu() -> Result<usize, Failure> {
    let cpus = sched::allowed_cpus().map_err(refused)?;
    cpus.last().copied().ok_or_else(|| refused("no CPU"))
}

/// Runs `work` in a thread of its own on that CPU, with a priority, or as an ordinary thread.
fn on_cpu<T: Send>(
    cpu: usize,
    priority: Option<u32>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let ended = std::thread::scope(|threads| {
        let thread = threads.spawn(move || {
            sched::pin(ThreadId::current(), cpu).map_err(refused)?;
            if let Some(priority) = priority {
                sched::set_policy(ThreadId::current(), Policy::Fifo { priority }).map_err(refused)?;
            }
            work()
        });
        thread.join()
    });
    ended.unwrap_or_else(|_| Err(refused("a thread of the benchmark failed")))
}
