//! A thread that waits for a page, held on the CPU where it faulted until it has been woken.
//!
//! Only while it is blocked, so that it cannot see it: it gets back what it had. Where somebody has changed its CPUs
//! meanwhile, theirs hold. Threads of the deadline class are not held: they come back to their CPU by themselves, and
//! the kernel refuses it.

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, CpuSet};
use std::sync::LazyLock;

static ALL: LazyLock<CpuSet> = LazyLock::new(|| {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    all
});

/// A thread that is held.
#[derive(Debug)]
pub(crate) struct AffinityHold {
    thread: ThreadId,
    before: CpuSet,
    held: CpuSet,
}

impl AffinityHold {
    /// Holds a thread of the kernel's word; `None` where it may run on this CPU only, or not at all, or where that is
    /// refused: then it is woken wherever the kernel likes.
    pub(crate) fn hold(thread: u32, cpu: usize) -> Option<Self> {
        let thread = ThreadId::from_raw(i32::try_from(thread).ok()?)?;
        let before = sched::affinity(thread).ok()?;
        if before.count() < 2 || cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) {
            return None;
        }
        let mut held = CpuSet::new();
        held.set(cpu);
        sched::set_affinity(thread, &held).ok()?;
        Some(Self { thread, before, held })
    }

    /// Gives the thread back its CPUs.
    pub(crate) fn release(self) {
        // Ended, or changed by somebody else.
        if sched::affinity(self.thread).ok() != Some(self.held) {
            return;
        }
        // All that its cpuset allows is what a thread has of which nobody ever asked otherwise: so it follows when the
        // cpuset is widened.
        let whole = sched::set_affinity(self.thread, &ALL).and_then(|()| sched::affinity(self.thread));
        if whole.ok() != Some(self.before) {
            // It can have ended only.
            let _ = sched::set_affinity(self.thread, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AffinityHold;
    use freehold_linux::ThreadId;
    use freehold_linux::sched;

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let me = ThreadId::current();
        let before = sched::affinity(me).expect("the CPUs");
        let cpus = sched::allowed_cpus().expect("the CPUs");
        let [first, second, ..] = cpus[..] else {
            return println!("not tested: there is one CPU only");
        };
        let held = AffinityHold::hold(me.get(), second).expect("it is held");
        assert_eq!(sched::allowed_cpus().expect("the CPUs"), [second]);
        assert!(AffinityHold::hold(me.get(), second).is_none(), "it may run there only");
        held.release();
        assert_eq!(sched::affinity(me).expect("the CPUs"), before);

        let held = AffinityHold::hold(me.get(), first).expect("it is held");
        sched::pin(me, second).expect("somebody else changes it");
        held.release();
        assert_eq!(
            sched::allowed_cpus().expect("the CPUs"),
            [second],
            "what they said holds"
        );
        assert!(AffinityHold::hold(me.get(), first).is_none(), "it may not run there");
        sched::set_affinity(me, &before).expect("as it was");
    }
}
