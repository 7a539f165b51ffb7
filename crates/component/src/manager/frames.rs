//! The frames of a composition: one firm reservation of the core for all units. Its minima are admitted, whatever is
//! beyond them is borrowed, and asked back when another reservation is admitted.

use super::RunError;
use freehold_core::Memory as Core;
use freehold_core::effect::Effect;
use freehold_core::error::{AdmitError, SealError};
use freehold_core::id::ReservationId;
use freehold_core::limits::{Limits, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageCount};

/// Reservations beside that of the units, at most.
pub(crate) const MOST_OTHERS: usize = 16;

#[derive(Debug)]
pub(super) struct FramePool {
    core: Core,
    units: ReservationId,
    minima: FrameCount,
    /// What a reservation waits for: it is not lent meanwhile.
    wanted: FrameCount,
}

impl FramePool {
    /// Frames of which the minima are promised to units, and are theirs from the beginning on.
    pub(super) fn new(frames: FrameCount, minima: FrameCount) -> Result<Self, RunError> {
        let one = PageCount::new(1);
        let limits = Limits {
            frames,
            pages: one,
            reservations: u16::try_from(MOST_OTHERS + 1).unwrap_or(u16::MAX),
            objects: 1,
            tasks: 1,
            mappings: 1,
            compared_pages: one,
            shared_locks: PageCount::ZERO,
        };
        let mut core = limits
            .seal()
            .map_err(|error: SealError| RunError::Frames(error.to_string()))?;
        let firm = ReservationSpec {
            capacity: minima,
            kind: ReservationKind::Firm,
        };
        let units = core.admit(firm).map_err(|error| RunError::Frames(error.to_string()))?;
        let mut pool = Self {
            core,
            units,
            minima,
            wanted: FrameCount::ZERO,
        };
        if !pool.take(minima) {
            return Err(RunError::Frames("the minima are not to be had".to_owned()));
        }
        Ok(pool)
    }

    /// Frames that units could borrow now: those of the pool, and those that came back and that the pool has not wanted
    /// since.
    pub(super) fn lendable(&self) -> FrameCount {
        let back = self
            .core
            .reservation(self.units)
            .map_or(FrameCount::ZERO, |view| view.free);
        let free = self.core.pool_view().free.saturating_add(back);
        free.saturating_sub(self.wanted)
    }

    /// Frames of units, and those of them that are beyond the minima.
    pub(super) fn of_units(&self) -> (FrameCount, FrameCount) {
        let outside = self
            .core
            .reservation(self.units)
            .map_or(FrameCount::ZERO, |view| view.outside);
        (outside, outside.saturating_sub(self.minima))
    }

    /// Takes frames for units; false where they are not lent.
    pub(super) fn take(&mut self, frames: FrameCount) -> bool {
        let promised = self.of_units().0 < self.minima;
        (promised || frames <= self.lendable()) && self.core.take_outside(self.units, frames).is_ok()
    }

    /// Gives frames of units back.
    pub(super) fn give_back(&mut self, frames: FrameCount) {
        let back = self.core.return_outside(self.units, frames);
        debug_assert_eq!(back, Ok(()), "frames come back that were taken");
    }

    /// Admits another reservation; `None` while what was lent is on its way back.
    pub(super) fn admit(&mut self, frames: FrameCount) -> Result<Option<ReservationId>, AdmitError> {
        let hard = ReservationSpec {
            capacity: frames,
            kind: ReservationKind::Hard,
        };
        let admitted = self.core.admit(hard);
        let waits = matches!(admitted, Err(AdmitError::InUse { .. }));
        self.wanted = if waits { frames } else { FrameCount::ZERO };
        match admitted {
            Ok(id) => Ok(Some(id)),
            Err(AdmitError::InUse { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends another reservation.
    pub(super) fn release(&mut self, reservation: ReservationId) {
        // It has neither tasks nor frames outside.
        let released = self.core.release(reservation);
        debug_assert_eq!(released, Ok(()));
    }

    /// Frames that are asked back and were not yet.
    pub(super) fn recalls(&mut self) -> FrameCount {
        let mut frames = FrameCount::ZERO;
        while let Some(effect) = self.core.poll_effect() {
            if let Effect::Recall { frames: more, .. } = effect {
                frames = frames.saturating_add(more);
            }
        }
        frames
    }

    /// Whether both conservation laws hold.
    pub(super) fn is_lawful(&self) -> bool {
        self.core.check_laws().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameCount, FramePool};

    /// Minima of 4 of 20 frames are units' for good; 12 are borrowed, and asked back for who is admitted.
    #[test]
    fn what_is_beyond_the_minima_is_lent_and_asked_back() {
        let frames = FrameCount::new;
        let mut pool = FramePool::new(frames(20), frames(4)).unwrap();
        assert_eq!((pool.lendable(), pool.of_units()), (frames(16), (frames(4), frames(0))));
        assert!(pool.take(frames(12)) && !pool.take(frames(5)));
        assert_eq!(
            (pool.lendable(), pool.of_units()),
            (frames(4), (frames(16), frames(12)))
        );
        // What came back is lent again, wherever it is kept.
        pool.give_back(frames(2));
        assert_eq!((pool.lendable(), pool.of_units().1), (frames(6), frames(10)));
        assert!(pool.take(frames(2)));
        // Ten for another: four are free, six are asked back, none is lent again meanwhile.
        assert!(pool.admit(frames(10)).unwrap().is_none());
        assert_eq!((pool.recalls(), pool.lendable()), (frames(6), frames(0)));
        pool.give_back(frames(3));
        assert!(pool.admit(frames(10)).unwrap().is_none() && !pool.take(frames(1)));
        assert_eq!(pool.recalls(), frames(0), "asked once");
        pool.give_back(frames(3));
        let guest = pool.admit(frames(10)).unwrap().unwrap();
        assert_eq!((pool.lendable(), pool.of_units()), (frames(0), (frames(10), frames(6))));
        assert!(!pool.take(frames(1)));
        // The minima are never asked back.
        assert!(pool.admit(frames(7)).is_err() && pool.is_lawful());
        pool.release(guest);
        assert_eq!(pool.lendable(), frames(10));
        assert!(pool.take(frames(10)) && pool.is_lawful());
    }
}
