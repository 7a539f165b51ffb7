//! The same by iceoryx2, where a program that does it is named (`experiments/tmem/iceoryx2`).

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, Policy};

use super::{URGENT, on_cpu};
use crate::bench::named_program::NamedProgram;
use crate::bench::rounds::{Samples, refused};
use freehold_command::exit_status::Failure;

/// Names the program.
pub(super) const VARIABLE: &str = "FREEHOLD_ICEORYX2";
/// What it says when it can be asked.
const READY: &str = "ready";

/// A program that answers.
#[derive(Debug)]
pub(super) struct Iceoryx2(NamedProgram);

impl Iceoryx2 {
    /// None where no program is named. It stays on that CPU, with all processes that it starts.
    pub(super) fn start(cpu: usize, what: &str) -> Result<Option<Self>, Failure> {
        let Some(mut program) = on_cpu(cpu, None, || NamedProgram::start(VARIABLE, [what]))? else {
            return Ok(None);
        };
        if program.line()? != READY {
            return Err(refused(format!(
                "{VARIABLE}: not the program of experiments/tmem/iceoryx2"
            )));
        }
        Ok(Some(Self(program)))
    }

    /// Gives its own thread the priority of who calls. What it has started stays as it is.
    pub(super) fn urgent(&self) -> Result<(), Failure> {
        let thread = i32::try_from(self.0.id()).ok().and_then(ThreadId::from_raw);
        let thread = thread.ok_or_else(|| refused("no process"))?;
        sched::set_policy(thread, Policy::Fifo { priority: URGENT }).map_err(refused)
    }

    /// Has it work so often; each time is of `events`.
    pub(super) fn measure(&mut self, count: u32, events: u64, samples: &mut Samples) -> Result<(), Failure> {
        let answer = self.0.ask(&count.to_string())?;
        let times: Vec<u64> = answer.split_whitespace().map_while(|time| time.parse().ok()).collect();
        if times.len() as u64 != u64::from(count) {
            return Err(refused(format!("{VARIABLE}: {} of {count} times", times.len())));
        }
        times.iter().for_each(|time| samples.record_mean(*time, events));
        Ok(())
    }
}
