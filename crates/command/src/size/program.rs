//! Sizing the reservation of an unmodified program: the smallest in which, once it has started, it never has to wait
//! for a page that it had already.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_core::units::PAGE_SIZE;
use serde::Serialize;

use crate::size::search::{self, Range};
use freehold_linux::child::end_with_parent;
use rustix::process::Signal;

use crate::exit_status::Failure;
use crate::output::human_pages;
use crate::private_server::{PrivateServer, Served};
use crate::process;
use crate::progress::Progress;

/// Coarse steps: each trial takes as long as it measures.
const COARSE_STEPS: u32 = 10;
/// The smallest size tried: a program needs a few pages at once.
pub const LEAST: u32 = 256;
/// What the server has beside the reservation: pages that nobody has reserved.
const ROOM: u64 = 64 << 20;
/// How often a program that runs is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a program is tried with.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The largest size, in pages.
    pub from: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub step: u32,
    /// How long it is given to start.
    pub startup: Duration,
    /// How long it is watched then.
    pub watch: Duration,
    /// Pages that may be brought in while it is watched, beyond those in the largest size.
    pub allow: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandAnswer {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The smallest size in pages; none where even the largest is too small.
    pub pages: Option<u32>,
    /// The same in bytes.
    pub bytes: Option<u64>,
    /// The largest size tried that fails, in pages.
    pub failing_pages: Option<u32>,
    /// How many sizes were tried.
    pub tried: u32,
    /// The largest size tried, in pages.
    pub from_pages: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub step_pages: u32,
    /// Pages brought in while it was watched in the largest size: what it had not touched before.
    pub brought_from: u64,
    /// The same in the smallest size that holds.
    pub brought: u64,
    /// The same in the size that fails.
    pub brought_failing: Option<u64>,
    /// How long it was given to start.
    pub startup_ns: u64,
    /// How long it was watched then.
    pub watch_ns: u64,
}

/// Finds the smallest size in which the program has to wait for no more pages, once started, than in the largest.
///
/// # Errors
/// A server or program that cannot be started, a program that ends while it starts, a largest size that is too small
/// already, or a stop.
pub fn smallest(trial: &Trial, stop: &AtomicBool) -> Result<CommandAnswer, Failure> {
    let server = PrivateServer::start("--from", u64::from(trial.from) * PAGE_SIZE + ROOM, stop)?;
    let mut brought: Vec<(u32, u64)> = Vec::new();
    let range = Range {
        from: trial.from,
        to: LEAST,
        step: trial.step,
        coarse: COARSE_STEPS,
    };
    let found = search::walk(range, |pages| {
        let watched = watch(trial, &server, pages, stop)?;
        let allowed = brought
            .first()
            .map_or(u64::MAX, |(_, first)| first.saturating_add(trial.allow));
        if brought.is_empty() && watched.evictions > 0 {
            return Err(Failure::Input(format!(
                "--from: in {} pages are evicted already: name a larger size",
                human_pages(pages.into())
            )));
        }
        brought.push((pages, watched.brought()));
        Ok(watched.brought() <= allowed)
    })?;
    let in_size = |size: Option<u32>| {
        brought
            .iter()
            .rev()
            .find(|(pages, _)| Some(*pages) == size)
            .map(|(_, count)| *count)
    };
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(CommandAnswer {
        command: trial
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        pages: found.smallest,
        bytes: found.smallest.map(|pages| u64::from(pages) * PAGE_SIZE),
        failing_pages: found.failing,
        tried: found.tried,
        from_pages: range.from,
        step_pages: range.step,
        brought_from: in_size(Some(range.from)).unwrap_or(0),
        brought: in_size(found.smallest).unwrap_or(0),
        brought_failing: in_size(found.failing),
        startup_ns: nanoseconds(trial.startup),
        watch_ns: nanoseconds(trial.watch),
    })
}

/// A program under test, ended when this value is dropped.
struct UnderTest(Child);

impl Drop for UnderTest {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}

/// What happened to the program in `pages` frames after its start; its evictions from the beginning.
fn watch(trial: &Trial, server: &PrivateServer, pages: u32, stop: &AtomicBool) -> Result<Served, Failure> {
    let shown = human_pages(pages.into());
    let _progress = Progress::start(&format!("trying {shown}"), Some(trial.startup + trial.watch));
    let known = server.programs()?;
    let words = server.exec(u64::from(pages) * PAGE_SIZE, &[])?;
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Failure::Run("no command".to_owned()))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .args(&trial.command)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    end_with_parent(&mut command, Signal::TERM);
    let child = command.spawn();
    let mut child = UnderTest(child.map_err(|error| Failure::Run(format!("freehold exec: {error}")))?);
    let pid = server.next_program(&known, stop)?;
    process::pause(trial.startup, stop)?;
    let early = || Failure::Input("the command ended while it started: give --startup a shorter time".to_owned());
    let started = server.served(pid)?.ok_or_else(early)?;
    let (mut last, end) = (started, Instant::now() + trial.watch);
    while Instant::now() < end && matches!(child.0.try_wait(), Ok(None)) {
        process::pause(LOOK, stop)?;
        // A program that has ended leaves what it had when last seen.
        last = server.served(pid)?.unwrap_or(last);
    }
    Ok(Served {
        file_reads: last.file_reads.saturating_sub(started.file_reads),
        swap_ins: last.swap_ins.saturating_sub(started.swap_ins),
        lost: last.lost.saturating_sub(started.lost),
        soft_faults: last.soft_faults.saturating_sub(started.soft_faults),
        evictions: last.evictions,
    })
}
