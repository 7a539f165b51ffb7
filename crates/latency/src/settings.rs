//! What is measured.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::load::Load;

/// The shortest interval, which leaves a thread time to sleep.
const SHORTEST: Duration = Duration::from_micros(100);
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(10);

/// Where the load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In the process of the measured thread.
    Shared,
    /// In a process of its own.
    Separate,
}

impl Space {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Separate => "separate",
        }
    }
}

/// The time from one wake-up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    shortest: Duration,
    longest: Duration,
}

impl Interval {
    /// Always the same.
    ///
    /// # Errors
    /// [`IntervalError`] where it is not from 100 us to 10 s.
    pub fn fixed(span: Duration) -> Result<Self, IntervalError> {
        Self::between(span, span)
    }

    /// Evenly spread over a range.
    ///
    /// # Errors
    /// [`IntervalError`] where it is not from 100 us to 10 s, or ends before it begins.
    pub fn between(shortest: Duration, longest: Duration) -> Result<Self, IntervalError> {
        let fits = SHORTEST <= shortest && shortest <= longest && longest <= LONGEST;
        fits.then_some(Self { shortest, longest }).ok_or(IntervalError)
    }

    /// The shortest.
    #[must_use]
    pub fn shortest(self) -> Duration {
        self.shortest
    }

    /// The interval number `turn`. Those of a range follow a Weyl sequence, which spreads evenly and never repeats.
    #[must_use]
    pub(crate) fn number(self, turn: u64) -> Duration {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let fraction = turn.wrapping_mul(GOLDEN) >> 32;
        let range = self.longest.saturating_sub(self.shortest).as_nanos();
        let part = (range * u128::from(fraction)) >> 32;
        self.shortest + Duration::from_nanos(u64::try_from(part).unwrap_or(0))
    }
}

/// An interval outside what can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an interval is from 100us to 10s long, and a range begins with its shorter end")]
pub struct IntervalError;

impl fmt::Display for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shortest, longest) = (self.shortest.as_micros(), self.longest.as_micros());
        if shortest == longest {
            write!(formatter, "{shortest}")
        } else {
            write!(formatter, "{shortest}..{longest}")
        }
    }
}

/// What is measured, for how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// 1 (least urgent) to 98: one more is left for nobody's sake but the kernel's own threads.
    pub priority: u32,
    /// Between two wake-ups.
    pub interval: Interval,
    /// How long each combination of space and load is measured, all its slices together.
    pub duration: Duration,
    /// Where the thread, its reference and the load run.
    pub cpu: usize,
    /// At least one.
    pub spaces: Vec<Space>,
    /// At least one.
    pub loads: Vec<Load>,
    /// Whether `cyclictest` is measured in turns too.
    pub peer: bool,
    /// Where a histogram ends, in microseconds; later wake-ups are counted as overflow.
    pub bound: u64,
}

impl Settings {
    /// The longest part that is measured without a change.
    pub(crate) const SLICE: Duration = Duration::from_secs(2);

    /// How long a whole measurement takes, but for what starts and ends slices.
    #[must_use]
    pub fn takes(&self) -> Duration {
        let peers = if self.peer { self.loads.len() } else { 0 };
        let combinations = u32::try_from(self.spaces.len() * self.loads.len() + peers).unwrap_or(u32::MAX);
        self.duration.saturating_mul(combinations)
    }

    /// How many slices each combination has, and how long each is.
    pub(crate) fn slices(&self) -> (u32, Duration) {
        let count = u32::try_from(self.duration.as_nanos().div_ceil(Self::SLICE.as_nanos()))
            .unwrap_or(u32::MAX)
            .max(1);
        (count, self.duration / count)
    }
}

/// A word that names no space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no space: write shared, separate, or both")]
pub struct SpaceError(String);

/// One space or both, as an option names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spaces(pub Vec<Space>);

impl FromStr for Spaces {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Self, SpaceError> {
        match text {
            "shared" => Ok(Self(vec![Space::Shared])),
            "separate" => Ok(Self(vec![Space::Separate])),
            "both" => Ok(Self(vec![Space::Shared, Space::Separate])),
            other => Err(SpaceError(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Interval, IntervalError};

    #[test]
    fn intervals_of_a_range_spread_over_it_evenly() {
        let milliseconds = Duration::from_millis;
        let interval = Interval::between(milliseconds(2), milliseconds(30)).unwrap();
        let mut quarters = [0; 4];
        for turn in 0..4000 {
            let span = interval.number(turn);
            assert!(milliseconds(2) <= span && span < milliseconds(30));
            quarters[usize::try_from((span.as_millis() - 2) / 7).unwrap()] += 1;
        }
        assert!(
            quarters.iter().all(|&count| (980..1020).contains(&count)),
            "{quarters:?}"
        );
        assert_eq!(Interval::fixed(milliseconds(3)).unwrap().number(7), milliseconds(3));
    }

    #[test]
    fn an_interval_in_which_nobody_sleeps_is_refused() {
        assert_eq!(Interval::fixed(Duration::from_micros(99)), Err(IntervalError));
        assert_eq!(
            Interval::between(Duration::from_millis(2), Duration::from_millis(1)),
            Err(IntervalError)
        );
        assert_eq!(Interval::fixed(Duration::from_secs(11)), Err(IntervalError));
    }
}
