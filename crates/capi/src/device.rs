//! Devices: memory that a program gets whole and at once.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use freehold_client::default_socket;
use freehold_client::device::{Device, Lies};

use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::sized::{self, Versioned};
use crate::text;

/// An open device.
#[derive(Debug)]
pub struct freehold_device {
    _private: [u8; 0],
}

object!(freehold_device, Mutex<Device>, "device", b"fhdevice");

/// In `freehold_device_grant.contiguity`: nobody may see how the memory lies.
pub const FREEHOLD_CONTIGUITY_UNKNOWN: u32 = 0;
/// In `freehold_device_grant.contiguity`: the memory is one piece of the machine's.
pub const FREEHOLD_PHYSICAL: u32 = 1;
/// In `freehold_device_grant.contiguity`: the memory lies in several pieces.
pub const FREEHOLD_PIECES: u32 = 2;

/// A device to be opened.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_device_options {
    /// sizeof(freehold_device_options).
    pub size: usize,
    /// Its name in the device file.
    pub name: *const c_char,
    /// The socket of the server or mount; null for the default: that of FREEHOLD_SOCKET, the user's own server, or the
    /// system's.
    pub socket: *const c_char,
    /// Pages of 4096 bytes that are used; 0 for all.
    pub used: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, begins with its size, integers and pointers only.
unsafe impl Versioned for freehold_device_options {
    const LEAST: usize = 32;
    const NAME: &'static str = "freehold_device_options";
}

/// What an opening gave. Numbers of pages are of 4096 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_device_grant {
    /// sizeof(freehold_device_grant).
    pub size: usize,
    /// Pages that the device has at most.
    pub pages: u32,
    /// Pages that it uses now.
    pub used: u32,
    /// The first page that it was opened with, in the region of all devices.
    pub first: u32,
    /// FREEHOLD_PHYSICAL, FREEHOLD_PIECES or FREEHOLD_CONTIGUITY_UNKNOWN, of what it was opened with.
    pub contiguity: u32,
    /// In how many pieces; 0 where that is unknown.
    pub pieces: u32,
    /// Memory objects that it has now.
    pub descriptors: u32,
    /// 1 where the memory came as it was, 0 where it was filled with zeros.
    pub trusted: u32,
    /// Cached pages that went for the opening.
    pub discarded: u32,
    /// How long the server waited for copies and for the device's own return.
    pub wait_ns: u64,
    /// How long the server chose the place.
    pub choose_ns: u64,
    /// How long the server filled the memory with zeros.
    pub zero_ns: u64,
    /// How long the server took in all.
    pub total_ns: u64,
}

// SAFETY: `repr(C)`, begins with its size, integers only.
unsafe impl Versioned for freehold_device_grant {
    const LEAST: usize = 72;
    const NAME: &'static str = "freehold_device_grant";
}

/// Opens a device, and maps its memory in one piece of addresses. Needs no freehold_connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_open(
    options: *const freehold_device_options,
    device: *mut *mut freehold_device,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate), also for the strings in the structure.
        let (out, options, name, socket) = unsafe {
            let out = handle::place(device)?;
            let options = sized::read(options)?;
            let name = text::read(options.name, "the device's name")?;
            (
                out,
                options,
                name,
                text::read_if_any(options.socket, "the socket's path")?,
            )
        };
        if options.reserved != 0 {
            return Err(Problem::invalid("freehold_device_options.reserved is not 0"));
        }
        let socket = socket.map_or_else(default_socket, PathBuf::from);
        handle::give(Mutex::new(Device::open(&socket, name, options.used)?), out);
        Ok(())
    })
}

/// Gives a device more, up to its size: it uses `used` pages then, all where that is 0. What is new can lie before what
/// there was: ask for the address again. What was mapped stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_grow(device: *const freehold_device, used: u32) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        unsafe { with(device, |device| device.grow(used)) }??;
        Ok(())
    })
}

/// The first byte of a device's memory; null for what is no device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_address(device: *const freehold_device) -> *mut c_void {
    let mut address = 0;
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        address = unsafe { with(device, |device| device.address()) }?;
        Ok(())
    });
    std::ptr::with_exposed_provenance_mut(address)
}

/// The length of a device's memory in bytes; 0 for what is no device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_length(device: *const freehold_device) -> usize {
    let mut length = 0;
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        length = unsafe { with(device, |device| device.length()) }?;
        Ok(())
    });
    length
}

/// What the server said when the device was opened, with what it uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_grant_of(
    device: *const freehold_device,
    grant: *mut freehold_device_grant,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (memory, given) = unsafe { with(device, |device| (device.grant(), device.opening())) }?;
        let facts = freehold_device_grant {
            size: 0,
            pages: given.most,
            used: given.used,
            first: memory.first,
            contiguity: match given.lies {
                Lies::Physical => FREEHOLD_PHYSICAL,
                Lies::Pieces => FREEHOLD_PIECES,
                Lies::Unknown => FREEHOLD_CONTIGUITY_UNKNOWN,
            },
            pieces: given.pieces,
            descriptors: memory.descriptors,
            trusted: given.trusted.into(),
            discarded: given.discarded,
            wait_ns: given.wait,
            choose_ns: given.choose,
            zero_ns: given.zero,
            total_ns: given.total,
        };
        // SAFETY: as above.
        unsafe { sized::write(grant, facts) }
    })
}

/// One of a device's memory objects, in order of address from 0: to be passed to a driver or another process. The
/// descriptor stays the library's, which closes it with the device. `length` is in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_descriptor(
    device: *const freehold_device,
    which: u32,
    descriptor: *mut c_int,
    length: *mut usize,
) -> freehold_status {
    guard(|| {
        let place = usize::try_from(which).unwrap_or(usize::MAX);
        // SAFETY: the caller's promise (see the crate).
        let found = unsafe {
            with(device, |device| {
                let found = device.descriptors().nth(place);
                found.map(|(descriptor, length)| (descriptor.as_raw_fd(), length))
            })
        }?;
        let missing = || Problem::invalid(format!("the device has no memory object {which}"));
        let (found, bytes) = found.ok_or_else(missing)?;
        // SAFETY: as above.
        unsafe {
            text::number(descriptor, found)?;
            text::number(length, bytes)
        }
    })
}

/// Closes a device: its memory is unmapped, its descriptors are closed, and the server takes it back as soon as nobody
/// else has it. In a child of a fork only the child's descriptors are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_device_close(device: *mut freehold_device) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let Some(device) = unsafe { handle::take(device) }? else {
            return Ok(());
        };
        device.into_inner().unwrap_or_else(PoisonError::into_inner).close()?;
        Ok(())
    })
}

/// # Safety
/// As [`handle::borrow`].
unsafe fn with<R>(device: *const freehold_device, body: impl FnOnce(&mut Device) -> R) -> Result<R, Problem> {
    // SAFETY: the caller's promise.
    let device = unsafe { handle::borrow(device) }?;
    let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(body(&mut device))
}
