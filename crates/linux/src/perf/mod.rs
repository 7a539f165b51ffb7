//! `perf_event_open(2)`: one event, and the descriptor that counts or records it.

pub(crate) mod ring;

use crate::{Errno, sys};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ffi::CString;

/// `struct perf_event_attr`, its fifth version (4.1). Its size is put in when it is opened.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) period: u64,
    pub(crate) sample: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup: u32,
    pub(crate) breakpoint: u32,
    pub(crate) unused: [u64; 3],
    pub(crate) user_registers: u64,
    pub(crate) stack: u32,
    pub(crate) clock: i32,
    pub(crate) registers: u64,
    pub(crate) auxiliary: u64,
}

const SIZE: u32 = 112;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

/// Opens an event of one thread (0: the caller, -1: everybody) on one CPU (-1: all), in no group.
pub(crate) fn open(attributes: &Attributes, thread: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = Attributes {
        size: SIZE,
        ..*attributes
    };
    let no_group: libc::c_int = -1;
    // SAFETY: the structure is as long as it says, and the kernel only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let number = i32::try_from(sys::check(result)?).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has a tracepoint tell of some of what happens only.
pub(crate) fn narrow(event: &OwnedFd, filter: &str) -> Result<(), Errno> {
    const FILTER: libc::c_ulong = 0x4008_2406;
    let filter = CString::new(filter).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads the text up to its end.
    sys::check_int(unsafe { libc::ioctl(event.as_raw_fd(), FILTER, filter.as_ptr()) }).map(|_| ())
}
