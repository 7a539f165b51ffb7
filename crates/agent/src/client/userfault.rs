//! The userfaultfd requests of a client: registering, and moving pages out.

use crate::sys::{self, Answer, Errno};

const FEATURE_EVENT_FORK: u64 = 1 << 1;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const FEATURE_MOVE: u64 = 1 << 16;

/// For private memory: everything that happens to it is told.
pub(crate) const PRIVATE: u64 =
    FEATURE_THREAD_ID | FEATURE_EVENT_FORK | FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP;
/// For shared objects: the agent's own removals are not told.
pub(crate) const SHARED: u64 = FEATURE_THREAD_ID
    | FEATURE_EVENT_FORK
    | FEATURE_EVENT_REMAP
    | FEATURE_EVENT_UNMAP
    | FEATURE_MISSING_SHMEM
    | FEATURE_MINOR_SHMEM
    | FEATURE_WP_SHMEM;
/// For the agent's staging area: nobody is told anything.
pub(crate) const MOVER: u64 = FEATURE_MOVE;

pub(crate) const MISSING: u64 = 1;
pub(crate) const WRITE_PROTECT: u64 = 2;
pub(crate) const MINOR: u64 = 4;

const fn request(direction: u64, number: u64, size: u64) -> u64 {
    direction << 30 | size << 16 | 0xAA << 8 | number
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Move {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    moved: i64,
}

const API: u64 = request(3, 0x3F, 24);
const REGISTER: u64 = request(3, 0, 32);
/// The number of the request that registers, as the program makes it too.
#[expect(
    clippy::cast_possible_truncation,
    reason = "both have 64 bits on the one architecture supported"
)]
pub(crate) const REQUEST_REGISTER: usize = REGISTER as usize;
const UNREGISTER: u64 = request(2, 1, 16);
const MOVE: u64 = request(3, 5, 40);
const CONTINUE: u64 = request(3, 7, 32);
const PROTECT: u64 = request(3, 6, 24);
const ZERO_PAGE: u64 = request(3, 4, 32);

/// A userfaultfd of this process with `features`, closed on exec. Faults of the kernel on the program's behalf count.
pub(crate) fn open(features: u64) -> Result<i32, Errno> {
    const CLOEXEC: usize = 0o2_000_000;
    const NONBLOCK: usize = 0o4_000;
    const USER_MODE_ONLY: usize = 1;
    const DEVICE_NEW: u64 = 0xAA << 8;
    // The kernel never faults on the staging area for somebody: a child that has given up its rights moves pages too.
    let only = if features == MOVER { USER_MODE_ONLY } else { 0 };
    // SAFETY: touches no memory.
    let made = unsafe { sys::call5(sys::USERFAULTFD, CLOEXEC | NONBLOCK | only, 0, 0, 0, 0) };
    let fd = match made {
        Ok(answer) => sys::descriptor(answer),
        Err(refused) => {
            // Whoever may open the device may do without the capability.
            let device = sys::open(b"/dev/userfaultfd\0", false).map_err(|_| refused)?;
            let number = usize::try_from(DEVICE_NEW).unwrap_or(0);
            // SAFETY: touches no memory.
            let made = unsafe { sys::call5(sys::IOCTL, sys::arg(device), number, CLOEXEC | NONBLOCK, 0, 0) };
            sys::close(device);
            sys::descriptor(made?)
        }
    };
    let mut api = Api {
        api: 0xAA,
        features,
        ioctls: 0,
    };
    // SAFETY: the structure of this request; it changes no memory.
    match unsafe { sys::ioctl(fd, API, &mut api) } {
        Ok(_) => Ok(fd),
        Err(errno) => {
            sys::close(fd);
            Err(errno)
        }
    }
}

/// Has faults in a range told to whoever reads `fd`.
pub(crate) fn register(fd: i32, start: usize, length: usize, mode: u64) -> Answer {
    let mut argument = Register {
        start: start as u64,
        length: length as u64,
        mode,
        ioctls: 0,
    };
    // SAFETY: the structure of this request; the content of the range stays as it is.
    unsafe { sys::ioctl(fd, REGISTER, &mut argument) }
}

/// Has faults in a range told to nobody any more.
pub(crate) fn unregister(fd: i32, start: usize, length: usize) -> Answer {
    let mut argument = [start as u64, length as u64];
    // SAFETY: the structure of this request, two words; the content of the range stays as it is.
    unsafe { sys::ioctl(fd, UNREGISTER, &mut argument) }
}

/// Moves pages; how many bytes were moved, and why no more.
///
/// # Safety
/// Whoever uses the pages at `from` gets them back from elsewhere.
pub(crate) unsafe fn move_pages(fd: i32, to: usize, from: usize, length: usize) -> (usize, Option<Errno>) {
    let mut argument = Move {
        to: to as u64,
        from: from as u64,
        length: length as u64,
        mode: 0,
        moved: 0,
    };
    // SAFETY: the structure of this request; the rest is the caller's word.
    let answer = unsafe { sys::ioctl(fd, MOVE, &mut argument) };
    match answer {
        Ok(_) => (length, None),
        // The structure holds how far it came, or the negative of the refusal where nothing was done.
        Err(errno) => (usize::try_from(argument.moved).unwrap_or(0), Some(errno)),
    }
}

/// Puts a page of zeros where none is, of which nobody is told.
pub(crate) fn fill(fd: i32, page: usize, length: usize) -> Answer {
    let mut argument = [page as u64, length as u64, 0, 0];
    // SAFETY: the structure of this request, four words; nothing was in the page.
    unsafe { sys::ioctl(fd, ZERO_PAGE, &mut argument) }
}

/// Has writes to a range told, or lets them through again, whatever the program makes of the range's protection.
pub(crate) fn write_protect(fd: i32, start: usize, length: usize, protect: bool) -> Answer {
    let mut argument = [start as u64, length as u64, u64::from(protect)];
    // SAFETY: the structure of this request, three words; the content of the range stays as it is.
    unsafe { sys::ioctl(fd, PROTECT, &mut argument) }
}

/// Whether a range is memory of one mapping that is registered, with nothing that happened to this address space still
/// to be told.
///
/// The request is one that private memory never has: the kernel refuses it with `EINVAL` where it is registered, and
/// before that with `ENOENT` where it is not, and with `EAGAIN` while an event is unread. It changes nothing.
pub(crate) fn is_registered(fd: i32, start: usize, length: usize) -> Answer {
    let mut argument = Register {
        start: start as u64,
        length: length as u64,
        mode: 0,
        ioctls: 0,
    };
    // SAFETY: the structure of this request has the same four words; it is refused.
    match unsafe { sys::ioctl(fd, CONTINUE, &mut argument) } {
        Err(Errno::INVAL) => Ok(0),
        Err(errno) => Err(errno),
        // There is a mapping, and it is none of private memory.
        Ok(_) => Err(Errno::NOENT),
    }
}
