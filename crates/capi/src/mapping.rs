//! Mappings and pins.

use std::ffi::c_void;

use freehold_client::{Mapping, RequestError, Reservation};

use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::region::freehold_region;
use crate::reservation::freehold_reservation;
use crate::task::freehold_task;

/// A region as one task sees it.
#[derive(Debug)]
pub struct freehold_mapping {
    _private: [u8; 0],
}

object!(freehold_mapping, Mapping, "mapping", b"fhmappin");

/// Maps all of a region for a task. Any thread may touch it; what that costs is the task's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_map(
    task: *const freehold_task,
    region: *const freehold_region,
    mapping: *mut *mut freehold_mapping,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, task, region) = unsafe { (handle::place(mapping)?, handle::borrow(task)?, handle::borrow(region)?) };
        handle::give(task.map(region)?, out);
        Ok(())
    })
}

/// Maps `pages` pages of a region, from page `first` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_map_part(
    task: *const freehold_task,
    region: *const freehold_region,
    first: u32,
    pages: u32,
    mapping: *mut *mut freehold_mapping,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, task, region) = unsafe { (handle::place(mapping)?, handle::borrow(task)?, handle::borrow(region)?) };
        handle::give(task.map_part(region, first, pages)?, out);
        Ok(())
    })
}

/// The first byte of a mapping; null for what is no mapping. A file's mapping is for reading only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_address(mapping: *const freehold_mapping) -> *mut c_void {
    let mut address = std::ptr::null_mut();
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        address = unsafe { handle::borrow(mapping) }?.base().cast();
        Ok(())
    });
    address
}

/// The length of a mapping in bytes; 0 for what is no mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_length(mapping: *const freehold_mapping) -> usize {
    let mut length = 0;
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        length = unsafe { handle::borrow(mapping) }?.length();
        Ok(())
    });
    length
}

/// Brings the pages of `length` bytes from `address` on in and keeps them resident until they are unpinned, as
/// `freehold_lock` does, which knows them by number. For memory that a device is to read or write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_pin(
    reservation: *const freehold_reservation,
    mapping: *const freehold_mapping,
    address: *const c_void,
    length: usize,
) -> freehold_status {
    // SAFETY: the caller's promise (see the crate).
    unsafe { set_pages(reservation, mapping, (address, length), Reservation::lock_mapped) }
}

/// Ends what `freehold_pin` has begun, for the same pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_unpin(
    reservation: *const freehold_reservation,
    mapping: *const freehold_mapping,
    address: *const c_void,
    length: usize,
) -> freehold_status {
    // SAFETY: the caller's promise (see the crate).
    unsafe { set_pages(reservation, mapping, (address, length), Reservation::unlock_mapped) }
}

/// Ends a mapping: its addresses are free for others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_unmap(mapping: *mut freehold_mapping) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        drop(unsafe { handle::take(mapping) }?);
        Ok(())
    })
}

/// Has `set` pin or unpin the pages that contain the bytes.
///
/// # Safety
/// As for the functions that call it.
unsafe fn set_pages(
    reservation: *const freehold_reservation,
    mapping: *const freehold_mapping,
    (address, length): (*const c_void, usize),
    set: fn(&Reservation, &Mapping, usize, usize) -> Result<(), RequestError>,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (reservation, mapping) = unsafe { (handle::borrow(reservation)?, handle::borrow(mapping)?) };
        let (first, pages) = pages_of(mapping, address, length)?;
        Ok(set(reservation, mapping, first, pages)?)
    })
}

/// The pages, from the mapping's first, that contain the bytes.
fn pages_of(mapping: &Mapping, address: *const c_void, length: usize) -> Result<(usize, usize), Problem> {
    let outside = || Problem::invalid("the bytes are not all in the mapping");
    let offset = address.addr().checked_sub(mapping.base().addr()).ok_or_else(outside)?;
    let end = offset.checked_add(length).ok_or_else(outside)?;
    if length == 0 || end > mapping.length() {
        return Err(outside());
    }
    let first = offset / freehold_client::PAGE_SIZE;
    Ok((first, end.div_ceil(freehold_client::PAGE_SIZE) - first))
}
