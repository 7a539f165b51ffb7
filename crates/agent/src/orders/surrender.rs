//! Moving private pages out of the address space, and their content to the transfer memory.

use core::ops::Range;
use core::sync::atomic::Ordering;

use freehold_protocol::channel::{Action, Order, Outcome};

use crate::client::userfault;
use crate::client::{Client, STAGED, register_staging};
use crate::orders::move_guard::Settled;
use crate::orders::page_map::{self, Entry};
use crate::orders::{Batch, Patience, copy, drop, zap};
use crate::process::PAGE;
use crate::sys::{self, Errno};
use crate::{process, report};

const TRIES: usize = 3;

/// A batch that is being carried out.
struct Round<'a> {
    client: &'a Client,
    batch: &'a Batch,
    outcomes: &'a mut [Outcome; STAGED],
    patience: Patience,
    /// What the program had moved when the batch was taken, of which no order is older.
    settled: Option<Settled>,
}

/// Carries out the batch's orders about private pages. Neighbours in order and address are moved with one call.
pub(super) fn surrender(client: &Client, batch: &Batch, outcomes: &mut [Outcome; STAGED], settled: Option<Settled>) {
    let mut round = Round {
        client,
        batch,
        outcomes,
        patience: Patience::default(),
        settled,
    };
    let mut at = 0;
    let mut any = false;
    while let Some(order) = batch.get(at).copied().flatten() {
        if !order.action.takes_a_page() {
            at += 1;
            continue;
        }
        let run = run_length(batch, at);
        round.move_run(at..at + run);
        any = true;
        at += run;
    }
    if any {
        // A page that a pipe still refers to must not be used again, so the area is emptied each time.
        let _ = zap::drop_pages(client.staging, STAGED * PAGE);
        let executable = client.staging_executable.load(Ordering::Relaxed);
        if executable != 0 {
            let _ = zap::drop_pages(executable, STAGED * PAGE);
        }
    }
}

fn private_address(order: &Order) -> Option<usize> {
    let (start, length) = crate::orders::page_range(order)?;
    (order.action.takes_a_page() && length == PAGE).then_some(start)
}

fn run_length(batch: &Batch, first: usize) -> usize {
    let mut length = 1;
    let Some(start) = batch.get(first).and_then(Option::as_ref).and_then(private_address) else {
        return 1;
    };
    while let Some(Some(next)) = batch.get(first + length) {
        if private_address(next) != Some(start + length * PAGE) {
            break;
        }
        length += 1;
    }
    length
}

