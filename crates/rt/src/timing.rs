//! When jobs are released.

use std::time::Duration;

use freehold_linux::clock::MonotonicTime;

/// The releases of a task: from `first` on, every `period`, as long as they come before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The first release.
    pub first: MonotonicTime,
    /// The time between releases; none for a task that repeats its job without pause.
    pub period: Option<Duration>,
    /// A job is late that finishes later than this after its release.
    pub deadline: Option<Duration>,
    /// No release at or after this; jobs still open then are judged by it.
    pub end: MonotonicTime,
}

impl Timing {
    /// The release of job `number`, from zero; none where it is not released any more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use freehold_linux::clock::MonotonicTime;
    /// use freehold_rt::timing::Timing;
    ///
    /// let at = MonotonicTime::from_nanos;
    /// let period = Some(Duration::from_nanos(10));
    /// let timing = Timing { first: at(5), period, deadline: None, end: at(25) };
    /// assert_eq!(timing.release(1), Some(at(15)));
    /// assert_eq!(timing.release(2), None);
    /// ```
    #[must_use]
    pub fn release(&self, number: u64) -> Option<MonotonicTime> {
        let period = u64::try_from(self.period?.as_nanos()).unwrap_or(u64::MAX);
        let after = period.checked_mul(number)?;
        let release = MonotonicTime::from_nanos(self.first.as_nanos().checked_add(after)?);
        (release < self.end).then_some(release)
    }

    /// How many jobs are released in all; zero without a period.
    #[must_use]
    pub fn releases(&self) -> u64 {
        let span = u64::try_from(self.end.saturating_since(self.first).as_nanos()).unwrap_or(u64::MAX);
        let period = self
            .period
            .map_or(0, |period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        if period == 0 { 0 } else { span.div_ceil(period) }
    }
}
