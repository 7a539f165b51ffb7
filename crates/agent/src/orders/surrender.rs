//! Moving private pages out of the address space, and their content to the transfer memory.

use core::ops::Range;
use core::sync::atomic::Ordering;

use freehold_protocol::channel::{Action, Order, Outcome};

use super::{Batch, zap};
use crate::client::{Client, STAGED, register_staging};
use crate::process::PAGE;
use crate::sys::{self, Errno};
use crate::{process, userfault};

const TRIES: usize = 3;
/// Nanoseconds between two tries where the kernel says to try again.
const NAP: usize = 200_000;
/// How often that is done in one batch at most: some 40 ms. Several batches may wait, and the server waits a second for
/// an answer.
const NAPS: u32 = 150;

/// What is left of the patience for one batch.
///
/// While a thread unmaps memory or forks the kernel moves nothing, and that thread may have lost its CPU in the middle
/// of it. Were every page that is asked for refused meanwhile, none would be left to ask for, and the program would get
/// an error for one that it needs.
struct Patience(u32);

impl Patience {
    /// Sleeps a little; false where it has been done often enough.
    fn wait(&mut self) -> bool {
        let Some(left) = self.0.checked_sub(1) else {
            return false;
        };
        self.0 = left;
        sys::nap(NAP);
        true
    }
}

/// Carries out the batch's orders about private pages. Neighbours in order and address are moved with one call.
pub(super) fn surrender(client: &Client, batch: &Batch, outcomes: &mut [Outcome; STAGED]) {
    let mut patience = Patience(NAPS);
    let mut at = 0;
    let mut any = false;
    while let Some(order) = batch.get(at).copied().flatten() {
        if order.action == Action::Zap {
            at += 1;
            continue;
        }
        let run = run_length(batch, at);
        move_run(client, batch, at..at + run, outcomes, &mut patience);
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
    let (start, length) = super::page_range(order)?;
    (order.action != Action::Zap && length == PAGE).then_some(start)
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

fn move_run(
    client: &Client,
    batch: &Batch,
    orders: Range<usize>,
    outcomes: &mut [Outcome; STAGED],
    patience: &mut Patience,
) {
    let (first, run) = (orders.start, orders.len());
    let Some(start) = batch.get(first).and_then(Option::as_ref).and_then(private_address) else {
        return;
    };
    let mut done = 0;
    while done < run {
        let to = client.staging + (first + done) * PAGE;
        let (bytes, refused) = take_out(client, to, start + done * PAGE, (run - done) * PAGE);
        let moved = bytes / PAGE;
        for at in first + done..first + done + moved {
            finish(client, batch, at, client.staging, outcomes, patience);
        }
        done += moved;
        if done < run && refused.is_some() {
            let at = first + done;
            one_page(client, batch, at, start + done * PAGE, outcomes, patience);
            done += 1;
        }
    }
}

/// Moves pages out of managed memory, and never out of other memory that has taken its place since the order was given:
/// whoever makes such memory waits, before its address is known to anybody, until this is done ([`hooks`]).
///
/// [`hooks`]: crate::hooks
fn take_out(client: &Client, to: usize, from: usize, length: usize) -> (usize, Option<Errno>) {
    let Some(process) = process::process() else {
        return (0, Some(Errno::NOENT));
    };
    process.moving.store(1, Ordering::SeqCst);
    let answer = match userfault::is_registered(client.descriptors.private, from, length) {
        // SAFETY: whoever uses the pages faults, and the server knows where they went.
        Ok(_) => unsafe { userfault::move_pages(client.descriptors.mover, to, from, length) },
        Err(errno) => (0, Some(errno)),
    };
    process.moving.store(0, Ordering::SeqCst);
    answer
}

/// A page that would not move with its neighbours.
fn one_page(
    client: &Client,
    batch: &Batch,
    at: usize,
    from: usize,
    outcomes: &mut [Outcome; STAGED],
    patience: &mut Patience,
) {
    const POPULATE_WRITE: usize = 23;
    let mut staging = client.staging;
    let mut outcome = Outcome::Busy;
    let mut tries = 0;
    while tries < TRIES {
        tries += 1;
        match take_out(client, staging + at * PAGE, from, PAGE) {
            (_, None) => {
                finish(client, batch, at, staging, outcomes, patience);
                return;
            }
            (_, Some(Errno::NOENT)) => {
                outcome = Outcome::Absent;
                break;
            }
            // Shared with a forked child, or was: a write gives the program a page of its own.
            (_, Some(Errno::BUSY)) => {
                // SAFETY: the program's content stays as it is.
                let _ = unsafe { sys::madvise(from, PAGE, POPULATE_WRITE) };
            }
            // The program has locked all memory, and with it this area, which the kernel has filled.
            (_, Some(Errno::EXIST)) => {
                let _ = zap::drop_pages(staging + at * PAGE, PAGE);
            }
            (_, Some(Errno::INVAL)) => match executable_staging(client) {
                Some(other) if other != staging => staging = other,
                _ => {
                    outcome = Outcome::Refused;
                    break;
                }
            },
            (_, Some(Errno::AGAIN)) => tries -= usize::from(patience.wait()),
            (_, Some(_)) => {
                outcome = Outcome::Refused;
                break;
            }
        }
    }
    if let Some(place) = outcomes.get_mut(at) {
        *place = outcome;
    }
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
    unsafe { sys::madvise(address, STAGED * PAGE, DONT_FORK) }.ok()?;
    register_staging(client.descriptors.mover, address).ok()?;
    client.staging_executable.store(address, Ordering::Relaxed);
    Some(address)
}

/// The page of the order at `at` is in its place of the staging area: copies it where the server wants it.
fn finish(
    client: &Client,
    batch: &Batch,
    at: usize,
    staging: usize,
    outcomes: &mut [Outcome; STAGED],
    patience: &mut Patience,
) {
    let (Some(Some(order)), Some(outcome)) = (batch.get(at), outcomes.get_mut(at)) else {
        return;
    };
    let page = staging + at * PAGE;
    *outcome = match order.action {
        Action::Drop => Outcome::Done,
        _ if is_zero(page) => Outcome::Zero,
        _ if order.slot < client.transfer_pages && copy_out(client, page, order.slot) => Outcome::Done,
        _ => {
            put_back(client, page, order, patience);
            Outcome::Refused
        }
    };
}

/// Where the transfer memory takes nothing, the page returns to where it was.
fn put_back(client: &Client, page: usize, order: &Order, patience: &mut Patience) {
    let Ok(to) = usize::try_from(order.address) else { return };
    loop {
        // SAFETY: nothing is there since the page was moved away; the server has not been told of it yet.
        let (_, refused) = unsafe { userfault::move_pages(client.descriptors.private, to, page, PAGE) };
        match refused {
            None => return,
            Some(Errno::AGAIN) if patience.wait() => {}
            // Its content would be lost.
            Some(_) => sys::kill_self(),
        }
    }
}

fn is_zero(page: usize) -> bool {
    let words = core::ptr::with_exposed_provenance::<u64>(page);
    // SAFETY: the page has just been moved to this library's own area.
    (0..PAGE / 8).all(|at| unsafe { words.add(at).read() } == 0)
}

fn copy_out(client: &Client, page: usize, slot: u32) -> bool {
    let offset = slot as usize * PAGE;
    // SAFETY: reads one page of this library's own area.
    let written = unsafe {
        sys::call5(
            sys::PWRITE,
            sys::arg(client.descriptors.transfer),
            page,
            PAGE,
            offset,
            0,
        )
    };
    written == Ok(PAGE)
}
