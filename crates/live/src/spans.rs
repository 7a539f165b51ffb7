//! What a task did when, from its jobs and from what kept it off its work.

use freehold_pager::WaitEvent;
use freehold_rt::job::Job;
use freehold_scenario::recording::{Span, TaskState};

use crate::compute::{LEAST_PREEMPTION, Preemption};

/// Waits, what follows them without a CPU, and preemptions in one list, ascending. They exclude each other: a thread
/// that waits in a fault computes nothing.
pub(crate) fn interruptions(waits: &[WaitEvent], preempted: &[Preemption]) -> Vec<Span> {
    let waits = waits.iter().flat_map(|wait| {
        let state = if wait.spun {
            TaskState::StoreSpin
        } else {
            TaskState::StoreWait
        };
        let (from_ns, to_ns) = (wait.from.get(), wait.to.get());
        let resumed = wait.resumed.get();
        let late = Span {
            from_ns: to_ns,
            to_ns: resumed,
            state: TaskState::Ready,
        };
        let late = (resumed - to_ns >= LEAST_PREEMPTION).then_some(late);
        std::iter::once(Span { from_ns, to_ns, state }).chain(late)
    });
    let preempted = preempted.iter().map(|preemption| Span {
        from_ns: preemption.from,
        to_ns: preemption.to,
        state: TaskState::Ready,
    });
    let mut all: Vec<Span> = waits.chain(preempted).collect();
    all.sort_by_key(|span| span.from_ns);
    all
}

/// The spans of jobs, which follow each other, with `interruptions` cut out of them. Before its start a periodic job
/// is ready, as soon as it is released and the one before it is over; a task without a period never sleeps in between.
pub(crate) fn of<'a>(jobs: impl Iterator<Item = &'a Job>, interruptions: &[Span], periodic: bool) -> Vec<Span> {
    let mut spans = Spans(Vec::new());
    let mut rest = interruptions.iter().copied().peekable();
    let mut over = 0;
    for job in jobs {
        let began = job.finished || !job.cpu.is_zero();
        let start = if began { job.start } else { job.finish };
        if periodic {
            spans.push(job.release.max(over), start, TaskState::Ready);
        } else if over > 0 {
            spans.push(over, start, TaskState::Running);
        }
        let mut at = start;
        while let Some(interruption) = rest.next_if(|span| span.from_ns < job.finish) {
            let from = interruption.from_ns.max(at);
            let to = interruption.to_ns.min(job.finish).max(from);
            spans.push(at, from, TaskState::Running);
            spans.push(from, to, interruption.state);
            at = to;
        }
        spans.push(at, job.finish, TaskState::Running);
        over = over.max(job.finish);
    }
    // Of jobs that were not kept only the interruptions are known.
    for Span { from_ns, to_ns, state } in rest {
        spans.push(from_ns.max(over), to_ns, state);
    }
    spans.0
}

struct Spans(Vec<Span>);

impl Spans {
    /// Appends, and joins what is alike; nothing for no time.
    fn push(&mut self, from_ns: u64, to_ns: u64, state: TaskState) {
        if to_ns <= from_ns {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.to_ns == from_ns && last.state == state => last.to_ns = to_ns,
            _ => self.0.push(Span { from_ns, to_ns, state }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{interruptions, of};
    use crate::compute::Preemption;
    use freehold_core::units::Instant;
    use freehold_pager::WaitEvent;
    use freehold_rt::job::{Job, Split};
    use freehold_scenario::recording::{Span, TaskState};
    use std::time::Duration;

    fn job(release: u64, start: u64, finish: u64) -> Job {
        Job {
            number: 0,
            release,
            start,
            finish,
            finished: true,
            cpu: Duration::from_nanos(finish - start),
            split: Split::default(),
            late: false,
        }
    }

    fn wait(from: u64, to: u64, spun: bool) -> WaitEvent {
        late_wait(from, to, to, spun)
    }

    fn late_wait(from: u64, to: u64, resumed: u64, spun: bool) -> WaitEvent {
        let (from, to, resumed) = (Instant::new(from), Instant::new(to), Instant::new(resumed));
        WaitEvent {
            from,
            to,
            resumed,
            spun,
        }
    }

    fn spans(list: &[Span]) -> Vec<(u64, u64, TaskState)> {
        list.iter().map(|span| (span.from_ns, span.to_ns, span.state)).collect()
    }

    #[test]
    fn waits_and_preemptions_are_cut_out_of_the_jobs() {
        use TaskState::{Ready, Running, StoreSpin, StoreWait};
        let jobs = [job(100, 110, 200), job(150, 200, 300), job(400, 400, 450)];
        let preempted = [Preemption { from: 210, to: 240 }];
        let waits = [
            wait(120, 130, false),
            wait(130, 140, false),
            wait(250, 260, true),
            wait(500, 510, false),
        ];
        let all = interruptions(&waits, &preempted);
        let expected = vec![
            (100, 110, Ready),
            (110, 120, Running),
            (120, 140, StoreWait),
            (140, 210, Running),
            (210, 240, Ready),
            (240, 250, Running),
            (250, 260, StoreSpin),
            (260, 300, Running),
            (400, 450, Running),
            (500, 510, StoreWait),
        ];
        assert_eq!(spans(&of(jobs.iter(), &all, true)), expected);
    }

    #[test]
    fn a_task_that_resumes_late_is_ready_meanwhile() {
        let jobs = [job(0, 0, 900_000)];
        let waits = [late_wait(100, 200, 210, false), late_wait(300, 400, 500_400, false)];
        let expected = vec![
            (0, 100, TaskState::Running),
            (100, 200, TaskState::StoreWait),
            (200, 300, TaskState::Running),
            (300, 400, TaskState::StoreWait),
            (400, 500_400, TaskState::Ready),
            (500_400, 900_000, TaskState::Running),
        ];
        let all = interruptions(&waits, &[]);
        assert_eq!(spans(&of(jobs.iter(), &all, true)), expected);
    }

    #[test]
    fn a_task_without_a_period_does_not_sleep_between_its_jobs() {
        let jobs = [job(100, 100, 200), job(201, 201, 300)];
        assert_eq!(
            spans(&of(jobs.iter(), &[], false)),
            vec![(100, 300, TaskState::Running)]
        );
    }

    #[test]
    fn a_job_that_never_began_was_ready() {
        let mut unstarted = job(150, 150, 200);
        (unstarted.finished, unstarted.cpu) = (false, Duration::ZERO);
        let jobs = [job(100, 100, 170), unstarted];
        let expected = vec![(100, 170, TaskState::Running), (170, 200, TaskState::Ready)];
        assert_eq!(spans(&of(jobs.iter(), &[], true)), expected);
    }
}
