//! Units and who waits for them.

use std::collections::VecDeque;

/// One unit.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// It has memory.
    present: bool,
    holder: Option<usize>,
    /// When a waiter first saw its present use, in order.
    seen: Option<u64>,
    /// In order of their coming.
    waiters: VecDeque<usize>,
    relinquish: bool,
}

/// The cache of one kind of one component.
#[derive(Debug)]
pub(super) struct Cache {
    units: Vec<Unit>,
    used: Vec<bool>,
    waiting: u32,
    pub(super) waiting_peak: u32,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// This unit.
    Taken(usize),
    /// A wait for this one.
    Waits(usize),
}

impl Cache {
    pub(super) fn new(minimum: u32, most: u32) -> Self {
        let unit = |at: u32| Unit {
            present: at < minimum,
            ..Unit::default()
        };
        Self {
            units: (0..most).map(unit).collect(),
            used: vec![false; most as usize],
            waiting: 0,
            waiting_peak: 0,
        }
    }

    /// Whether a request would be met at once.
    pub(super) fn has_free(&self) -> bool {
        self.first_free().is_some()
    }

    fn first_free(&self) -> Option<usize> {
        self.units.iter().position(|unit| unit.present && unit.holder.is_none())
    }

    /// Takes the first free unit, so that as many units are marked as used as were in use at the same time; or waits
    /// for the one that waiters have seen in the same use for longest.
    pub(super) fn request(&mut self, thread: usize, order: u64) -> Request {
        if let Some(free) = self.first_free() {
            self.hold(free, thread);
            return Request::Taken(free);
        }
        let mut oldest: Option<(u64, usize)> = None;
        for (at, unit) in self
            .units
            .iter_mut()
            .enumerate()
            .filter(|(_, unit)| unit.holder.is_some())
        {
            let seen = *unit.seen.get_or_insert(order);
            if oldest.is_none_or(|(least, _)| seen < least) {
                oldest = Some((seen, at));
            }
        }
        // The minimum is at least one, and a unit that is not free is held.
        let (_, at) = oldest.unwrap_or_else(|| unreachable!("a cache has units"));
        self.units[at].waiters.push_back(thread);
        self.waiting += 1;
        self.waiting_peak = self.waiting_peak.max(self.waiting);
        Request::Waits(at)
    }

    fn hold(&mut self, at: usize, thread: usize) {
        let unit = &mut self.units[at];
        (unit.holder, unit.seen) = (Some(thread), None);
        self.used[at] = true;
    }

    /// Releases a unit to the waiter that `rank` puts first, the first of equals.
    pub(super) fn release(&mut self, at: usize, rank: impl Fn(usize) -> u32) -> Option<usize> {
        let unit = &mut self.units[at];
        unit.holder = None;
        let best = unit
            .waiters
            .iter()
            .enumerate()
            .max_by_key(|(place, thread)| (rank(**thread), usize::MAX - place));
        if let Some((place, _)) = best {
            let next = unit.waiters.remove(place)?;
            self.waiting -= 1;
            self.hold(at, next);
            return Some(next);
        }
        if unit.relinquish {
            (unit.present, unit.relinquish) = (false, false);
        }
        None
    }

    pub(super) fn holder(&self, at: usize) -> Option<usize> {
        self.units[at].holder
    }

    pub(super) fn waiters(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.units[at].waiters.iter().copied()
    }

    /// Units with memory.
    pub(super) fn present(&self) -> u32 {
        count(self.units.iter().filter(|unit| unit.present).count())
    }

    /// Units that were in use since the last call, and the most that waited at the same time.
    pub(super) fn take_usage(&mut self) -> (u32, u32) {
        let mut used = 0;
        for (unit, was) in self.units.iter().zip(&mut self.used) {
            used += u32::from(*was || unit.holder.is_some());
            *was = false;
        }
        let peak = std::mem::replace(&mut self.waiting_peak, self.waiting);
        (used, peak)
    }

    /// Has so many units go, unused ones at once; tells of each that goes, and of each that is to go later or not.
    pub(super) fn take(&mut self, units: u32, mut tell: impl FnMut(usize, Leaves)) -> u32 {
        let mut left = units;
        for (at, unit) in self.units.iter_mut().enumerate().rev() {
            if left > 0 && unit.present && unit.holder.is_none() {
                (unit.present, unit.relinquish) = (false, false);
                left -= 1;
                tell(at, Leaves::Now);
            }
        }
        let taken = units - left;
        for (at, unit) in self.units.iter_mut().enumerate().rev() {
            let wanted = left > 0 && unit.present;
            left -= u32::from(wanted);
            if wanted != unit.relinquish {
                unit.relinquish = wanted;
                tell(at, if wanted { Leaves::Later } else { Leaves::Stays });
            }
        }
        taken
    }

    /// Brings units, and tells which.
    pub(super) fn give(&mut self, units: u32, mut tell: impl FnMut(usize)) {
        let absent = self.units.iter_mut().enumerate().filter(|(_, unit)| !unit.present);
        for (at, unit) in absent.take(units as usize) {
            unit.present = true;
            tell(at);
        }
    }
}

/// When a unit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Now,
    Later,
    Stays,
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
