//! Reservations and locks.

use std::ffi::c_char;

use freehold_client::{Region, RequestError, Reservation, ReservationKind, Ticket};

use crate::connection::freehold_connection;
use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::region::freehold_region;
use crate::text;

/// A reservation: frames that are there for its tasks alone.
#[derive(Debug)]
pub struct freehold_reservation {
    _private: [u8; 0],
}

object!(freehold_reservation, Reservation, "reservation", b"fhreserv");

/// For `freehold_reserve`: never more than its frames.
pub const FREEHOLD_HARD: u32 = 1;
/// For `freehold_reserve`: may borrow frames that nobody has reserved.
pub const FREEHOLD_FIRM: u32 = 2;
/// Bytes of a ticket's text, with the zero byte at its end.
pub const FREEHOLD_TICKET_SIZE: usize = 33;

/// Makes a reservation of `frames` pages of memory, of type FREEHOLD_HARD or FREEHOLD_FIRM. Waits while the server
/// gathers frames that are in use and that nobody has a claim to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_reserve(
    connection: *const freehold_connection,
    name: *const c_char,
    frames: u32,
    kind: u32,
    reservation: *mut *mut freehold_reservation,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, connection, name) = unsafe {
            let out = handle::place(reservation)?;
            (
                out,
                handle::borrow(connection)?,
                text::read(name, "the reservation's name")?,
            )
        };
        let kind = match kind {
            FREEHOLD_HARD => ReservationKind::Hard,
            FREEHOLD_FIRM => ReservationKind::Firm,
            other => return Err(Problem::invalid(format!("there is no type {other} of reservations"))),
        };
        handle::give(connection.reserve(name, frames, kind)?, out);
        Ok(())
    })
}

/// Joins the reservation of a ticket, which another process has got from `freehold_ticket`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_join(
    connection: *const freehold_connection,
    ticket: *const c_char,
    reservation: *mut *mut freehold_reservation,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, connection, ticket) = unsafe {
            let out = handle::place(reservation)?;
            (out, handle::borrow(connection)?, text::read(ticket, "the ticket")?)
        };
        let ticket = Ticket::parse(ticket).ok_or_else(|| Problem::invalid("a ticket is 32 hexadecimal digits"))?;
        handle::give(connection.join(ticket)?, out);
        Ok(())
    })
}

/// The frames of a reservation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_frames(
    reservation: *const freehold_reservation,
    frames: *mut u32,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let reservation = unsafe { handle::borrow(reservation) }?;
        // SAFETY: as above.
        unsafe { text::number(frames, reservation.frames()) }
    })
}

/// Writes the reservation's ticket, FREEHOLD_TICKET_SIZE bytes with the zero byte, to `ticket`, which has room for
/// `size`. Whoever has the ticket can join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_ticket(
    reservation: *const freehold_reservation,
    ticket: *mut c_char,
    size: usize,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let reservation = unsafe { handle::borrow(reservation) }?;
        let digits = reservation.ticket().to_text();
        if ticket.is_null() || size < FREEHOLD_TICKET_SIZE || digits.len() + 1 != FREEHOLD_TICKET_SIZE {
            return Err(Problem::invalid(format!(
                "a ticket needs room for {FREEHOLD_TICKET_SIZE} bytes"
            )));
        }
        // SAFETY: the caller has room for as many bytes, and another's memory does not overlap.
        unsafe {
            ticket.copy_from_nonoverlapping(digits.as_ptr().cast(), digits.len());
            ticket.add(digits.len()).write(0);
        }
        Ok(())
    })
}

/// Brings `pages` pages of a region in, from page `first` on, and keeps them resident until they are unlocked. One of
/// the reservation's tasks must have the region mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_lock(
    reservation: *const freehold_reservation,
    region: *const freehold_region,
    first: u32,
    pages: u32,
) -> freehold_status {
    // SAFETY: the caller's promise (see the crate).
    unsafe { set_pages(reservation, region, (first, pages), Reservation::lock) }
}

/// Unlocks pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_unlock(
    reservation: *const freehold_reservation,
    region: *const freehold_region,
    first: u32,
    pages: u32,
) -> freehold_status {
    // SAFETY: the caller's promise (see the crate).
    unsafe { set_pages(reservation, region, (first, pages), Reservation::unlock) }
}

/// Has `set` lock or unlock the pages.
///
/// # Safety
/// As for the functions that call it.
unsafe fn set_pages(
    reservation: *const freehold_reservation,
    region: *const freehold_region,
    (first, pages): (u32, u32),
    set: fn(&Reservation, &Region, u32, u32) -> Result<(), RequestError>,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (reservation, region) = unsafe { (handle::borrow(reservation)?, handle::borrow(region)?) };
        Ok(set(reservation, region, first, pages)?)
    })
}

/// Ends a reservation for this program, once its tasks are ended too. Others that joined it keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_release(reservation: *mut freehold_reservation) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        drop(unsafe { handle::take(reservation) }?);
        Ok(())
    })
}
