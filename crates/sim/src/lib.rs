//! Freehold in virtual time.
//!
//! [`simulate`] runs a scenario: the policy core (`freehold-core`) decides about memory exactly as it does in the live
//! engine, and everything else (CPUs, tasks, the store, what goes wrong) is simulated. The same scenario gives the same
//! outcome, always and everywhere: nothing here reads a clock, draws an unseeded number or follows a hash order.
//!
//! - [`Outcome`] holds the document of `freehold run` and, where [`Options`] asks for it, when each task ran
//!   ([`Interval`]), the exact order of everything for lockstep ([`Schedule`]), what each reservation faulted on
//!   and evicted ([`PageEvent`]), and what happened when ([`Recording`](freehold_scenario::recording::Recording)), for
//!   pictures and traces.
//! - [`decide`] settles regions under `auto`, from the [`profile`](profile()) of a run with room for all; [`advise`]
//!   says what it would choose for any region, and why.
//! - [`differential()`] tests the master law, non-interference, on one scenario.
//! - [`replay`] runs traces of file pages against a page cache and the victim cache behind it.
//! - [`component`] runs threads that call from component to component and wait for transient memory (paper 004).
//! - [`random_scenario`] makes small and nasty scenarios from a seed, for tests of anything that runs scenarios.
//!
//! # What is simulated, and how
//!
//! **CPUs.** Preemptive, global within `cpus`. Deadline tasks (earliest deadline first, each within a hard
//! constant-bandwidth server that throttles it when its budget is used up and replenishes it at its next period; the
//! rule on wake-up is that of `SCHED_DEADLINE`), above fifo tasks (fixed priority, first come first served among
//! equals), above best-effort tasks (turns of [`QUANTUM`]). SchedEvents and migrations cost nothing.
//!
//! **Jobs.** Releases never skip, a late job delays the next. A job makes the accesses of the scenario's generator,
//! each at `costs.access` plus its share of the computation. An access faults if the task's own page table says so;
//! the core learns of nothing else. A fault costs CPU time of its own: `soft_fault` (also for write permission, and
//! for a fault that fails), `zero_fill` (also for a copy), `swap_in` (also for a file), `eviction` for each page
//! evicted for it, and for each that is read ahead `swap_in` less the `soft_fault` that it costs when it is
//! touched. A fault that does not wait is over at once, its cost paid after; one that waits pays when the task runs
//! again.
//!
//! **The store.** Requests queue for `parallel` channels of one `latency` per page: those of deadline tasks first,
//! then of fifo tasks by priority, then of all others, equals in the order of their arrival. Write-backs are
//! asynchronous, and each counts as of the task whose fault caused it. A waiting task spins, charged to its budget,
//! or suspends itself: as `memory.swap.wait` says, else by the latency.
//! `[faults]` makes requests late, fail, or overtake each other (each then takes one to two latencies). An access
//! whose fault fails is left out and counted in [`TaskExtras::errors`]; the job goes on.
//!
//! **Time 0.** Locks are in place before any task is released, at no cost in virtual time. Tasks that have not started
//! yet, or have stopped, are known to the core all the same.
//!
//! **Oracles.** Beside the core's own check of its books, every effect is checked against frames, contents and page
//! tables kept here without looking into the core: content read back is what was written last, pages go only after
//! their last mapping, frames in use never exceed the pool, every fault ends once, and after the end, when the
//! store is left to finish, nobody is left waiting. What they find is in the document's `laws`.
//!
//! # Finding a bug again
//!
//! A test that fails with a random scenario prints its seed; `FREEHOLD_SIM_SEED=n FREEHOLD_SIM_SCENARIOS=1 cargo test
//! -p freehold-sim` runs it alone, and the example `seed` prints the scenario as a file. With `FREEHOLD_SIM_SCENARIOS`
//! large the same tests are a soak.
#![forbid(unsafe_code)]

mod account;
mod advice;
pub mod component;
mod counts;
mod cpu;
mod device;
mod differential;
mod engine;
mod error;
mod event_log;
mod history;
mod job;
mod laws;
mod ledger;
mod lockstep;
mod options;
mod outcome;
mod page_table;
mod physical;
mod pinned;
mod profile;
mod random;
mod random_devices;
pub mod replay;
mod rng;
mod runner;
mod schedule;
mod sequence;
mod store;
mod tape;
mod usage;
mod world;

pub use advice::{Decision, advise, decide, run_decided};
pub use device::DeviceChange;
pub use differential::{Agreement, Difference, compare_alone, differential, not_comparable};
pub use error::SimError;
pub use history::{Activity, Interval};
pub use lockstep::{Schedule, Step};
pub use options::Options;
pub use outcome::{Outcome, TaskExtras, simulate};
pub use profile::{Profile, RegionProfile, ample, profile};
pub use random::{LOAD_NEIGHBOUR, LOAD_TASK, Mix, random_load, random_scenario};
pub use random_devices::device_scenario;
pub use schedule::best_effort::QUANTUM;
pub use sequence::{Change, PageEvent};
