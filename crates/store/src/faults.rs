//! Failures to inject, for tests and drills.

use crate::{RECORD_SIZE, Record};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Random failures. Each is the chance of one transfer or attempt, in parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomFaults {
    /// Reads that fail with `EIO`.
    pub fail_reads: u32,
    /// Writes that fail with `EIO`.
    pub fail_writes: u32,
    /// Attempts that transfer only half of a record, and say so.
    pub short: u32,
    /// Writes that leave half of a record behind and say that all is well: the worst a device can do.
    pub torn: u32,
}

const MILLION: u64 = 1_000_000;

/// What is to go wrong. All of it may be changed while transfers are under way.
#[derive(Debug, Default)]
pub struct Faults {
    /// Reads until one fails, that one included; 0 for none.
    read_in: AtomicU64,
    /// Writes until one fails, that one included; 0 for none.
    write_in: AtomicU64,
    /// Writes until one is torn, that one included; 0 for none.
    tear_in: AtomicU64,
    /// Attempts that are still to be short.
    short_left: AtomicU64,
    all_reads: AtomicBool,
    all_writes: AtomicBool,
    random: [AtomicU32; 4],
    /// The state of the generator.
    state: AtomicU64,
    struck: AtomicU64,
}

/// The places in `random`.
#[derive(Clone, Copy, Debug)]
enum Chance {
    Read,
    Write,
    Short,
    Torn,
}

impl Faults {
    /// The `n`th read from now on fails with `EIO` (1 is the next); 0 takes the order back.
    pub fn fail_read(&self, n: u64) {
        self.read_in.store(n, Ordering::Relaxed);
    }

    /// The `n`th write from now on fails with `EIO` (1 is the next); 0 takes the order back.
    pub fn fail_write(&self, n: u64) {
        self.write_in.store(n, Ordering::Relaxed);
    }

    /// The `n`th write from now on writes half of the record and succeeds (1 is the next); 0 takes the order back.
    pub fn tear_write(&self, n: u64) {
        self.tear_in.store(n, Ordering::Relaxed);
    }

    /// The next `n` attempts to transfer a record transfer half of it.
    pub fn shorten(&self, n: u64) {
        self.short_left.store(n, Ordering::Relaxed);
    }

    /// Every read fails with `EIO`, until told otherwise.
    pub fn fail_all_reads(&self, fail: bool) {
        self.all_reads.store(fail, Ordering::Relaxed);
    }

    /// Every write fails with `EIO`, until told otherwise.
    pub fn fail_all_writes(&self, fail: bool) {
        self.all_writes.store(fail, Ordering::Relaxed);
    }

    /// From now on transfers fail at random, from `seed`; with the default, none does.
    pub fn at_random(&self, seed: u64, faults: RandomFaults) {
        self.state.store(seed, Ordering::Relaxed);
        let RandomFaults {
            fail_reads,
            fail_writes,
            short,
            torn,
        } = faults;
        for (place, chance) in self.random.iter().zip([fail_reads, fail_writes, short, torn]) {
            place.store(chance, Ordering::Relaxed);
        }
    }

    /// How many failures were injected so far, of all kinds.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// Whether no write is to fail, to be torn or to be short.
    pub(crate) fn spare_writes(&self) -> bool {
        let orders = [&self.write_in, &self.tear_in, &self.short_left];
        let chances = [Chance::Write, Chance::Short, Chance::Torn];
        orders.iter().all(|order| order.load(Ordering::Relaxed) == 0)
            && !self.all_writes.load(Ordering::Relaxed)
            && chances.iter().all(|chance| self.chance(*chance) == 0)
    }

    /// Whether the read now submitted is to fail.
    pub(crate) fn strike_read(&self) -> bool {
        let strikes = count_down(&self.read_in) || self.all_reads.load(Ordering::Relaxed) || self.draw(Chance::Read);
        self.note(strikes)
    }

    /// Whether the write now submitted is to fail.
    pub(crate) fn strike_write(&self) -> bool {
        let strikes = count_down(&self.write_in) || self.all_writes.load(Ordering::Relaxed) || self.draw(Chance::Write);
        self.note(strikes)
    }

    /// Whether the write now submitted is to be torn.
    pub(crate) fn tear(&self) -> bool {
        let tears = count_down(&self.tear_in) || self.draw(Chance::Torn);
        self.note(tears)
    }

    /// Whether the attempt now made is to be short.
    pub(crate) fn cut_short(&self) -> bool {
        let left = |left: u64| left.checked_sub(1);
        let cut = self.short_left.load(Ordering::Relaxed) > 0
            && self
                .short_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
                .is_ok();
        self.note(cut || self.draw(Chance::Short))
    }

    fn note(&self, strikes: bool) -> bool {
        if strikes {
            self.struck.fetch_add(1, Ordering::Relaxed);
        }
        strikes
    }

    fn chance(&self, of: Chance) -> u32 {
        self.random[of as usize].load(Ordering::Relaxed)
    }

    /// Draws a number, and whether it is within the chance. Without a chance nothing is drawn.
    fn draw(&self, chance: Chance) -> bool {
        let chance = u64::from(self.chance(chance));
        if chance == 0 {
            return false;
        }
        // splitmix64
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut word = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % MILLION < chance
    }
}

/// A record whose second half is rubbish, as a device leaves it that loses power in the middle.
pub(crate) fn torn(record: &Record) -> Record {
    let mut torn = *record;
    for byte in &mut torn[RECORD_SIZE / 2..] {
        *byte = !*byte;
    }
    torn
}

/// Counts down to zero and stays there; true when it arrives.
fn count_down(counter: &AtomicU64) -> bool {
    if counter.load(Ordering::Relaxed) == 0 {
        return false;
    }
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok_and(|left| left == 1)
}

#[cfg(test)]
mod tests {
    use super::{Faults, RandomFaults};

    #[test]
    fn the_nth_transfer_is_struck_once() {
        let faults = Faults::default();
        faults.fail_read(2);
        assert_eq!([(); 4].map(|()| faults.strike_read()), [false, true, false, false]);
        assert!(!faults.strike_write());
        faults.fail_all_writes(true);
        assert!(faults.strike_write() && faults.strike_write());
        faults.shorten(2);
        assert_eq!([(); 3].map(|()| faults.cut_short()), [true, true, false]);
        faults.tear_write(1);
        assert_eq!([(); 2].map(|()| faults.tear()), [true, false]);
        assert_eq!(faults.struck(), 6);
    }

    #[test]
    fn chances_are_kept_and_a_seed_repeats_them() {
        let faults = Faults::default();
        let draws = |seed| {
            let one_in_ten = RandomFaults {
                fail_reads: 100_000,
                ..RandomFaults::default()
            };
            faults.at_random(seed, one_in_ten);
            let draws: Vec<bool> = (0..10_000).map(|_| faults.strike_read()).collect();
            assert!(!faults.strike_write() && !faults.tear() && !faults.cut_short());
            draws
        };
        let first = draws(3);
        let count = first.iter().filter(|&&struck| struck).count();
        assert!((800..1200).contains(&count), "{count}");
        assert_eq!(draws(3), first);
        assert_ne!(draws(4), first);
    }
}
