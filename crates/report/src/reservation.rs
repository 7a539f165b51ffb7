//! A reservation's numbers, in documents, results, recordings and metrics.
//!
//! They are two rows, one for each conservation law: what the reservation's tasks can use, and what it holds frames
//! for. Free frames and frames in flight are in both sums, and stand in the first.

use crate::row::row;
use crate::row::{Field, Unit};
use freehold_core::view::ReservationView;
use serde::{Deserialize, Serialize};

row! {
    /// What the tasks can use: active + inactive + locked + free + in flight + owed, and frames outside, are the
    /// capacity and what is borrowed.
    pub struct ReservationLists from ReservationView {
        /// Frames promised.
        capacity: Frames,
        /// Pages on the active list.
        active: Pages,
        /// Pages on the inactive list.
        inactive: Pages,
        /// Frames free for the next fault.
        free: Frames,
        /// Pages locked.
        locked: Pages,
        /// Frames being filled or written back.
        in_flight: Frames,
        /// Frames the pool owes.
        owed: Frames,
        /// Frames borrowed from the pool.
        borrowed: Frames,
    }
}

row! {
    /// What it holds frames for: owned + free + in flight + conserved + outside are the frames held.
    pub struct ReservationFrames from ReservationView {
        /// Frames of pages it owns.
        owned: Frames,
        /// Frames on the conserved-page list.
        conserved: Frames,
        /// Frames that left the page lists.
        #[serde(default)]
        outside: Frames,
        /// All frames held.
        held: Frames,
        /// The largest `held` so far.
        peak: Frames,
    }
}

/// Both rows at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationCounts {
    /// What the tasks can use.
    pub lists: ReservationLists,
    /// What it holds frames for.
    pub frames: ReservationFrames,
}

impl From<&ReservationView> for ReservationCounts {
    fn from(view: &ReservationView) -> Self {
        Self {
            lists: ReservationLists::from(view),
            frames: ReservationFrames::from(view),
        }
    }
}

impl ReservationCounts {
    /// What the tasks can use, summed; equal to [`entitled`](Self::entitled) by the effective law.
    #[must_use]
    pub const fn usable(&self) -> u64 {
        let lists = &self.lists;
        let pages = lists.active + lists.inactive + lists.locked;
        pages + lists.free + lists.in_flight + lists.owed + self.frames.outside
    }

    /// What the reservation may use: what was promised, and what it has borrowed.
    #[must_use]
    pub const fn entitled(&self) -> u64 {
        self.lists.capacity + self.lists.borrowed
    }

    /// What frames are held for, summed; equal to `held` by the physical law.
    #[must_use]
    pub const fn uses(&self) -> u64 {
        let frames = &self.frames;
        frames.owned + self.lists.free + self.lists.in_flight + frames.conserved + frames.outside
    }
}

/// One number of either row.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Of what the tasks can use.
    List(&'static Field<ReservationLists>),
    /// Of what it holds frames for.
    Frame(&'static Field<ReservationFrames>),
}

impl Number {
    /// All of both rows, in the order in which metrics and charts show them.
    pub fn shown() -> impl Iterator<Item = Self> {
        SHOWN.iter().filter_map(|name| Self::named(name))
    }

    fn named(name: &str) -> Option<Self> {
        let list = ReservationLists::FIELDS.iter().find(|field| field.name == name);
        let frame = ReservationFrames::FIELDS.iter().find(|field| field.name == name);
        list.map(Self::List).or_else(|| frame.map(Self::Frame))
    }

    /// Its name, as documents write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::List(field) => field.name,
            Self::Frame(field) => field.name,
        }
    }

    /// Its name for a reader: `in flight`.
    #[must_use]
    pub fn label(self) -> String {
        self.name().replace('_', " ")
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::List(field) => field.unit,
            Self::Frame(field) => field.unit,
        }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::List(field) => field.help(),
            Self::Frame(field) => field.help(),
        }
    }

    /// Its value.
    #[must_use]
    pub fn of(self, counts: &ReservationCounts) -> u64 {
        match self {
            Self::List(field) => (field.read)(&counts.lists),
            Self::Frame(field) => (field.read)(&counts.frames),
        }
    }
}

const SHOWN: [&str; 13] = [
    "capacity",
    "active",
    "inactive",
    "locked",
    "free",
    "in_flight",
    "owed",
    "borrowed",
    "owned",
    "conserved",
    "outside",
    "held",
    "peak",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_shown_once() {
        let lists = ReservationLists::FIELDS.iter().map(|field| field.name);
        let mut declared: Vec<&str> = lists
            .chain(ReservationFrames::FIELDS.iter().map(|field| field.name))
            .collect();
        let mut shown: Vec<&str> = Number::shown().map(Number::name).collect();
        assert_eq!(shown, SHOWN);
        declared.sort_unstable();
        shown.sort_unstable();
        assert_eq!(declared, shown);
    }

    #[test]
    fn sums_are_those_of_the_laws() {
        let counts = ReservationCounts {
            lists: ReservationLists {
                capacity: 1,
                active: 2,
                inactive: 4,
                free: 8,
                locked: 16,
                in_flight: 32,
                owed: 64,
                borrowed: 128,
            },
            frames: ReservationFrames {
                owned: 256,
                conserved: 512,
                outside: 1024,
                held: 2048,
                peak: 4096,
            },
        };
        assert_eq!(counts.usable(), 2 + 4 + 8 + 16 + 32 + 64 + 1024);
        assert_eq!(counts.entitled(), 1 + 128);
        assert_eq!(counts.uses(), 256 + 8 + 32 + 512 + 1024);
    }
}
