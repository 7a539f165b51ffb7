//! POSIX input and output on `/dev/rtfN` from real-time threads. Nothing here waits: an open without O_NONBLOCK is
//! refused.

use std::sync::atomic::{AtomicU32, Ordering};

use super::failed;
use crate::fifo::COUNT;
use crate::runtime::fifos;

/// Descriptors of FIFOs are from here on, where Linux has none.
const BASE: i32 = 1 << 20;

/// `RTF_SETSIZE` of the header.
const SET_SIZE: libc::c_ulong = 1;

/// `FIONREAD` of the system's header.
const READABLE: libc::c_ulong = 0x541b;

/// The size of a FIFO that `open` creates.
const DEFAULT_SIZE: i32 = 8192;

/// How often each FIFO is open. All descriptors of one are the same number.
static OPEN: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// The FIFO of a descriptor, and how often it is open.
fn place(descriptor: i32) -> Option<(u32, &'static AtomicU32)> {
    let number = u32::try_from(descriptor.checked_sub(BASE)?).ok()?;
    Some((number, OPEN.get(usize::try_from(number).ok()?)?))
}

/// The FIFO of a descriptor that is open.
fn fifo(descriptor: i32) -> Option<u32> {
    let (number, open) = place(descriptor)?;
    (open.load(Ordering::Relaxed) > 0).then_some(number)
}

/// `open`: EACCES without O_NONBLOCK and for `/dev/mem`, ENODEV when the FIFO does not exist, ENOENT for other files.
/// With O_CREAT a FIFO that does not exist is created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_open(path: *const libc::c_char, flags: i32) -> i32 {
    if path.is_null() {
        return failed(libc::EFAULT);
    }
    // SAFETY: not null, so a string that ends, as the C API wants it.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_str().unwrap_or_default();
    if path == "/dev/mem" {
        return failed(libc::EACCES);
    }
    let number = path
        .strip_prefix("/dev/rtf")
        .and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(number) if usize::try_from(number).is_ok_and(|number| number < COUNT) => {
            if flags & libc::O_NONBLOCK == 0 {
                failed(libc::EACCES)
            } else if !exists(number, flags & libc::O_CREAT != 0) {
                failed(libc::ENODEV)
            } else {
                let descriptor = BASE + number.cast_signed();
                if let Some((_, open)) = place(descriptor) {
                    open.fetch_add(1, Ordering::Relaxed);
                }
                descriptor
            }
        }
        Some(_) => failed(libc::ENODEV),
        None => failed(libc::ENOENT),
    }
}

/// Whether there is such a FIFO, now at least where it may be created.
fn exists(number: u32, create: bool) -> bool {
    fifos::exists(number) || (create && fifos::create(number, DEFAULT_SIZE).is_ok())
}

fn counted(result: Result<usize, i32>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(errno) => {
            failed(-errno);
            -1
        }
    }
}

/// `read`: what is there, 0 when nothing is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_read(descriptor: i32, buffer: *mut u8, bytes: usize) -> isize {
    match fifo(descriptor) {
        Some(_) if buffer.is_null() => counted(Err(-libc::EFAULT)),
        // SAFETY: not null, so as long as the program says, and only written, as the C API wants it.
        Some(fifo) => counted(fifos::get(fifo, unsafe {
            std::slice::from_raw_parts_mut(buffer, bytes)
        })),
        None => counted(Err(-libc::EBADF)),
    }
}

/// `write`: all of it, or ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_write(descriptor: i32, buffer: *const u8, bytes: usize) -> isize {
    match fifo(descriptor) {
        Some(_) if buffer.is_null() => counted(Err(-libc::EFAULT)),
        // SAFETY: not null, so as long as the program says, as the C API wants it.
        Some(fifo) => counted(fifos::put(fifo, unsafe { std::slice::from_raw_parts(buffer, bytes) })),
        None => counted(Err(-libc::EBADF)),
    }
}

/// `close`: EBADF for what is not open.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_close(descriptor: i32) -> i32 {
    let less = |open: u32| open.checked_sub(1);
    let closed =
        place(descriptor).and_then(|(_, open)| open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok());
    closed.map_or_else(|| failed(libc::EBADF), |_| 0)
}

/// `ioctl`: RTF_SETSIZE, with a FIFO that is empty, and FIONREAD; EINVAL otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_ioctl(descriptor: i32, request: libc::c_ulong, argument: libc::c_long) -> i32 {
    let Some(fifo) = fifo(descriptor) else {
        return failed(libc::EBADF);
    };
    let done = match request {
        SET_SIZE => i32::try_from(argument)
            .map_err(|_| -libc::EINVAL)
            .and_then(|size| fifos::resize(fifo, size)),
        READABLE => fifos::used(fifo).map(|used| {
            let place = std::ptr::with_exposed_provenance_mut::<i32>(usize::try_from(argument).unwrap_or(0));
            // SAFETY: the program passes where a number is to be put, or null.
            if let Some(place) = unsafe { place.as_mut() } {
                *place = i32::try_from(used).unwrap_or(i32::MAX);
            }
        }),
        _ => Err(-libc::EINVAL),
    };
    done.map_or_else(|errno| failed(-errno), |()| 0)
}
