//! Reservations that come while a composition runs. Each is admitted by the core's test and locks its memory; what
//! units have borrowed of it is recalled first.

use super::RunError;
use super::memory::UnitManager;
use crate::composition::{Composition, Reservation};
use freehold_core::id::ReservationId;
use freehold_linux::memory::LockedFrames;
use std::time::Duration;

/// How a reservation fared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fared {
    /// From its coming until it was admitted.
    pub(super) waited: Option<Duration>,
}

#[derive(Debug)]
enum State {
    Waits,
    Lasts {
        id: ReservationId,
        /// Held for as long as it lasts.
        _memory: LockedFrames,
    },
    Over,
}

#[derive(Debug)]
pub(super) struct Others {
    all: Vec<(Reservation, State, Fared)>,
}

impl Others {
    pub(super) fn new(composition: &Composition) -> Self {
        let all = composition.reservations.iter().cloned();
        Self {
            all: all.map(|one| (one, State::Waits, Fared::default())).collect(),
        }
    }

    /// What is due so long after the beginning.
    pub(super) fn tick(&mut self, elapsed: Duration, memory: &mut UnitManager) -> Result<(), RunError> {
        for (reservation, state, fared) in &mut self.all {
            let lasted = |admitted: Duration| reservation.lasts.is_some_and(|lasts| elapsed >= admitted + lasts.0);
            match state {
                State::Waits if elapsed >= reservation.after.0 => {
                    if let Some(id) = memory.admit(reservation.pages())? {
                        *state = State::Lasts {
                            id,
                            _memory: lock(reservation)?,
                        };
                        fared.waited = Some(elapsed - reservation.after.0);
                    }
                }
                State::Lasts { id, .. } if lasted(reservation.after.0 + fared.waited.unwrap_or_default()) => {
                    let id = *id;
                    // Its memory goes before its frames are lent again.
                    *state = State::Over;
                    memory.release(id);
                }
                State::Waits | State::Lasts { .. } | State::Over => {}
            }
        }
        Ok(())
    }

    pub(super) fn fared(&self) -> Vec<(String, Fared)> {
        let all = self.all.iter();
        all.map(|(reservation, _, fared)| (reservation.name.clone(), *fared))
            .collect()
    }
}

fn lock(reservation: &Reservation) -> Result<LockedFrames, RunError> {
    let refused = |error: String| RunError::Frames(format!("`{}`: {error}", reservation.name));
    let pages = reservation.pages();
    let frames = LockedFrames::create(pages).map_err(|error| refused(error.to_string()))?;
    frames
        .approach(pages, pages)
        .map_err(|error| refused(error.to_string()))?;
    Ok(frames)
}
