//! A whole measurement: every space and load, in turns.

use std::process::Command;

use freehold_linux::sched_events::{Happening, Record};

use crate::cyclictest::{self, PeerError};
use crate::load::Load;
use crate::power::Awake;
use crate::probe_thread::Wake;
use crate::report::{NoiseFloor, Report, Row};
use crate::settings::{Settings, Space};
use crate::slice::{self, Measured, SliceError};
use crate::tally::Tally;
use crate::timer::{self, Step};
use crate::{floor, load};

/// The levels that the kernel's events show, in the order in which a wake-up passes them.
const WAY: [&str; 4] = ["irq", "hrtimer", "waking", "switch"];

/// A measurement cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A slice failed.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// The peer failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

impl From<load::StartError> for SessionError {
    fn from(error: load::StartError) -> Self {
        Self::Slice(error.into())
    }
}

/// The tallies of one space and load.
struct Combination {
    space: Space,
    load: Load,
    thread: Tally,
    /// Since the timer's time: when its interrupt came, when the timer expired in it, when the thread was made ready,
    /// and when it was switched to.
    way: [Tally; 4],
}

/// Measures. `process` starts a load in a process of its own by calling [`load::serve`]. `events` adds the levels that
/// the kernel's events show.
///
/// # Errors
/// See [`SessionError`]: what is missing is named, and nothing lesser is measured in its place.
pub fn measure(settings: &Settings, events: bool, process: impl Fn(Load) -> Command) -> Result<Report, SessionError> {
    let awake = Awake::hold();
    let noise = floor::measure(settings.priority, settings.cpu)?;
    let mut combinations = combinations(settings);
    let mut peers: Vec<_> = peers(settings);
    let (count, span) = settings.slices();
    let mut turn = 0;
    for _ in 0..count {
        for combination in &mut combinations {
            let (load, space) = (combination.load, combination.space);
            let running = slice::start(load, space, settings.cpu, process(load))?;
            let measured = slice::measure(settings, span, turn, events)?;
            drop(running);
            turn += measured.wakes.len() as u64;
            combination.add(&measured);
        }
        for (load, tally) in &mut peers {
            let running = slice::start(*load, Space::Separate, settings.cpu, process(*load))?;
            cyclictest::measure(settings, span, tally)?;
            drop(running);
        }
    }
    let mut unavailable = Vec::new();
    let mut rows: Vec<_> = combinations
        .iter()
        .flat_map(|combination| combination.rows(events, &mut unavailable))
        .collect();
    for (load, tally) in &peers {
        let names = [Space::Separate.name(), load.name(), "thread"];
        rows.push(Row::new(names, Some("cyclictest"), tally));
    }
    unavailable.dedup();
    Ok(Report {
        priority: settings.priority,
        interval_us: settings.interval.to_string(),
        cpu: settings.cpu,
        cpu_dma_latency: awake.words(),
        noise_floor: NoiseFloor {
            us: noise.gaps,
            gaps_in_a_second: noise.in_a_second,
        },
        unavailable,
        rows,
    })
}

fn combinations(settings: &Settings) -> Vec<Combination> {
    let tally = || Tally::new(settings.bound);
    let pairs = settings
        .loads
        .iter()
        .flat_map(|&load| settings.spaces.iter().map(move |&space| (space, load)));
    pairs
        .map(|(space, load)| Combination {
            space,
            load,
            thread: tally(),
            way: [tally(), tally(), tally(), tally()],
        })
        .collect()
}

fn peers(settings: &Settings) -> Vec<(Load, Tally)> {
    let loads = settings.loads.iter().filter(|_| settings.peer);
    loads.map(|&load| (load, Tally::new(settings.bound))).collect()
}

impl Combination {
    fn add(&mut self, measured: &Measured) {
        self.thread.add(measured);
        for wake in &measured.wakes {
            for (tally, time) in self.way.iter_mut().zip(way(measured, wake)) {
                if let Some(time) = time {
                    tally.count(time.saturating_sub(wake.due.as_nanos()));
                }
            }
        }
    }

    fn rows(&self, events: bool, unavailable: &mut Vec<String>) -> Vec<Row> {
        let way = WAY.iter().zip(&self.way).filter(|_| events);
        let mut rows = Vec::new();
        for (level, tally) in way.chain([(&"thread", &self.thread)]) {
            if tally.wakeups() == 0 && *level != "thread" {
                unavailable.push(format!("{level}: the kernel lets its events not be read here"));
                continue;
            }
            rows.push(Row::new([self.space.name(), self.load.name(), level], None, tally));
        }
        rows
    }
}

/// When each step of [`WAY`] was taken of a wake-up, where it is known.
fn way(measured: &Measured, wake: &Wake) -> [Option<u64>; 4] {
    let (due, end) = (wake.due.as_nanos(), wake.woke.as_nanos());
    let at = measured.records.partition_point(|record| record.time < wake.due);
    let during = measured.records.get(at..).unwrap_or(&[]);
    let woken = first(during, Happening::Woken, end);
    let switched = first(during, Happening::On, end);
    let before = |step, until: Option<u64>| timer::last(&measured.triggers, step, due, until?);
    let expiry = before(Step::Expiry, woken.or(switched));
    [before(Step::Interrupt, expiry), expiry, woken, switched]
}

/// When something first happened, no later than `end`; in nanoseconds.
fn first(records: &[Record], what: Happening, end: u64) -> Option<u64> {
    let mut times = records.iter().filter(|record| record.what == what);
    times
        .next()
        .map(|record| record.time.as_nanos())
        .filter(|time| *time <= end)
}
