//! A replay: what is asked for, and the policies one after the other behind one page cache.

use super::behind::Behind;
use super::orders;
use super::outcome::Replayed;
use super::page_cache::Remainder;
use super::trace::Trace;
use freehold_core::units::FrameCount;
use freehold_core::victim_cache::error::SpecError;
use freehold_core::victim_cache::{Placement, Policy};

/// How places are chosen, as paper 003 (section 5.4) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By distance from the least recently put page, by buckets.
    Lru,
    /// The same by a walk through all pages.
    LruExact,
    /// By the number of pages.
    Count,
    /// Any place.
    Random,
    /// The best order of fixed places.
    Static,
    /// By the number of pages whose next use would be a hit if no device ever opened.
    Optimal,
}

/// What rows of kind `D` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// Evictions of the recorded machine's own page cache: nothing.
    Evictions,
    /// The pages are gone for good.
    Flush,
}

/// What a trace is replayed against.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames of the page cache, at least one.
    pub page_cache: FrameCount,
    /// Frames of the victim cache; none: the page cache stands alone.
    pub cache: FrameCount,
    /// Devices: names and sizes.
    pub devices: Vec<(String, FrameCount)>,
    /// How places are chosen.
    pub choice: Choice,
    /// Which are possible.
    pub placement: Placement,
    /// The seed of [`Choice::Random`].
    pub seed: u64,
    /// What rows of kind `D` mean.
    pub deletes: Deletes,
}

/// A trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The setup's fault.
    #[error("{0}")]
    Setup(String),
    /// The trace's fault: it opens what is open, or closes what is closed.
    #[error("line {row}: device `{device}`: {message}")]
    Device {
        /// The row.
        row: u64,
        /// The device's name.
        device: String,
        /// What is wrong.
        message: String,
    },
}

impl From<SpecError> for ReplayError {
    fn from(error: SpecError) -> Self {
        Self::Setup(error.to_string())
    }
}

/// Replays a trace. `clock` tells nanoseconds, for how long choices take; nothing depends on it.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(trace: &Trace, setup: &Setup, clock: &mut dyn FnMut() -> u64) -> Result<Replayed, ReplayError> {
    let mut replayed = replay_choices(trace, setup, &[setup.choice], clock)?;
    replayed
        .pop()
        .ok_or_else(|| ReplayError::Setup("there is no policy".to_owned()))
}

/// Replays a trace under each of several choices instead of the setup's own, in their order. The page cache in front is
/// gone through once.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay_choices(
    trace: &Trace,
    setup: &Setup,
    choices: &[Choice],
    clock: &mut dyn FnMut() -> u64,
) -> Result<Vec<Replayed>, ReplayError> {
    if setup.page_cache.is_zero() {
        return Err(ReplayError::Setup("the page cache needs at least one page".to_owned()));
    }
    let begin = clock();
    let remainder = Remainder::of(trace, setup);
    let shared = clock().saturating_sub(begin);
    let mut one = |choice: &Choice| {
        let setup = Setup {
            choice: *choice,
            ..setup.clone()
        };
        let begin = clock();
        let mut replayed = behind(trace, &remainder, &setup, clock)?;
        replayed.wall_ns = shared + clock().saturating_sub(begin);
        Ok(replayed)
    };
    choices.iter().map(&mut one).collect()
}

/// What lies behind the page cache, under one choice.
fn behind(
    trace: &Trace,
    remainder: &Remainder,
    setup: &Setup,
    clock: &mut dyn FnMut() -> u64,
) -> Result<Replayed, ReplayError> {
    let policy = match setup.choice {
        Choice::Lru => Policy::Lru,
        Choice::LruExact => Policy::LruExact,
        Choice::Count | Choice::Optimal => Policy::Worth,
        Choice::Random => Policy::Random { seed: setup.seed },
        Choice::Static => return orders::best(trace, remainder, setup, clock),
    };
    let behind = Behind::new(trace, remainder, setup, policy)?;
    let replayed = behind.run(u64::MAX, clock)?;
    replayed.ok_or_else(|| ReplayError::Setup("the replay has no end".to_owned()))
}
