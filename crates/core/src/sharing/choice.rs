//! Which of SPC and SPEL for a shared region S_i: paper 000, section IV.C, under its symbols.
//!
//! Under SPC each of n reservations keeps its M_R frames. Under SPEL it locks the pages that it touches itself. It
//! then needs M_R′ = M_R + Max − Avg, to have as much room for other pages. Of the frames of a page that several
//! lock all but one go back to the pool. So SPEL takes fewer frames exactly where Max(S_i), the union of the pages
//! touched, is less than Σ Avg(S_i). Where all touch the same pages this is the paper's Max < n·Avg.
//!
//! Frames are whole: a reservation grows by ⌈Max − Avg⌉. Where that eats up what SPEL would save the choice is SPC: the
//! rule is there to save frames, and locked pages cannot be reclaimed.

use super::UNLOCKED_FRAMES;

/// How far a mean of page counts may lie below a whole number by rounding alone: a sum of quotients.
const ROUNDING: f64 = 1e-6;

/// One reservation that shares the region. Counts are pages, or frames, which are as large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharer {
    /// M_R: its frames under SPC.
    pub frames: u64,
    /// Max(S_i): distinct pages of the region that it touches.
    pub max: u64,
    /// Avg(S_i): mean pages of the region that it references per period, not negative.
    pub avg: f64,
    /// It says itself how it shares the region, and locks so many pages of it: it stays as it is.
    pub fixed: Option<u64>,
}

impl Sharer {
    /// Whether the choice is for it: it touches the region, and does not say itself how it shares that.
    #[must_use]
    pub const fn takes_part(&self) -> bool {
        self.fixed.is_none() && self.max > 0
    }

    /// M_R′: its frames under SPEL.
    #[must_use]
    pub fn grown(&self) -> u64 {
        if self.takes_part() {
            self.frames + self.max.saturating_sub(whole(self.avg))
        } else {
            self.frames
        }
    }

    /// Frames that it needs to lock the pages that it touches and to leave 8 unlocked.
    #[must_use]
    pub const fn least(&self) -> u64 {
        if self.takes_part() {
            self.max + UNLOCKED_FRAMES as u64
        } else {
            0
        }
    }

    const fn locks(&self) -> u64 {
        match self.fixed {
            Some(pages) => pages,
            None => self.max,
        }
    }
}

/// The region, whoever shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Union {
    /// Distinct pages touched by those who take part, or locked by those who say so themselves.
    pub all: u64,
    /// Of these, locked by those who say so themselves.
    pub fixed: u64,
}

/// What the rule came to. All but [`Spel`](Self::Spel) are SPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Max(S_i) is not below Σ Avg(S_i).
    NotBelow,
    /// It is, but with M_R′ this sharer, by its position, cannot lock its pages and leave 8 frames unlocked.
    TooSmall(usize),
    /// It is, but not in whole frames.
    NothingSaved,
    /// SPEL, where every reservation can have its M_R′.
    Spel,
}

/// Both choices for one region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// Reservations that take part.
    pub n: u64,
    /// Max(S_i): pages that SPEL would lock beside those locked already.
    pub max: u64,
    /// Σ Avg(S_i) over those who take part.
    pub sum_of_averages: f64,
    /// Frames of all sharers under SPC.
    pub frames_spc: u64,
    /// The same under SPEL, less what the locks give back. Of a sharer that is too small as many as it would need.
    pub frames_spel: u64,
    /// The choice.
    pub choice: Choice,
}

impl Weighed {
    /// Whether Max(S_i) < Σ Avg(S_i).
    #[must_use]
    pub fn is_below(&self) -> bool {
        as_float(self.max) < self.sum_of_averages
    }
}

/// Weighs both choices. O(sharers).
#[must_use]
pub fn choose(sharers: &[Sharer], union: Union) -> Weighed {
    let part = || sharers.iter().filter(|sharer| sharer.takes_part());
    let fixed: u64 = sharers.iter().filter_map(|sharer| sharer.fixed).sum();
    let locked: u64 = sharers.iter().map(Sharer::locks).sum();
    let spc: u64 = sharers.iter().map(|sharer| sharer.frames).sum();
    let spel: u64 = sharers.iter().map(|sharer| sharer.grown().max(sharer.least())).sum();
    let mut weighed = Weighed {
        n: part().count() as u64,
        max: union.all.saturating_sub(union.fixed),
        // The sum of nothing would be minus zero.
        sum_of_averages: part().map(|sharer| sharer.avg).fold(0.0, |sum, avg| sum + avg),
        frames_spc: spc.saturating_sub(fixed.saturating_sub(union.fixed)),
        frames_spel: spel.saturating_sub(locked.saturating_sub(union.all)),
        choice: Choice::Spel,
    };
    let too_small = || sharers.iter().position(|sharer| sharer.grown() < sharer.least());
    weighed.choice = if !weighed.is_below() {
        Choice::NotBelow
    } else if let Some(position) = too_small() {
        Choice::TooSmall(position)
    } else if weighed.frames_spel >= weighed.frames_spc {
        Choice::NothingSaved
    } else {
        Choice::Spel
    };
    weighed
}

/// Whole pages of a mean. A sum of quotients that is whole but for rounding is whole.
#[must_use]
pub fn whole(mean: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of page counts: not negative, far below 2^53; truncation is the floor"
    )]
    let whole = (mean + ROUNDING) as u64;
    whole
}

fn as_float(count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages, far below 2^53")]
    let count = count as f64;
    count
}