impl Round<'_> {
    fn move_run(&mut self, orders: Range<usize>) {
        let (first, run) = (orders.start, orders.len());
        let Some(start) = self.batch.get(first).and_then(Option::as_ref).and_then(private_address) else {
            return;
        };
        let mut done = 0;
        while done < run {
            let to = self.client.staging + (first + done) * PAGE;
            let length = (run - done) * PAGE;
            let (bytes, refused) = self.take_out(to, start + done * PAGE, length);
            let moved = bytes / PAGE;
            for at in first + done..first + done + moved {
                self.finish(at, self.client.staging);
            }
            done += moved;
            if done < run && refused.is_some() {
                let at = first + done;
                let outcome = self.one_page(at, start + done * PAGE);
                self.note(at, outcome);
                done += 1;
            }
        }
    }

    fn note(&mut self, at: usize, outcome: Option<Outcome>) {
        if let (Some(place), Some(outcome)) = (self.outcomes.get_mut(at), outcome) {
            *place = outcome;
        }
    }

    /// Moves pages out of managed memory, and never out of other memory that has taken its place since the order was
    /// given: whoever makes such memory waits, before its address is known to anybody, until this is done ([`hooks`]),
    /// and nothing is taken that may have been moved there ([`moves`]).
    ///
    /// [`hooks`]: crate::hooks
    /// [`moves`]: crate::orders::move_guard
    fn take_out(&self, to: usize, from: usize, length: usize) -> (usize, Option<Errno>) {
        let Some(process) = process::process() else {
            return (0, Some(Errno::NOENT));
        };
        if !process.moves.begin_out(self.settled) {
            return (0, Some(Errno::STALE));
        }
        let answer = match userfault::is_registered(self.client.descriptors.private, from, length) {
            Ok(_) => move_out(self.client, to, from, length),
            Err(errno) => (0, Some(errno)),
        };
        process.moves.end_out();
        answer
    }

    /// A page that would not move with its neighbours: how it ended, where that is not noted yet.
    fn one_page(&mut self, at: usize, from: usize) -> Option<Outcome> {
        let mut staging = self.client.staging;
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            match self.take_out(staging + at * PAGE, from, PAGE) {
                (_, None) => {
                    self.finish(at, staging);
                    return None;
                }
                (_, Some(Errno::NOENT)) => return Some(Outcome::Absent),
                (_, Some(Errno::STALE)) => return Some(Outcome::Busy),
                // Shared with a forked child, or was: a write gives the program a page of its own. The server is told,
                // and has it written before it goes.
                (_, Some(Errno::BUSY)) => {
                    self.have_own(from);
                    if self
                        .batch
                        .get(at)
                        .copied()
                        .flatten()
                        .is_some_and(|order| order.action == Action::Drop)
                    {
                        return Some(Outcome::Busy);
                    }
                }
                // The program has locked all memory, and with it this area, which the kernel has filled.
                (_, Some(Errno::EXIST)) => {
                    let _ = zap::drop_pages(staging + at * PAGE, PAGE);
                }
                (_, Some(Errno::INVAL)) => match executable_staging(self.client) {
                    Some(other) if other != staging => staging = other,
                    _ => return Some(self.copy_instead(at, from)),
                },
                (_, Some(Errno::AGAIN)) => tries -= usize::from(self.patience.wait()),
                (_, Some(_)) => return Some(Outcome::Refused),
            }
        }
        Some(Outcome::Busy)
    }

    /// Gives the program a page of its own at an address, in managed memory only: elsewhere, and in place of what has
    /// been moved there since the order was given, the kernel would put zeros, or wait for a server of the program's.
    fn have_own(&self, page: usize) {
        const POPULATE_WRITE: usize = 23;
        let Some(process) = process::process().filter(|process| process.moves.begin_out(self.settled)) else {
            return;
        };
        if userfault::is_registered(self.client.descriptors.private, page, PAGE).is_ok() {
            // SAFETY: the program's content stays as it is.
            let _ = unsafe { sys::own::madvise(page, PAGE, POPULATE_WRITE) };
        }
        process.moves.end_out();
    }

    /// The kernel moves only pages that may be written, and whose protection key and lock are those of the area that
    /// they are moved to. This one is copied and dropped, if it is not locked.
    fn copy_instead(&mut self, at: usize, from: usize) -> Outcome {
        let (Some(process), Some(order)) = (process::process(), self.batch.get(at).copied().flatten()) else {
            return Outcome::Refused;
        };
        loop {
            if !process.moves.begin_out(self.settled) {
                return Outcome::Busy;
            }
            let outcome = drop::copy_and_drop(self.client, &order, from, self.client.staging + at * PAGE);
            process.moves.end_out();
            match outcome {
                Ok(outcome) => return outcome,
                Err(Errno::AGAIN) if self.patience.wait() => {}
                Err(Errno::NOENT) => return Outcome::Absent,
                Err(_) => return Outcome::Busy,
            }
        }
    }

    /// The page of the order at `at` is in its place of the staging area: copies it where the server wants it.
    fn finish(&mut self, at: usize, staging: usize) {
        let Some(order) = self.batch.get(at).copied().flatten() else {
            return;
        };
        let (client, page) = (self.client, staging + at * PAGE);
        let outcome = match order.action {
            Action::Drop => Outcome::Done,
            _ if copy::is_zero(page) => Outcome::Zero,
            _ if order.slot < client.transfer_pages && copy::copy_out(client, page, order.slot) => Outcome::Done,
            _ => {
                self.put_back(page, &order);
                Outcome::Refused
            }
        };
        self.note(at, Some(outcome));
    }

    /// Where the transfer memory takes nothing, the page returns to where it was.
    fn put_back(&mut self, page: usize, order: &Order) {
        let Ok(to) = usize::try_from(order.address) else { return };
        loop {
            // SAFETY: nothing is there since the page was moved away; the server has not been told of it yet.
            let (_, refused) = unsafe { userfault::move_pages(self.client.descriptors.private, to, page, PAGE) };
            match refused {
                None => return,
                Some(_) if moved_unsaid(self.client, to, page, PAGE) == PAGE => return,
                Some(Errno::AGAIN) if self.patience.wait() => {}
                // Its content would be lost.
                Some(errno) => report::end(b"a page that was taken out cannot be put back", errno),
            }
        }
    }
}

/// Moves pages to the staging area; how many bytes were moved, and why no more.
fn move_out(client: &Client, to: usize, from: usize, length: usize) -> (usize, Option<Errno>) {
    // SAFETY: whoever uses the pages faults, and the server knows where they went.
    match unsafe { userfault::move_pages(client.descriptors.mover, to, from, length) } {
        (said, Some(errno)) => {
            let bytes = said + moved_unsaid(client, to + said, from + said, length - said);
            (bytes, (bytes < length).then_some(errno))
        }
        all => all,
    }
}

/// How many bytes at the beginning of a range were moved of which the kernel says that they were not.
///
/// `UFFDIO_MOVE` moves neighbours together, and may begin with them again for a reason of its own: it then finds them
/// where it has put them, and refuses (seen with Linux 6.18, while the kernel brings pages elsewhere in physical
/// memory). What it says to have moved is what came before these neighbours. Dropped where they are, their content
/// would be lost.
fn moved_unsaid(client: &Client, to: usize, from: usize, length: usize) -> usize {
    let pages = length / PAGE;
    let (mut there, mut left) = ([Entry::default(); STAGED], [Entry::default(); STAGED]);
    let (Some(there), Some(left)) = (there.get_mut(..pages), left.get_mut(..pages)) else {
        return 0;
    };
    page_map::read_presence(client, to, there);
    page_map::read_presence(client, from, left);
    page_map::moved(there, left) * PAGE
}

/// Pages move only between areas of the same protection.
fn executable_staging(client: &Client) -> Option<usize> {
    const DONT_FORK: usize = 10;
    let there = client.staging_executable.load(Ordering::Relaxed);
    if there != 0 {
        return Some(there);
    }
    let protection = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
    let address = sys::guarded(STAGED * PAGE, protection).ok()?;
    // SAFETY: the memory is this library's, and nothing is in it yet.
    unsafe { sys::own::madvise(address, STAGED * PAGE, DONT_FORK) }.ok()?;
    register_staging(client.descriptors.mover, address).ok()?;
    client.staging_executable.store(address, Ordering::Relaxed);
    Some(address)
}
