//! A stand-in for whoever uses frames outside of the page lists: it takes, keeps and returns them.

use freehold_core::error::TakeOutsideError;
use freehold_core::id::ReservationId;
use freehold_core::units::FrameCount;

use super::World;

/// What the stand-in has of one reservation, by its own books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StandIn {
    pub(crate) held: u32,
    /// Of these, asked back.
    pub(crate) recalled: u32,
}

impl World {
    /// Takes frames outside; whether they were given.
    pub(crate) fn take_outside(&mut self, reservation: ReservationId, frames: u32) -> Result<(), TakeOutsideError> {
        let taken = self.memory.take_outside(reservation, FrameCount::new(frames));
        if taken.is_ok() {
            self.outside.entry(reservation).or_default().held += frames;
        }
        self.drain();
        taken
    }

    /// Returns frames that the stand-in has.
    pub(crate) fn return_outside(&mut self, reservation: ReservationId, frames: u32) {
        let stand_in = self.outside.entry(reservation).or_default();
        let frames = frames.min(stand_in.held);
        stand_in.held -= frames;
        stand_in.recalled = stand_in.recalled.saturating_sub(frames);
        self.memory
            .return_outside(reservation, FrameCount::new(frames))
            .expect("frames that are outside");
        self.drain();
    }

    /// Returns all that is asked back, until nothing is.
    pub(crate) fn answer_recalls(&mut self) {
        while let Some((id, recalled)) = self
            .outside
            .iter()
            .map(|(&id, stand_in)| (id, stand_in.recalled))
            .find(|(_, recalled)| *recalled > 0)
        {
            self.return_outside(id, recalled);
        }
    }

    pub(crate) fn recall(&mut self, reservation: ReservationId, frames: u32) {
        let stand_in = self.outside.entry(reservation).or_default();
        stand_in.recalled += frames;
        assert!(
            frames > 0 && stand_in.recalled <= stand_in.held,
            "law 1: {frames} are recalled of {stand_in:?}"
        );
    }

    /// The core's books are the stand-in's.
    pub(crate) fn check_outside(&self) {
        for (&id, stand_in) in &self.outside {
            let view = self.memory.reservation(id);
            let books = view.map(|view| (view.outside.get(), view.recalled.get()));
            assert_eq!(
                books.unwrap_or_default(),
                (stand_in.held, stand_in.recalled),
                "law 1: what is outside of {id:?}"
            );
        }
    }
}
