//! FIFOs: `rtl_fifo.h`. Errors are negative numbers of `errno`.

use crate::runtime::fifos::{self, Handler};

fn number(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

fn count(result: Result<usize, i32>) -> i32 {
    result.map_or_else(|errno| errno, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

/// `rtf_create`: -ENODEV, -EBUSY when it exists, -ENOMEM without memory or for no size.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_create(fifo: u32, size: i32) -> i32 {
    number(fifos::create(fifo, size))
}

/// `rtf_destroy`: -ENODEV, -EINVAL when it does not exist or a process has it open.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_destroy(fifo: u32) -> i32 {
    number(fifos::destroy(fifo, false))
}

/// `rtf_put`: all of it or -ENOSPC; -ENODEV, -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtf_put(fifo: u32, buffer: *const u8, bytes: i32) -> i32 {
    let Ok(length) = usize::try_from(bytes) else {
        return -libc::EINVAL;
    };
    if buffer.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: not null, so as long as the program says, as the C API wants it.
    count(fifos::put(fifo, unsafe { std::slice::from_raw_parts(buffer, length) }))
}

/// `rtf_get`: what is there, 0 when nothing is; -ENODEV, -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtf_get(fifo: u32, buffer: *mut u8, bytes: i32) -> i32 {
    let Ok(length) = usize::try_from(bytes) else {
        return -libc::EINVAL;
    };
    if buffer.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: not null, so as long as the program says, and only written, as the C API wants it.
    count(fifos::get(fifo, unsafe {
        std::slice::from_raw_parts_mut(buffer, length)
    }))
}

/// `rtf_flush`.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_flush(fifo: u32) -> i32 {
    number(fifos::flush(fifo))
}

/// `rtf_isempty`.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_isempty(fifo: u32) -> i32 {
    fifos::used(fifo).map_or_else(|errno| errno, |used| i32::from(used == 0))
}

/// `rtf_isused`.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_isused(fifo: u32) -> i32 {
    i32::from(fifos::exists(fifo))
}

/// `rtf_create_handler`: called after each read and write of a process; -EINVAL for no FIFO or no function.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_create_handler(fifo: u32, handler: Option<Handler>) -> i32 {
    number(fifos::watch(fifo, handler))
}

/// `rtf_create_rt_handler`: called by the thread that puts or gets; -EINVAL for no FIFO or no function.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_create_rt_handler(fifo: u32, handler: Option<Handler>) -> i32 {
    number(fifos::set_on_use(fifo, handler))
}

/// `rtf_make_user_pair`: a process that opens `get` reads from it, and what it writes there goes to `put`.
#[unsafe(no_mangle)]
pub extern "C" fn rtf_make_user_pair(get: u32, put: u32) -> i32 {
    number(fifos::pair(get, put))
}
