//! A token bucket: so many at once, so many a second.

use std::time::{Duration, Instant};

/// Counts what may still be done. The time is always the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Tokens a second.
    rate: f64,
    /// Tokens at most.
    burst: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            rate: f64::from(rate.max(1)),
            burst,
            level: burst,
            at: now,
        }
    }

    /// Takes `cost` tokens.
    ///
    /// # Errors
    /// How long it takes until they are there; nothing is taken. A cost above the burst is never there and costs the
    /// whole bucket.
    pub(crate) fn take(&mut self, cost: u32, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        let cost = f64::from(cost).min(self.burst);
        if self.level >= cost {
            self.level -= cost;
            return Ok(());
        }
        Err(Duration::from_secs_f64((cost - self.level) / self.rate))
    }

    /// Takes tokens, also those that are still to come.
    pub(crate) fn charge(&mut self, cost: u32, now: Instant) {
        self.fill(now);
        self.level -= f64::from(cost);
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.rate).min(self.burst);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(1, start), Ok(()));
        }
        let mut owing = Bucket::new(10, 3, start);
        owing.charge(10, start);
        let wait = owing.take(1, start).unwrap_err();
        assert!(
            wait > Duration::from_millis(799) && wait < Duration::from_millis(801),
            "{wait:?}"
        );
        let wait = bucket.take(1, start).unwrap_err();
        assert!(
            wait > Duration::from_millis(99) && wait < Duration::from_millis(101),
            "{wait:?}"
        );
        assert_eq!(bucket.take(1, start + Duration::from_millis(101)), Ok(()));
        assert!(bucket.take(1, start + Duration::from_millis(101)).is_err());
        // It never holds more than the burst, and time that goes back gives nothing.
        let later = start + Duration::from_secs(100);
        assert_eq!(bucket.take(3, later), Ok(()));
        assert!(bucket.take(1, start).is_err());
        assert!(bucket.take(1, later).is_err());
        // What costs more than the burst costs the burst.
        assert_eq!(bucket.take(99, later + Duration::from_secs(1)), Ok(()));
    }
}

/// `make verify`: every order of small requests and pauses, beside a count in whole tokens.
#[cfg(test)]
mod verify {
    use super::*;

    const STEPS: u32 = if cfg!(debug_assertions) { 6 } else { 8 };
    /// Tokens taken, or seconds that pass.
    const MOVES: [(u32, u64); 5] = [(1, 0), (2, 0), (9, 0), (0, 1), (0, 3)];

    #[test]
    fn nobody_gets_more_than_the_burst_and_the_rate() {
        let start = Instant::now();
        for burst in 1..=4_u32 {
            for rate in 1..=3_u32 {
                for order in 0..5_usize.pow(STEPS) {
                    let mut bucket = Bucket::new(rate, burst, start);
                    let (mut level, mut now, mut rest) = (burst, start, order);
                    for _ in 0..STEPS {
                        let (cost, seconds) = MOVES[rest % MOVES.len()];
                        rest /= MOVES.len();
                        now += Duration::from_secs(seconds);
                        level = burst.min(level + rate * u32::try_from(seconds).unwrap_or(0));
                        let costs = cost.min(burst);
                        assert_eq!(bucket.take(cost, now).is_ok(), costs <= level, "{order}");
                        if costs <= level {
                            level -= costs;
                        }
                    }
                }
            }
        }
    }
}
