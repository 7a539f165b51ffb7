//! The kernel's side of userfaultfd, as far as a server needs it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) fn event() -> OwnedFd {
    // SAFETY: a new descriptor.
    unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }
}

pub(crate) fn ring(event: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: writes eight bytes.
    unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
}

pub(crate) fn quiet(event: &OwnedFd) {
    let mut count = 0_u64;
    // SAFETY: reads eight bytes.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
}

pub(crate) fn memfd(name: &std::ffi::CStr, length: u64) -> OwnedFd {
    // SAFETY: a new descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC)) };
    std::fs::File::from(fd.try_clone().expect("a descriptor"))
        .set_len(length)
        .expect("a size");
    fd
}

pub(crate) fn map(fd: &OwnedFd, length: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

/// A message of the kernel.
#[derive(Debug)]
pub(crate) enum Message {
    Fault {
        address: u64,
        thread: u32,
        protection: bool,
    },
    Fork {
        child: OwnedFd,
    },
    Remap {
        from: u64,
        to: u64,
        length: u64,
    },
    Remove {
        start: u64,
        end: u64,
    },
    Unmap {
        start: u64,
        end: u64,
    },
}

pub(crate) fn read(fd: &OwnedFd) -> Option<Message> {
    let mut words = [0_u64; 4];
    // SAFETY: the message has 32 bytes.
    let count = unsafe { libc::read(fd.as_raw_fd(), words.as_mut_ptr().cast(), 32) };
    if count != 32 {
        return None;
    }
    let [kind, a, b, c] = words;
    Some(match kind & 0xFF {
        // flags, address, thread
        0x12 => Message::Fault {
            address: b & !0xFFF,
            thread: u32::try_from(c & 0xFFFF_FFFF).unwrap_or(0),
            protection: a & 2 != 0,
        },
        0x13 => Message::Fork {
            // SAFETY: the kernel has just made it.
            child: unsafe { OwnedFd::from_raw_fd(i32::try_from(a & 0xFFFF_FFFF).expect("a descriptor")) },
        },
        0x14 => Message::Remap {
            from: a,
            to: b,
            length: c,
        },
        0x15 => Message::Remove { start: a, end: b },
        0x16 => Message::Unmap { start: a, end: b },
        other => panic!("message {other:#x}"),
    })
}

const fn request(direction: u64, number: u64, size: u64) -> u64 {
    direction << 30 | size << 16 | 0xAA << 8 | number
}

fn ioctl(fd: &OwnedFd, request: u64, words: &mut [u64]) -> Result<(), i32> {
    // SAFETY: the callers' words are the request's structure.
    if unsafe { libc::ioctl(fd.as_raw_fd(), request, words.as_mut_ptr()) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

pub(crate) fn copy(fd: &OwnedFd, to: u64, from: *const u8) -> Result<(), i32> {
    ioctl(
        fd,
        request(3, 3, 40),
        &mut [to, from.expose_provenance() as u64, 4096, 0, 0],
    )
}

pub(crate) fn zero(fd: &OwnedFd, to: u64) -> Result<(), i32> {
    ioctl(fd, request(3, 4, 32), &mut [to, 4096, 0, 0])
}

pub(crate) fn proceed(fd: &OwnedFd, at: u64) -> Result<(), i32> {
    ioctl(fd, request(3, 7, 32), &mut [at, 4096, 0, 0])
}

pub(crate) fn wake(fd: &OwnedFd, at: u64) {
    let _ = ioctl(fd, request(2, 2, 16), &mut [at, 4096]);
}

pub(crate) fn unprotect(fd: &OwnedFd, at: u64) -> Result<(), i32> {
    ioctl(fd, request(3, 6, 24), &mut [at, 4096, 0])
}

pub(crate) fn punch(fd: &OwnedFd, at: u64, length: u64) {
    let (at, length) = (at.cast_signed(), length.cast_signed());
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: touches no memory of this process.
    assert_eq!(unsafe { libc::fallocate(fd.as_raw_fd(), mode, at, length) }, 0);
}

pub(crate) fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: reads no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Whether each of the descriptors can be read, after at most `timeout` milliseconds.
pub(crate) fn poll(fds: &[i32], timeout: i32) -> Vec<bool> {
    let mut wanted: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: as many structures as said.
    unsafe { libc::poll(wanted.as_mut_ptr(), wanted.len() as u64, timeout) };
    wanted.iter().map(|place| place.revents != 0).collect()
}

pub(crate) fn has_fork_events() -> bool {
    // SAFETY: a new descriptor, if any.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    let Ok(fd) = i32::try_from(fd) else { return false };
    if fd < 0 {
        return false;
    }
    // SAFETY: the kernel has just made it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    ioctl(&fd, request(3, 0x3F, 24), &mut [0xAA, 1 << 1, 0]).is_ok()
}
