//! Pictures of runs, from what the engines recorded.
//!
//! - [`report()`] writes a page: tables, execution histories as in the paper's Figures 3, 8 and 9, frames over time,
//!   response times, late jobs by cause; several runs side by side. One file that refers to no other and needs no
//!   script.
//! - [`frame_page()`] draws the frame times of players, as in the paper's Figure 11.
//! - [`trace()`] writes the same events for Perfetto.
//!
//! Nothing here reads a clock or a file: the same runs always give the same bytes. No input makes it panic.
#![forbid(unsafe_code)]

mod chart;
mod html;
mod label;
mod number;
mod page;
mod svg;
mod trace;

pub use page::{FrameHistory, frame_page, report};
pub use trace::trace;

use freehold_scenario::Scenario;
use freehold_scenario::recording::{Recording, TaskRecording};
use freehold_scenario::results::{Engine, RunResult, TaskResult};

/// A run to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What was run.
    pub scenario: &'a Scenario,
    /// Its document. Every number that a picture says in words comes from here.
    pub result: &'a RunResult,
    /// What happened when. Every shape comes from here.
    pub recording: &'a Recording,
}

impl<'a> Run<'a> {
    fn task_name(&self, position: usize) -> &'a str {
        self.result.tasks.get(position).map_or("?", |task| &task.name)
    }

    fn region_name(&self, position: usize) -> &'a str {
        self.result.regions.get(position).map_or("?", |region| &region.name)
    }

    /// The rows of execution histories: what was recorded of every task, with its result and, where that is not all,
    /// until when.
    fn tasks(&self) -> impl Iterator<Item = (&'a TaskRecording, &'a TaskResult, Option<u64>)> {
        let lost = self.recording.lost;
        let tasks = self.recording.tasks.iter().zip(&self.result.tasks);
        tasks.map(move |(recorded, result)| {
            let until = recorded.spans.last().map_or(0, |span| span.to_ns);
            let ended = recorded.jobs.last().map_or(0, |job| job.end_ns);
            let missing = ended > until || (recorded.jobs.len() as u64) < result.jobs;
            (recorded, result, (lost > 0 && missing).then_some(until))
        })
    }

    fn engine_name(&self) -> &'static str {
        match self.result.head.engine {
            Engine::Sim => "simulated",
            Engine::Live => "live",
        }
    }
}
