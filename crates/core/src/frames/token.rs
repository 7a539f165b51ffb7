//! Frames as something that is moved, never made or copied.

use crate::units::FrameCount;

/// Some frames, held in one place. There is no way to copy or make them after the pool was made, so a frame has
/// exactly one holder by construction (law 1). A token dropped with frames in it would lose them; the conservation
/// law, checked after every step of debug builds, catches that.
#[derive(Debug, Default)]
#[must_use = "frames that are dropped are lost to everybody"]
pub struct Frames(u32);

impl Frames {
    /// The whole pool. Called once, when the tables are made.
    pub(crate) const fn pool(count: FrameCount) -> Self {
        Self(count.get())
    }

    /// No frames.
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    pub(crate) const fn len(&self) -> u32 {
        self.0
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> FrameCount {
        FrameCount::new(self.0)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Takes `count` out. The caller has made sure that they are there.
    pub(crate) fn take(&mut self, count: u32) -> Self {
        debug_assert!(
            self.0 >= count,
            "frames taken that are not there: {} of {}",
            count,
            self.0
        );
        let taken = count.min(self.0);
        self.0 -= taken;
        Self(taken)
    }

    /// Takes one out.
    pub(crate) fn take_one(&mut self) -> Self {
        self.take(1)
    }

    /// Takes all out.
    pub(crate) fn take_all(&mut self) -> Self {
        self.take(self.0)
    }

    /// Puts `other` in.
    pub(crate) fn put(&mut self, other: Self) {
        self.0 += other.0;
    }
}
