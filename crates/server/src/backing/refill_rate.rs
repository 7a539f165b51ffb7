//! How quickly frames are taken.
//!
//! While the machine has plenty, a tenth of a CPU is enough, at first a third of a hundredth, so that programs that
//! start meanwhile notice little of it. Frames of a reservation that ends soon are then hardly taken at all, which is
//! what a command of a tenth of a second would otherwise pay most for.
//!
//! Plenty is so much that the rest could still be taken if every CPU began to take memory as fast as it can. Where
//! there is less, the thread does not rest, and goes before others of normal class if it may.

use freehold_linux::ThreadId;
use freehold_linux::available::memory_available;
use freehold_linux::sched::{self, Policy};
use std::time::{Duration, Instant};

/// So few frames are taken at once, in a millisecond.
const FEW: usize = 1024;
/// Between two batches.
const REST: Duration = Duration::from_micros(400);
/// The same while programs start for which frames are taken, so long.
const REST_AT_FIRST: Duration = Duration::from_millis(25);
const AT_FIRST: Duration = Duration::from_millis(500);
/// From one look at what the machine has to the next.
const LOOK: Duration = Duration::from_millis(50);
/// More than a CPU can take of memory from one look to the next.
const BETWEEN_LOOKS: u64 = 512 << 20;
const FRAME: u64 = freehold_linux::PAGE_SIZE as u64;
/// A tenth of a CPU that a program of normal class wants too: programs that are starting just then want the CPUs.
const GENTLY: i32 = 10;
/// Three quarters of such a CPU: who takes the memory meanwhile wants it as well.
const BOOSTED: i32 = -5;

/// The thread that takes frames, and how it goes about it.
#[derive(Debug)]
pub(super) struct RefillRate {
    cpus: u64,
    /// When more than a few were missing first.
    begun: Option<Instant>,
    looked: Option<Instant>,
    plenty: bool,
    /// How nice it is; nothing where it may not be boosted, and so must not be nice: there is no way back.
    nice: Option<i32>,
}

impl RefillRate {
    /// The calling thread, where so many CPUs can take memory.
    pub(super) fn new(cpus: usize) -> Self {
        let mut refill_rate = Self {
            cpus: cpus as u64,
            begun: None,
            looked: None,
            plenty: true,
            nice: be(BOOSTED).then_some(BOOSTED),
        };
        refill_rate.want_cpu();
        refill_rate
    }

    /// A batch has been taken, and so many frames are still to be: how long to rest before the next.
    pub(super) fn go_on(&mut self, missing: usize) -> Duration {
        if missing <= FEW {
            self.begun = None;
            return Duration::ZERO;
        }
        let now = Instant::now();
        if self.is_time_to_look(now) {
            self.look(missing, memory_available().map(|(bytes, _)| bytes));
            self.want_cpu();
        }
        self.rest(now)
    }

    fn rest(&mut self, now: Instant) -> Duration {
        let begun = *self.begun.get_or_insert(now);
        match now.duration_since(begun) {
            _ if !self.plenty => Duration::ZERO,
            first if first < AT_FIRST => REST_AT_FIRST,
            _ => REST,
        }
    }

    fn is_time_to_look(&mut self, now: Instant) -> bool {
        let time = self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK);
        if time {
            self.looked = Some(now);
        }
        time
    }

    /// Judges what is `available`; who does not say has no plenty.
    fn look(&mut self, missing: usize, available: Option<u64>) {
        let others = (missing as u64 * FRAME).saturating_add(BETWEEN_LOOKS);
        let all = others.saturating_mul(self.cpus).saturating_add(missing as u64 * FRAME);
        self.plenty = available.is_some_and(|bytes| bytes >= all);
    }

    fn want_cpu(&mut self) {
        let nice = if self.plenty { GENTLY } else { BOOSTED };
        if self.nice.is_some_and(|before| before != nice && be(nice)) {
            self.nice = Some(nice);
        }
    }
}

fn be(nice: i32) -> bool {
    sched::set_policy(ThreadId::current(), Policy::Other { nice }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{AT_FIRST, BETWEEN_LOOKS, BOOSTED, FEW, FRAME, GENTLY, LOOK, REST, REST_AT_FIRST, RefillRate};
    use freehold_linux::ThreadId;
    use freehold_linux::sched::{self, Policy};
    use std::time::{Duration, Instant};

    #[test]
    fn it_rests_while_the_rest_could_still_be_taken() {
        let mut refill_rate = RefillRate::new(2);
        let enough = 2 * (1000 * FRAME + BETWEEN_LOOKS) + 1000 * FRAME;
        for (available, plenty) in [(Some(enough), true), (Some(enough - 1), false), (None, false)] {
            refill_rate.look(1000, available);
            assert_eq!(refill_rate.plenty, plenty, "{available:?}");
        }
        refill_rate.look(usize::MAX >> 12, Some(u64::MAX - 1));
        assert!(!refill_rate.plenty);
    }

    #[test]
    fn it_goes_before_others_where_there_is_little_if_it_may() {
        let mut refill_rate = RefillRate::new(1);
        if refill_rate.nice.is_none() {
            return println!("not tested: this process may not raise the priority of its threads (CAP_SYS_NICE)");
        }
        for (available, nice) in [(None, BOOSTED), (Some(u64::MAX), GENTLY)] {
            refill_rate.look(1, available);
            refill_rate.want_cpu();
            assert_eq!(sched::policy(ThreadId::current()), Ok(Policy::Other { nice }));
        }
    }

    #[test]
    fn it_rests_longer_at_first() {
        let (mut refill_rate, begin) = (RefillRate::new(1), Instant::now());
        assert_eq!(refill_rate.rest(begin), REST_AT_FIRST);
        assert_eq!(refill_rate.rest(begin + AT_FIRST), REST);
        assert_eq!(refill_rate.go_on(FEW), Duration::ZERO);
        let next = refill_rate.rest(begin + AT_FIRST);
        assert_eq!(next, REST_AT_FIRST, "what is next is another's");
        refill_rate.look(1, None);
        assert_eq!(refill_rate.rest(begin + AT_FIRST), Duration::ZERO);
    }

    #[test]
    fn it_looks_from_time_to_time_and_first_of_all() {
        let (mut refill_rate, begin) = (RefillRate::new(1), Instant::now());
        let after = |time: Duration| begin + time;
        assert!(refill_rate.is_time_to_look(begin));
        assert!(!refill_rate.is_time_to_look(after(LOOK / 2)));
        assert!(refill_rate.is_time_to_look(after(LOOK)));
        refill_rate.go_on(FEW);
        assert_eq!(refill_rate.looked, Some(after(LOOK)), "for a few it does not look");
    }
}
