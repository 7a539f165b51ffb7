//! Read leases on files (`F_SETLEASE`): a program that opens the file to write, or truncates it, waits until the holder
//! lets go.
//!
//! The kernel tells of a wanted end by a signal to one thread, the one that made a [`BreakWaiter`]. It takes a lease
//! away by itself when the holder has not let go for `/proc/sys/fs/lease-break-time` seconds: [`is_held`] says so.

use crate::sys::check_int;
use crate::{Errno, ThreadId};
use rustix::fd::{AsFd, AsRawFd, RawFd};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Commands of fcntl(2) that the C library's bindings do not name.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
/// `F_OWNER_TID`
const OWNER_THREAD: libc::c_int = 0;

/// `struct f_owner_ex`
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// What the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The lease on the file with this descriptor is wanted back.
    Of(RawFd),
    /// More were wanted back than the kernel could queue signals for: any lease may be meant.
    Any,
}

/// The thread that is told of leases that are wanted back. It stays in that thread.
#[derive(Debug)]
pub struct BreakWaiter {
    thread: ThreadId,
    stays: PhantomData<*const ()>,
}

/// Whom the kernel tells; any thread may take leases for it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOwner(ThreadId);

impl BreakWaiter {
    /// Makes the calling thread the one that is told.
    ///
    /// # Errors
    /// The kernel's refusal to block the signals, which nothing is known to cause.
    pub fn on_this_thread() -> Result<Self, Errno> {
        let set = signals();
        // SAFETY: the set is initialised, and no old set is asked for.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if result != 0 {
            return Err(Errno::from_raw_os_error(result));
        }
        Ok(Self {
            thread: ThreadId::current(),
            stays: PhantomData,
        })
    }

    /// Whom leases are to name.
    #[must_use]
    pub fn owner(&self) -> LeaseOwner {
        LeaseOwner(self.thread)
    }

    /// Sleeps until a lease is wanted back, or `patience` is over: `None`.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> Option<Break> {
        let set = signals();
        let limit = libc::timespec {
            tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(patience.subsec_nanos()),
        };
        let mut told = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set and the limit are initialised, and the kernel fills `told` before it returns a signal.
        let signal = unsafe { libc::sigtimedwait(&raw const set, told.as_mut_ptr(), &raw const limit) };
        if signal < 0 {
            return None;
        }
        if signal != lease_signal() {
            return Some(Break::Any);
        }
        // SAFETY: as above. After si_signo, si_errno and si_code, padded to 16 bytes, a signal of this kind has the
        // band, a long, and the descriptor.
        let file = unsafe { told.as_ptr().cast::<u8>().add(24).cast::<libc::c_int>().read() };
        Some(Break::Of(file))
    }
}

impl LeaseOwner {
    /// Takes a read lease on `file`, which must be open for reading only.
    ///
    /// # Errors
    /// `EAGAIN`: somebody has it open for writing, or mapped so. `EACCES`: the file is another user's and `CAP_LEASE`
    /// is absent. `EINVAL`: not a regular file, or its file system has no leases.
    pub fn take(self, file: impl AsFd) -> Result<(), Errno> {
        let file = file.as_fd().as_raw_fd();
        let owner = Owner {
            kind: OWNER_THREAD,
            id: self.0.as_pid(),
        };
        // SAFETY: `owner` is what this command reads, and lives during the call.
        check_int(unsafe { libc::fcntl(file, F_SETOWN_EX, &raw const owner) })?;
        // SAFETY: the command takes an integer.
        check_int(unsafe { libc::fcntl(file, F_SETSIG, lease_signal()) })?;
        // SAFETY: the command takes an integer.
        check_int(unsafe { libc::fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) }).map(drop)
    }
}

/// Lets a lease go; whoever waits for it goes on. Nothing happens where there is none.
pub fn release(file: impl AsFd) {
    // SAFETY: the command takes an integer. A lease that is not there, or was taken away, is what is wanted.
    let _ = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether a lease on `file` is held and not wanted back.
#[must_use]
pub fn is_held(file: impl AsFd) -> bool {
    // SAFETY: the command takes no argument.
    let kind = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETLEASE) };
    kind == libc::F_RDLCK
}

/// The one that carries a descriptor.
fn lease_signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// That one, and what comes in its place when the kernel's queue is full.
fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), lease_signal());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    #[test]
    fn a_writer_waits_until_the_lease_is_let_go() {
        let path = std::env::temp_dir().join(format!("freehold-lease-{}", std::process::id()));
        std::fs::write(&path, b"x").unwrap();
        let waiter = BreakWaiter::on_this_thread().unwrap();
        let file = File::open(&path).unwrap();
        waiter.owner().take(&file).unwrap();
        assert!(is_held(&file));
        let writer = std::thread::spawn({
            let path = path.clone();
            move || OpenOptions::new().write(true).open(path).map(drop)
        });
        let told = waiter.wait(Duration::from_secs(10));
        assert_eq!(told, Some(Break::Of(file.as_raw_fd())));
        assert!(!writer.is_finished());
        assert!(!is_held(&file));
        release(&file);
        writer.join().unwrap().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_somebody_writes_has_no_lease() {
        let path = std::env::temp_dir().join(format!("freehold-lease-writer-{}", std::process::id()));
        let writer = File::create(&path).unwrap();
        let waiter = BreakWaiter::on_this_thread().unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(waiter.owner().take(&file), Err(Errno::AGAIN));
        drop(writer);
        assert_eq!(waiter.owner().take(&file), Ok(()));
        std::fs::remove_file(path).unwrap();
    }
}
