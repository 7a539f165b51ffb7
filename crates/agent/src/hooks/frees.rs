//! Calls of the program that give addresses away: who waits until those have ended that had begun is not kept waiting
//! by later ones.
//!
//! The kernel gives the addresses of unmapped memory away before it tells the server, and lets the call return when the
//! server has read of it. It can be asked whether anything is untold, which tells little while others go on unmapping,
//! or dropping pages: there always is. So calls are counted, in two turns: the agent thread ends a turn, and waits for
//! the calls that began in it.

use crate::sync::{AtomicU32, Ordering};

/// The calls under way, in the memory of the process. All zeros: none.
#[derive(Debug, Default)]
pub(crate) struct Frees {
    /// Turns that have ended.
    turn: AtomicU32,
    /// Those that began in turns of even number, and of odd number.
    under_way: [AtomicU32; 2],
}

/// How far somebody has come in waiting for what had begun.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticket {
    /// A turn has ended since.
    turned: bool,
}

impl Frees {
    const fn of(&self, turn: u32) -> &AtomicU32 {
        let [even, odd] = &self.under_way;
        if turn.is_multiple_of(2) { even } else { odd }
    }

    /// Makes a call that may give addresses away. Nothing that it does waits for the agent thread.
    pub(crate) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        let under_way = self.begin();
        let answer = call();
        under_way.fetch_sub(1, Ordering::Release);
        answer
    }

    fn begin(&self) -> &AtomicU32 {
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            let under_way = self.of(turn);
            under_way.fetch_add(1, Ordering::SeqCst);
            // A turn that has ended meanwhile may have been found empty.
            if self.turn.load(Ordering::SeqCst) == turn {
                return under_way;
            }
            under_way.fetch_sub(1, Ordering::Release);
        }
    }

    /// The agent thread's side: whether all calls have ended that had begun when the ticket was new.
    pub(crate) fn have_ended(&self, ticket: &mut Ticket) -> bool {
        let mut turn = self.turn.load(Ordering::SeqCst);
        if !ticket.turned {
            // Of the turn before this one, in which nobody begins any more.
            if self.of(turn.wrapping_add(1)).load(Ordering::SeqCst) != 0 {
                return false;
            }
            turn = turn.wrapping_add(1);
            self.turn.store(turn, Ordering::SeqCst);
            ticket.turned = true;
        }
        self.of(turn.wrapping_add(1)).load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Frees, Ticket};

    #[test]
    fn who_has_begun_is_waited_for_and_nobody_else() {
        let frees = Frees::default();
        let mut ticket = Ticket::default();
        assert!(frees.have_ended(&mut ticket));
        let (mut first, mut second) = (Ticket::default(), Ticket::default());
        frees.during(|| {
            assert!(!frees.have_ended(&mut first));
            // What begins now is not waited for, and what had begun still is.
            frees.during(|| {
                assert!(!frees.have_ended(&mut first));
                assert!(!frees.have_ended(&mut second));
            });
            assert!(!frees.have_ended(&mut first));
            assert!(!frees.have_ended(&mut second));
        });
        assert!(frees.have_ended(&mut first));
        frees.during(|| assert!(frees.have_ended(&mut first)));
        assert!(frees.have_ended(&mut second));
    }

    #[test]
    fn others_that_go_on_keep_nobody_waiting() {
        let frees = Frees::default();
        // There always is one under way.
        let mut last = frees.begin();
        for _ in 0..100 {
            let mut ticket = Ticket::default();
            let mut looks = 0;
            while !frees.have_ended(&mut ticket) {
                let next = frees.begin();
                last.fetch_sub(1, super::Ordering::Release);
                last = next;
                looks += 1;
                assert!(looks < 4);
            }
        }
    }
}
