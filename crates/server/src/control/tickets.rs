//! Tickets: whoever has one may join the reservation or pinned page pool. 128 random bits, compared whole, never
//! written anywhere.

use super::accounts::Charge;
use crate::engine::Membership;
use freehold_linux::Errno;
use rustix::rand::GetRandomFlags;
use std::fmt;
use std::hint::black_box;

/// The right to join a reservation or pinned page pool.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    /// The first half.
    pub(crate) high: u64,
    /// The second half.
    pub(crate) low: u64,
}

impl Ticket {
    /// A new one, which nobody can guess.
    ///
    /// # Errors
    /// The kernel's refusal of randomness: none is made up.
    pub(crate) fn draw() -> Result<Self, Errno> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = bytes.get_mut(filled..).unwrap_or_default();
            filled += rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut *rest, GetRandomFlags::empty()))?;
        }
        let number = u128::from_ne_bytes(bytes);
        #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
        let (high, low) = ((number >> 64) as u64, number as u64);
        Ok(Self { high, low })
    }

    /// Whether both are the same; takes as long wherever they differ.
    pub(crate) fn is(self, other: Self) -> bool {
        black_box((self.high ^ other.high) | (self.low ^ other.low)) == 0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}

/// A reservation or pinned page pool, and who holds it.
#[derive(Debug)]
pub(crate) struct Held {
    /// Which.
    pub(crate) id: Membership,
    /// The right to join it.
    pub(crate) ticket: Ticket,
    /// Its frames, or the most pages that it may pin, charged to who made it.
    pub(crate) charge: Charge,
    /// Connections that made or joined it; 0 where only tasks are left in it, and nobody may join it any more.
    pub(crate) holders: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_differ_and_are_compared_whole_and_not_shown() {
        let ticket = Ticket::draw().unwrap();
        let other = Ticket::draw().unwrap();
        assert!(ticket.is(ticket) && !ticket.is(other));
        for bit in 0..64 {
            let (high, low) = (ticket.high ^ 1 << bit, ticket.low ^ 1 << bit);
            assert!(!ticket.is(Ticket { high, ..ticket }) && !ticket.is(Ticket { low, ..ticket }));
        }
        let shown = format!("{ticket:?}");
        assert!(!shown.contains(&ticket.high.to_string()) && !shown.contains(&format!("{:x}", ticket.high)));
    }
}
