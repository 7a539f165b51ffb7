//! Sizing the reservation of an unmodified program: the smallest in which, once it has started, it never has to wait
//! for a page that it had already.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_core::units::PAGE_SIZE;
use freehold_scenario::{parse_size, parse_time};
use serde::Serialize;

use super::search::{self, Range};
use freehold_linux::child::end_with_parent;
use rustix::process::Signal;

use crate::output::{self, human_pages, human_time};
use crate::programs::{self, PrivateServer, Served};
use crate::progress::Progress;
use crate::signals;
use crate::status::{Failure, Status};

/// Coarse steps: each trial takes as long as it measures.
const COARSE_STEPS: u32 = 10;
/// 1 MiB.
const STEP: u32 = 256;
/// The smallest size tried: a program needs a few pages at once.
const LEAST: u32 = 256;
/// What the server has beside the reservation: pages that nobody has reserved.
const ROOM: u64 = 64 << 20;
/// How often a program that runs is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Options for sizing a program.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TrialArguments {
    /// Command: the largest size tried, in which the program must find room for everything
    #[arg(long, value_name = "SIZE", default_value = "128MiB", requires = "command")]
    from: String,
    /// Command: how long the program is given to start
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "command")]
    startup: String,
    /// Command: how long it is watched then
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "command")]
    watch: String,
    /// Command: how many pages more than in the largest size may be brought in meanwhile
    #[arg(long, value_name = "PAGES", default_value_t = 0, requires = "command")]
    allow: u64,
    /// A program and its arguments, run under the memory server in each size
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What a program is tried with.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The largest size, in pages.
    pub(crate) from: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub(crate) step: u32,
    /// How long it is given to start.
    pub(crate) startup: Duration,
    /// How long it is watched then.
    pub(crate) watch: Duration,
    /// Pages that may be brought in while it is watched, beyond those in the largest size.
    pub(crate) allow: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CommandAnswer {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// The smallest size in pages; none where even the largest is too small.
    pub(crate) pages: Option<u32>,
    /// The same in bytes.
    pub(crate) bytes: Option<u64>,
    /// The largest size tried that fails, in pages.
    pub(crate) failing_pages: Option<u32>,
    /// How many sizes were tried.
    pub(crate) tried: u32,
    /// The largest size tried, in pages.
    pub(crate) from_pages: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub(crate) step_pages: u32,
    /// Pages brought in while it was watched in the largest size: what it had not touched before.
    pub(crate) brought_from: u64,
    /// The same in the smallest size that holds.
    pub(crate) brought: u64,
    /// The same in the size that fails.
    pub(crate) brought_failing: Option<u64>,
    /// How long it was given to start.
    pub(crate) startup_ns: u64,
    /// How long it was watched then.
    pub(crate) watch_ns: u64,
}

/// Runs the subcommand for a program.
pub(super) fn run(arguments: &TrialArguments, step: Option<u32>, json: bool) -> Result<Status, Failure> {
    let trial = trial(arguments, step)?;
    let stop = signals::catch()?;
    let answer = smallest(&trial, &stop)?;
    if json {
        output::print_json(&answer)?;
    } else {
        output::print(&page(&answer))?;
    }
    Ok(if answer.pages.is_some() {
        Status::Done
    } else {
        Status::Failed
    })
}

fn trial(arguments: &TrialArguments, step: Option<u32>) -> Result<Trial, Failure> {
    let from = parse_size(&arguments.from).map_err(|message| Failure::Input(format!("--from: {message}")))?;
    let from = u32::try_from(from.get() / PAGE_SIZE).unwrap_or(u32::MAX);
    if from < LEAST {
        let least = human_pages(LEAST.into());
        return Err(Failure::Input(format!("--from: a program needs {least} at the least")));
    }
    let time = |option: &str, text: &str| {
        let time = parse_time(text).map_err(|message| Failure::Input(format!("{option}: {message}")))?;
        Ok::<Duration, Failure>(Duration::from_nanos(time.get()))
    };
    Ok(Trial {
        command: arguments.command.clone(),
        from,
        step: step.unwrap_or(STEP),
        startup: time("--startup", &arguments.startup)?,
        watch: time("--watch", &arguments.watch)?,
        allow: arguments.allow,
    })
}

/// Finds the smallest size in which the program has to wait for no more pages, once started, than in the largest.
///
/// # Errors
/// A server or program that cannot be started, a program that ends while it starts, a largest size that is too small
/// already, or a stop.
pub(crate) fn smallest(trial: &Trial, stop: &AtomicBool) -> Result<CommandAnswer, Failure> {
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
        programs::end(&mut self.0);
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
    programs::pause(trial.startup, stop)?;
    let early = || Failure::Input("the command ended while it started: give --startup a shorter time".to_owned());
    let started = server.served(pid)?.ok_or_else(early)?;
    let (mut last, end) = (started, Instant::now() + trial.watch);
    while Instant::now() < end && matches!(child.0.try_wait(), Ok(None)) {
        programs::pause(LOOK, stop)?;
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

fn page(answer: &CommandAnswer) -> String {
    let (startup, watch) = (human_time(answer.startup_ns), human_time(answer.watch_ns));
    let from = human_pages(answer.from_pages.into());
    let Some(pages) = answer.pages else {
        return format!("no size up to {from} is enough\n");
    };
    let mut text = format!(
        "smallest reservation of {}: {}\n",
        answer.command.join(" "),
        human_pages(pages.into())
    );
    text.push_str(&format!(
        "  pages brought in during {watch} after {startup}: {}; in {from}: {} ({} sizes tried)\n",
        answer.brought, answer.brought_from, answer.tried
    ));
    text.push_str(&match (answer.failing_pages, answer.brought_failing) {
        (Some(failing), Some(brought)) => format!("  in {}: {brought}\n", human_pages(failing.into())),
        _ => "  no smaller size could be tried\n".to_owned(),
    });
    text
}
