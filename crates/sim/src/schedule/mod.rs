//! Who runs: three classes as Linux has them, each above the next. Deadline tasks, earliest deadline first within a
//! budget; fifo tasks by fixed priority; best-effort tasks by turns in what is left.
//!
//! Preemption and migration cost nothing. No time is kept back for best-effort tasks (as with real-time throttling
//! off).

pub(crate) mod best_effort;
pub(crate) mod deadline;
pub(crate) mod fixed_priority;

use freehold_scenario::{Class, Task};

use best_effort::Turn;
use deadline::Server;
use fixed_priority::Queued;

/// A ready task's claim to a CPU: the smaller goes first. Ties are broken by the position of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: u8,
    first: u64,
    second: u64,
}

/// How one task is scheduled.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    Deadline(Server),
    Fifo(Queued),
    BestEffort(Turn),
}

impl Policy {
    pub(crate) fn new(task: &Task) -> Self {
        match task.class {
            Class::Deadline => Self::Deadline(Server::new(task)),
            Class::Fifo { priority } => Self::Fifo(Queued::new(priority)),
            Class::BestEffort => Self::BestEffort(Turn::new()),
        }
    }

    /// The task becomes ready. `turn` is a running number.
    pub(crate) fn wake(&mut self, now: u64, turn: u64) {
        match self {
            Self::Deadline(server) => server.wake(now),
            Self::Fifo(queued) => queued.wake(turn),
            Self::BestEffort(best) => best.wake(turn),
        }
    }

    /// Its claim, if it may run.
    pub(crate) fn rank(&self) -> Option<Rank> {
        match self {
            Self::Deadline(server) => Some(Rank {
                class: 0,
                first: server.runs_until()?,
                second: 0,
            }),
            Self::Fifo(queued) => Some(Rank {
                class: 1,
                first: queued.order().0,
                second: queued.order().1,
            }),
            Self::BestEffort(turn) => Some(Rank {
                class: 2,
                first: turn.order(),
                second: 0,
            }),
        }
    }

    /// It ran for this long.
    pub(crate) fn consume(&mut self, time: u64) {
        match self {
            Self::Deadline(server) => server.consume(time),
            Self::Fifo(_) => {}
            Self::BestEffort(turn) => turn.consume(time),
        }
    }

    /// How long it may go on before its class has something to say.
    pub(crate) fn allowance(&self) -> u64 {
        match self {
            Self::Deadline(server) => server.left(),
            Self::Fifo(_) => u64::MAX,
            Self::BestEffort(turn) => turn.left(),
        }
    }

    /// Its allowance is used up while it runs. Whether its claim changed.
    pub(crate) fn exhaust(&mut self, now: u64, turn: u64) -> bool {
        match self {
            Self::Deadline(server) => server.throttle(now),
            Self::Fifo(_) => return false,
            Self::BestEffort(best) => best.wake(turn),
        }
        true
    }

    /// CPU time of one period from the next on; only a deadline task has a budget to change.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        if let Self::Deadline(server) = self {
            server.set_budget(budget);
        }
    }

    /// CPU time of the present period, where that is limited.
    pub(crate) fn budget(&self) -> Option<u64> {
        match self {
            Self::Deadline(server) => Some(server.budget()),
            Self::Fifo(_) | Self::BestEffort(_) => None,
        }
    }

    /// When its class wants to be called.
    pub(crate) fn timer(&self) -> Option<u64> {
        match self {
            Self::Deadline(server) => server.throttled_until(),
            Self::Fifo(_) | Self::BestEffort(_) => None,
        }
    }

    /// Its timer has come.
    pub(crate) fn expire(&mut self, now: u64) {
        if let Self::Deadline(server) = self {
            server.replenish(now);
        }
    }
}
