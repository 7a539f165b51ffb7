//! Who takes the address space of this process down when the process ends.
//!
//! The last thread of a process to end frees its memory, at that thread's own priority: for 16 MiB a millisecond, in
//! which real-time threads of no greater priority wait. A helper that shares the address space, and ends after every
//! thread of the process, frees it on the time-sharing side instead, however the process ends (clone(2), `CLONE_VM`).

use std::ptr;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};

use crate::sched::{Policy, set_policy};
use crate::service::with_signals_blocked;
use crate::{Errno, ThreadId, sys};

/// What the helper needs of it is a few hundred bytes.
const STACK: usize = 16 << 10;

/// The helper of this process.
#[derive(Debug)]
pub struct Helper(Pid);

impl Helper {
    /// Ends the helper of a process that is about to end in order: whoever waits for the process then finds its memory
    /// given back. From here on every thread of the process has the ordinary priority, since one of them frees it.
    pub fn dismiss(self) {
        for thread in own_threads() {
            // A thread may have ended meanwhile. To lower a priority takes no right.
            let _ = set_policy(thread, Policy::Other { nice: 0 });
        }
        // Not waited for yet, so the number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        let reap = || {
            // SAFETY: the call waits for a child of this process and writes nothing.
            sys::check_int(unsafe { libc::waitpid(self.0.as_raw_nonzero().get(), ptr::null_mut(), libc::__WALL) })
        };
        // A child that is not there has been waited for with others.
        let _ = rustix::io::retry_on_intr(reap);
    }
}

fn own_threads() -> impl Iterator<Item = ThreadId> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| ThreadId::from_raw(thread.file_name().to_str()?.parse().ok()?))
}

/// Starts the helper: a process in a session of its own, with no descriptor but one of this process and with every
/// signal blocked, that waits until this process has ended. It is no child that `wait` finds, and no SIGCHLD tells of
/// it. Once in a process.
///
/// # Errors
/// The kernel's refusal: no room for another process, or for a descriptor.
pub fn leave_to_helper() -> Result<Helper, Errno> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    // It stays as long as the address space does. Nobody refers to it, so it is none of an allocator's.
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let stack = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            STACK,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }?;
    let top = stack.wrapping_byte_add(STACK);
    let argument = ptr::without_provenance_mut(usize::try_from(process.as_raw_fd()).map_err(|_| Errno::BADF)?);
    let started = with_signals_blocked(|| {
        // SAFETY: `wait_for_end` runs on a stack of its own, which is never freed, and does nothing that a thread of
        // the C library would have to be set up for: see there. Its descriptors are a copy of this process's.
        sys::check_int(unsafe { libc::clone(wait_for_end, top, libc::CLONE_VM, argument) })
    })?;
    let number = i32::try_from(started?).ok().and_then(Pid::from_raw);
    number.map(Helper).ok_or(Errno::SRCH)
}

/// The helper. It has the thread-local memory of the thread that started it, so it calls nothing that uses any: no
/// allocation, no `errno` but where a call is refused that nothing is known to refuse.
extern "C" fn wait_for_end(process: *mut libc::c_void) -> libc::c_int {
    let descriptor = i32::try_from(process.addr()).unwrap_or(-1);
    let number = libc::c_uint::try_from(descriptor).unwrap_or(0);
    // SAFETY: the descriptors are this process's own copies, and nobody in it uses one of these. The scheduling
    // parameters are read in the call.
    unsafe {
        let ordinary: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const ordinary);
        libc::setsid();
        if number > 0 {
            libc::syscall(libc::SYS_close_range, 0, number - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, number + 1, libc::c_uint::MAX, 0);
        // Whoever finds it by its name finds it ready.
        libc::prctl(libc::PR_SET_NAME, c"freehold-memory".as_ptr());
        let process = BorrowedFd::borrow_raw(descriptor);
        while rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], None) == Err(Errno::INTR) {}
        libc::_exit(0)
    }
}
