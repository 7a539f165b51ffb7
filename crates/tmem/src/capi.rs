//! The functions of `include/freehold_cbuf.h`, which documents them.

use crate::cache::TakeError;
use crate::id::BufferId;
use crate::pool::Pool;
use crate::registry::{self, Known, RegisterError};
use crate::settings::{PoolError, PoolSettings};
use freehold_linux::pi_word::Scope;
use libc::{c_int, c_void};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_cbuf_create(
    component: u16,
    units: usize,
    unit_size: usize,
    minimum: usize,
    bound_ns: u64,
) -> c_int {
    let settings = PoolSettings {
        component,
        units,
        unit_bytes: unit_size,
        minimum,
        guard_pages: 0,
        bound: Duration::from_nanos(bound_ns),
        scope: Scope::Shared,
    };
    match Pool::create(settings).map(Known::Own) {
        Ok(pool) => match registry::register(pool) {
            Ok(Known::Own(pool)) => pool.as_fd().as_raw_fd(),
            Ok(Known::Reader(_)) => -libc::EINVAL,
            Err(error) => -register_errno(error),
        },
        Err(error) => -pool_errno(error),
    }
}

/// See the header.
///
/// # Safety
/// `fd` is open throughout the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_cbuf_join(fd: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { open(fd, |fd| Pool::open(fd).map(Known::Own)) }
}

/// See the header.
///
/// # Safety
/// `fd` is open throughout the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_cbuf_read(fd: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { open(fd, |fd| Pool::open_to_read(fd).map(Known::Reader)) }
}

/// See the header.
///
/// # Safety
/// `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cbuf_alloc(size: usize, id: *mut u64) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { allocate(registry::own(), size, id) }
}

/// What both ways to `cbuf_alloc` do: a buffer of `pool`, or null with `errno`.
///
/// # Safety
/// `id` is null or may be written.
pub(crate) unsafe fn allocate(pool: Option<&Pool>, size: usize, id: *mut u64) -> *mut c_void {
    let taken = pool
        .ok_or(libc::ENXIO)
        .and_then(|pool| pool.take(size).map_err(take_errno));
    match taken {
        Ok(buffer) => {
            if !id.is_null() {
                // SAFETY: may be written, as the caller promises.
                unsafe { id.write(buffer.id.raw()) };
            }
            buffer.start.cast()
        }
        Err(error) => {
            set_errno(error);
            std::ptr::null_mut()
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cbuf_free(buffer: *mut c_void) -> c_int {
    match registry::own().map(|pool| pool.release(buffer.cast())) {
        Some(Ok(())) => 0,
        Some(Err(errno)) => -errno.raw_os_error(),
        None => -libc::ENXIO,
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cbuf2buf(id: u64, size: usize) -> *const c_void {
    registry::find(BufferId::from_raw(id), size).map_or_else(
        || {
            set_errno(libc::ENOENT);
            std::ptr::null()
        },
        <*const u8>::cast,
    )
}

/// # Safety
/// `fd` is open throughout the call, or negative.
unsafe fn open(fd: c_int, open: impl FnOnce(OwnedFd) -> Result<Known, PoolError>) -> c_int {
    if fd < 0 {
        return -libc::EBADF;
    }
    // SAFETY: open, as the caller promises.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let own = match borrowed.try_clone_to_owned() {
        Ok(own) => own,
        Err(error) => return -error.raw_os_error().unwrap_or(libc::EBADF),
    };
    match open(own) {
        Ok(pool) => registry::register(pool).map_or_else(|error| -register_errno(error), |_| 0),
        Err(error) => -pool_errno(error),
    }
}

pub(crate) fn take_errno(error: TakeError) -> c_int {
    match error {
        TakeError::TimedOut => libc::ETIMEDOUT,
        TakeError::TooMany => libc::EDQUOT,
        TakeError::Empty => libc::ENOMEM,
        TakeError::Size => libc::EINVAL,
        TakeError::Refused => libc::EIO,
    }
}

fn register_errno(error: RegisterError) -> c_int {
    match error {
        RegisterError::Component => libc::EINVAL,
        RegisterError::Taken => libc::EEXIST,
    }
}

fn pool_errno(error: PoolError) -> c_int {
    use freehold_linux::memory::{MapError, MemfdError};
    match error {
        PoolError::Settings
        | PoolError::NotAPool
        | PoolError::Memfd(MemfdError::TooLong(_) | MemfdError::Unsuitable(_))
        | PoolError::Map(MapError::OutOfBounds) => libc::EINVAL,
        PoolError::Memfd(MemfdError::System(errno)) | PoolError::Map(MapError::System(errno)) => errno.raw_os_error(),
    }
}

fn set_errno(error: c_int) {
    // SAFETY: the calling thread's own number.
    unsafe { *libc::__errno_location() = error };
}
