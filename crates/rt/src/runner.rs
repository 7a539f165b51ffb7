//! The loop of a task's thread.

use std::ops::ControlFlow;

use crate::job::{Delays, Job};
use crate::pacer::Pacer;
use crate::record::Record;
use crate::stop::StopFlag;
use crate::timing::Timing;

/// What a task does.
pub trait Work {
    /// One job. It looks at the stop flag now and then, and breaks off when that is raised. `pacer` knows what has been
    /// released meanwhile.
    fn job(&mut self, number: u64, pacer: &Pacer) -> ControlFlow<()>;

    /// What memory has cost the calling thread so far.
    fn delays(&self) -> Delays;

    /// A job is over and written down; what can be done before the next release is done here.
    fn rest(&mut self, _job: &Job, _pacer: &Pacer) {}
}

/// Does a task's jobs on the calling thread, which has its class already, until its time is over or the flag is
/// raised, and writes each down.
pub fn run(timing: &Timing, stop: &StopFlag, work: &mut impl Work, record: &mut Record) {
    let mut pacer = Pacer::new(*timing);
    while let Some(number) = pacer.next(stop, || work.delays()) {
        let flow = work.job(number, &pacer);
        let Some(job) = pacer.end(flow.is_continue(), &work.delays()) else {
            break;
        };
        if job.finished || job.late {
            record.push(job);
        } else {
            record.open = Some(job);
        }
        if flow.is_break() {
            break;
        }
        work.rest(&job, &pacer);
    }
    pacer.judge_unstarted(stop, |job| record.push(job));
}
