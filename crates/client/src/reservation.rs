//! Reservations: frames that are there for their tasks alone.

use std::fmt;
use std::sync::Arc;

use freehold_protocol::message::{Answer, Request, ReservationKind};

use crate::error::RequestError;
use crate::link::Link;
use crate::region::Region;
use crate::task::Mapping;

/// What lets another process join a reservation. Whoever has it can: hand it on with care.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    high: u64,
    low: u64,
}

impl Ticket {
    /// From its text, 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (high, low) = text.split_at_checked(16).filter(|_| plain)?;
        Some(Self {
            high: u64::from_str_radix(high, 16).ok()?,
            low: u64::from_str_radix(low, 16).ok()?,
        })
    }

    /// Its text, 32 hexadecimal digits, as `FREEHOLD_TICKET` holds it.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{:016x}{:016x}", self.high, self.low)
    }
}

impl fmt::Debug for Ticket {
    /// Without its digits, which are a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}

/// A reservation that this connection holds. Given up when this and all tasks in it are gone.
#[derive(Debug)]
pub struct Reservation {
    pub(crate) held: Arc<Held>,
}

/// The server's side of it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) link: Arc<Link>,
    pub(crate) handle: u32,
    frames: u32,
    ticket: Ticket,
}

impl Reservation {
    pub(crate) fn make(link: &Arc<Link>, name: &str, frames: u32, kind: ReservationKind) -> Result<Self, RequestError> {
        Self::ask(link, &Request::Reserve { name, frames, kind })
    }

    pub(crate) fn join(link: &Arc<Link>, ticket: Ticket) -> Result<Self, RequestError> {
        let Ticket { high, low } = ticket;
        let request = Request::Join {
            ticket_high: high,
            ticket_low: low,
        };
        Self::ask(link, &request)
    }

    pub(crate) fn ask(link: &Arc<Link>, request: &Request<'_>) -> Result<Self, RequestError> {
        let held = link.ask(request, &[], |answer, _| match answer {
            Answer::Reserved {
                reservation,
                frames,
                ticket_high: high,
                ticket_low: low,
            } => Some(Held {
                link: Arc::clone(link),
                handle: reservation,
                frames,
                ticket: Ticket { high, low },
            }),
            _ => None,
        })?;
        Ok(Self { held: Arc::new(held) })
    }

    /// Its frames.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.held.frames
    }

    /// What lets another process join it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.ticket
    }

    /// Brings pages of a region in and keeps them resident until they are unlocked (the eviction lock; of a private
    /// region, a pin). One of the reservation's tasks must map the region.
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is locked then.
    pub fn lock(&self, region: &Region, first: u32, pages: u32) -> Result<(), RequestError> {
        self.set(true, region.place(first, pages).ok_or(RequestError::OutOfBounds)?)
    }

    /// Unlocks pages.
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is unlocked then.
    pub fn unlock(&self, region: &Region, first: u32, pages: u32) -> Result<(), RequestError> {
        self.set(false, region.place(first, pages).ok_or(RequestError::OutOfBounds)?)
    }

    /// As [`Reservation::lock`], of `pages` pages from page `first` of a mapping on.
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is locked then.
    pub fn lock_mapped(&self, mapping: &Mapping, first: usize, pages: usize) -> Result<(), RequestError> {
        self.set(true, mapping.place(first, pages).ok_or(RequestError::OutOfBounds)?)
    }

    /// As [`Reservation::unlock`], of `pages` pages from page `first` of a mapping on.
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is unlocked then.
    pub fn unlock_mapped(&self, mapping: &Mapping, first: usize, pages: usize) -> Result<(), RequestError> {
        self.set(false, mapping.place(first, pages).ok_or(RequestError::OutOfBounds)?)
    }

    fn set(&self, locked: bool, place: (&Arc<Link>, u32, u32, u32)) -> Result<(), RequestError> {
        let (link, object, first, pages) = place;
        if !Arc::ptr_eq(&self.held.link, link) {
            return Err(RequestError::Stranger);
        }
        let reservation = self.held.handle;
        let request = if locked {
            Request::Lock {
                reservation,
                object,
                first,
                pages,
            }
        } else {
            Request::Unlock {
                reservation,
                object,
                first,
                pages,
            }
        };
        link.ask_done(&request)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Where this is refused or the server is gone, the reservation ends with the connection.
        let _ = self.link.ask_done(&Request::Release {
            reservation: self.handle,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Ticket;

    #[test]
    fn a_ticket_is_its_text_and_nothing_else_is_one() {
        let text = "0123456789abcdef00000000000000ff";
        let ticket = Ticket::parse(text).unwrap();
        assert_eq!(ticket.to_text(), text);
        assert!(!format!("{ticket:?}").contains("ff"));
        for wrong in [
            "",
            "0123",
            &text[1..],
            "+123456789abcdef00000000000000ff",
            "ä123456789abcdef0000000000000ff",
        ] {
            assert_eq!(Ticket::parse(wrong), None);
        }
    }
}
