//! Emulated latency: transfers pass through a few channels, first come, first served.

use freehold_core::units::{Duration, Instant};
use freehold_linux::pi_mutex::PiMutex;

/// `parallel` channels, each busy for `latency` with one transfer at a time.
#[derive(Debug)]
pub(crate) struct Channels {
    latency: Duration,
    /// When each channel is free again.
    free_at: PiMutex<Box<[Instant]>>,
}

impl Channels {
    pub(crate) fn new(latency: Duration, parallel: u16) -> Self {
        let free_at = vec![Instant::ZERO; usize::from(parallel)].into_boxed_slice();
        Self {
            latency,
            free_at: PiMutex::new(free_at),
        }
    }

    /// Takes the channel that is free earliest; returns when the transfer is due. O(channels).
    ///
    /// Due times never decrease from one call to the next if `now` does not.
    pub(crate) fn occupy(&self, now: Instant) -> Instant {
        let mut free_at = self.free_at.lock();
        let Some(earliest) = free_at.iter_mut().min() else {
            return now.saturating_add(self.latency);
        };
        let due = now.max(*earliest).saturating_add(self.latency);
        *earliest = due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::Channels;
    use freehold_core::units::{Duration, Instant};

    #[test]
    fn one_channel_serves_in_order_of_arrival() {
        let channels = Channels::new(Duration::new(10), 1);
        assert_eq!(channels.occupy(Instant::new(100)), Instant::new(110));
        assert_eq!(channels.occupy(Instant::new(101)), Instant::new(120));
        assert_eq!(channels.occupy(Instant::new(500)), Instant::new(510));
    }

    #[test]
    fn channels_work_side_by_side() {
        let channels = Channels::new(Duration::new(10), 2);
        let due: Vec<u64> = [0, 0, 0, 0, 15]
            .map(|now| channels.occupy(Instant::new(now)).get())
            .to_vec();
        assert_eq!(due, [10, 10, 20, 20, 30]);
    }

    #[test]
    fn without_latency_a_transfer_is_due_at_once() {
        let channels = Channels::new(Duration::ZERO, 1);
        assert_eq!(channels.occupy(Instant::new(7)), Instant::new(7));
        assert_eq!(channels.occupy(Instant::new(7)), Instant::new(7));
    }
}
