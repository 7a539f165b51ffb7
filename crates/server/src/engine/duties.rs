//! What every dispatch of a pager thread sees to at its end, and when a thread is to be called for it again: one table.
//!
//! Most of it concerns the whole engine, whichever pager thread comes to it. Where a step of the control thread makes
//! such a duty due while all pager threads sleep for longer, it wakes one of them.

use crate::engine::Engine;

/// Nanoseconds after which forks and pages that were put off are looked at again, if no event comes.
const LOOK_AGAIN: u64 = 200_000;

/// One duty.
#[derive(Clone, Copy)]
struct Duty {
    /// Does what is due of it.
    carry_out: fn(&mut Engine),
    due: Due,
}

/// When it is due next, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy)]
enum Due {
    /// Any pager thread may come to it.
    Common(fn(&Engine) -> Option<u64>),
    /// It is this pager thread's own.
    Own(fn(&Engine, usize) -> Option<u64>),
}

/// A time that has come.
const AT_ONCE: u64 = 0;

/// All duties, in the order in which they are carried out.
const DUTIES: [Duty; 13] = [
    own(Engine::tear_down_for_waiters, never),
    own(Engine::release_held, never),
    common(Engine::give_fork_copies, Engine::fork_copies_due),
    common(Engine::end_unconnected, Engine::unconnected_due),
    common(Engine::end_periods, Engine::periods_due),
    common(Engine::tell_immovable, Engine::immovable_due),
    own(Engine::restore, Engine::restore_due),
    common(Engine::take_back_lent, Engine::lent_due),
    common(Engine::watch, Engine::watch_due),
    // Each step does these where they are due.
    own(nothing, Engine::prefetch_due),
    own(nothing, Engine::transfer_due),
    common(nothing, Engine::deferred_due),
    common(nothing, Engine::eviction_due),
];

const fn common(carry_out: fn(&mut Engine), due: fn(&Engine) -> Option<u64>) -> Duty {
    let due = Due::Common(due);
    Duty { carry_out, due }
}

const fn own(carry_out: fn(&mut Engine), due: fn(&Engine, usize) -> Option<u64>) -> Duty {
    let due = Due::Own(due);
    Duty { carry_out, due }
}

const fn nothing(_: &mut Engine) {}

const fn never(_: &Engine, _: usize) -> Option<u64> {
    None
}

impl Engine {
    /// Carries out all duties: when this pager thread is to be called again at the latest.
    pub(super) fn carry_out_duties(&mut self, pager: usize) -> Option<u64> {
        self.step.goes_on = false;
        for duty in &DUTIES {
            (duty.carry_out)(self);
        }
        let all = DUTIES.iter().filter_map(|duty| match duty.due {
            Due::Common(due) => due(self),
            Due::Own(due) => due(self, pager),
        });
        let due = if self.step.goes_on { Some(AT_ONCE) } else { all.min() };
        self.fork_children.stopped = false;
        due
    }

    /// A step of the control thread has put something off: pager threads that sleep do not know of it.
    pub(super) fn wake_for_due(&self) {
        let all = DUTIES.iter().filter_map(|duty| match duty.due {
            Due::Common(due) => due(self),
            Due::Own(_) => None,
        });
        if all.min().is_some_and(|due| self.threads.sleep_past(due)) {
            self.io.completions.wake(0);
        }
    }

    /// What somebody waits for, once faults that wait for it have been looked at again.
    fn tear_down_for_waiters(&mut self) {
        if self.tear_down_awaited() {
            self.step.goes_on = true;
            self.settle();
        }
    }

    fn release_held(&mut self) {
        if let Some(thread) = self.step.held.take() {
            thread.release();
        }
    }

    fn fork_copies_due(&self) -> Option<u64> {
        self.fork_children.stopped.then(|| self.soon())
    }

    fn eviction_due(&self) -> Option<u64> {
        self.backing.eviction_batch.has_put_off().then(|| self.soon())
    }

    fn prefetch_due(&self, pager: usize) -> Option<u64> {
        self.has_deferred_prefetch(pager).then_some(AT_ONCE)
    }

    fn soon(&self) -> u64 {
        self.step.now.get() + LOOK_AGAIN
    }
}
