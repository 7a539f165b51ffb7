//! userfaultfd: learn of page faults in chosen ranges, and resolve them.
//!
//! With [`Features::SIGBUS`] a fault becomes a SIGBUS in the faulting thread (see [`crate::fault`]), which resolves it
//! itself. A *system call* that touches an absent page fails with EFAULT then; the handler does not run.
//!
//! The operations that resolve faults are in [`Userfault`]'s second `impl` block and are async-signal-safe.

mod abi;
mod calls;
mod operations;
mod served;

pub use abi::{Features, Modes};
pub use calls::Calls;
pub use operations::Stopped;
pub use served::{AdoptError, Message};

use crate::{AddressRange, Errno, sys};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::mm::UserfaultfdFlags;

/// Which faults a userfaultfd learns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Faults of the program and of the kernel on its behalf.
    Full,
    /// Faults of the program only; a system call that touches an absent page gets EFAULT even without
    /// [`Features::SIGBUS`]. What an unprivileged process gets.
    UserModeOnly,
}

/// A userfaultfd could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The kernel was built without userfaultfd.
    #[error("the kernel has no userfaultfd: it needs CONFIG_USERFAULTFD")]
    Absent,
    /// A sandbox refuses even the user-mode form.
    #[error(
        "userfaultfd is refused even for user-mode faults: lift the seccomp filter or security module that does it"
    )]
    Refused,
    /// The kernel is too old for some features.
    #[error("the kernel's userfaultfd lacks {0}: a newer kernel is needed, or do without them")]
    Lacks(Features),
    /// Some other failure, such as too many open files.
    #[error("userfaultfd could not be opened: {0}")]
    System(Errno),
}

/// A range could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The caller's mistake: something is not mapped, or its kind of memory does not support the modes.
    #[error("the range is not wholly mapped, or its kind of memory does not support {0:?} (EINVAL)")]
    Unsuitable(Modes),
    /// The range belongs to another userfaultfd.
    #[error("the range is registered with another userfaultfd: unregister it there first")]
    Busy,
    /// The memfd behind the range is open for reading only and mapped shared.
    #[error("the shared mapping's memfd is not open for writing: open it read-write")]
    ReadOnly,
    /// The kernel accepted the range but will not resolve its faults as the modes need.
    #[error("the kernel registers the range but lacks an operation that {0:?} need")]
    Lacks(Modes),
    /// Some other failure.
    #[error("the range could not be registered: {0}")]
    System(Errno),
}

/// An open userfaultfd. Dropping the last descriptor of it unregisters its ranges: absent pages then read as zeros.
#[derive(Debug)]
pub struct Userfault {
    fd: OwnedFd,
    features: Features,
    scope: Scope,
    /// Who resolves a fault does not wake who waits for it.
    lets_sleep: bool,
    /// How often an operation is tried without progress.
    attempts: u32,
    /// What is under way, of a descriptor that another process has lent.
    calls: Option<Calls>,
}

impl Userfault {
    /// Opens a userfaultfd with exactly `features`, of the widest [`Scope`] this process is allowed.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing is left open.
    pub fn open(features: Features) -> Result<Self, OpenError> {
        let missing = features.without(Self::available()?);
        if missing != Features::NONE {
            return Err(OpenError::Lacks(missing));
        }
        let (fd, scope) = open_widest()?;
        handshake(fd.as_fd(), features).map_err(OpenError::System)?;
        Ok(Self {
            fd,
            features,
            scope,
            lets_sleep: false,
            attempts: operations::ATTEMPTS,
            calls: None,
        })
    }

    /// All the features this kernel offers, known to this crate or not.
    ///
    /// # Errors
    /// As [`Userfault::open`].
    pub fn available() -> Result<Features, OpenError> {
        // A userfaultfd shakes hands once: asking takes a descriptor of its own.
        let (fd, _) = open_widest()?;
        handshake(fd.as_fd(), Features::NONE).map_err(OpenError::System)
    }

    /// Which faults it learns of.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The features it was opened with.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// The calls of a userfaultfd that was [taken over](Self::adopt).
    #[must_use]
    pub fn calls(&self) -> Option<&Calls> {
        self.calls.as_ref()
    }

    /// One request. Async-signal-safe.
    fn call<T: abi::Argument>(&self, number: u64, argument: &mut T) -> Result<(), Errno> {
        let mut call = || abi::call(self.fd.as_raw_fd(), number, argument);
        match &self.calls {
            Some(calls) => calls.during(call),
            None => call(),
        }
    }

    /// Starts to intercept faults in `range`. Registering again with the same userfaultfd changes the modes.
    ///
    /// # Safety
    /// From now on a page of `range` may fault, appear or change its content at any access: the caller must own the
    /// memory, and no Rust reference into it may exist for longer than its pages are known to be present and unchanged.
    ///
    /// # Errors
    /// See [`RegisterError`]; the range is left unregistered, except that modes it had before may remain.
    pub unsafe fn register(&self, range: AddressRange, modes: Modes) -> Result<(), RegisterError> {
        let mut request = abi::Register {
            range: range.into(),
            mode: modes.bits(),
            ioctls: 0,
        };
        self.call(abi::REGISTER, &mut request).map_err(|errno| match errno {
            Errno::INVAL => RegisterError::Unsuitable(modes),
            Errno::BUSY => RegisterError::Busy,
            Errno::PERM => RegisterError::ReadOnly,
            other => RegisterError::System(other),
        })?;
        if request.ioctls & modes.operations_needed() != modes.operations_needed() {
            let _ = self.unregister(range);
            return Err(RegisterError::Lacks(modes));
        }
        Ok(())
    }

    /// Stops intercepting faults in `range`: absent pages of it then read as zeros, and write protection is lifted.
    ///
    /// # Errors
    /// The kernel's refusal: EINVAL if something in the range is not mapped.
    pub fn unregister(&self, range: AddressRange) -> Result<(), Errno> {
        let mut request = abi::Range::from(range);
        self.call(abi::UNREGISTER, &mut request)
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Tries the system call, then `/dev/userfaultfd`, then the user-mode form.
fn open_widest() -> Result<(OwnedFd, Scope), OpenError> {
    let base = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    // SAFETY: an unregistered userfaultfd observes and changes nothing; `register` carries the obligations.
    match unsafe { rustix::mm::userfaultfd(base) } {
        Ok(fd) => return Ok((fd, Scope::Full)),
        Err(Errno::PERM) => {}
        Err(Errno::NOSYS) => return Err(OpenError::Absent),
        Err(errno) => return Err(OpenError::System(errno)),
    }
    if let Some(fd) = open_device() {
        return Ok((fd, Scope::Full));
    }
    // SAFETY: as above.
    match unsafe { rustix::mm::userfaultfd(base | user_mode_only()) } {
        Ok(fd) => Ok((fd, Scope::UserModeOnly)),
        // EINVAL: older than 5.11, where the flag is unknown and the unprivileged form does not exist.
        Err(Errno::PERM | Errno::INVAL) => Err(OpenError::Refused),
        Err(errno) => Err(OpenError::System(errno)),
    }
}

fn user_mode_only() -> UserfaultfdFlags {
    UserfaultfdFlags::from_bits_retain(abi::USER_MODE_ONLY)
}

/// `/dev/userfaultfd` (6.1) gives the full scope to whoever may open it.
fn open_device() -> Option<OwnedFd> {
    let device = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd")
        .ok()?;
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: USERFAULTFD_IOC_NEW takes its flags by value and touches no memory.
    let raw = sys::check_int(unsafe { libc::ioctl(device.as_raw_fd(), abi::DEVICE_NEW, flags) }).ok()?;
    let raw = i32::try_from(raw).ok()?;
    // SAFETY: the kernel has just given this descriptor to us and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn handshake(fd: BorrowedFd<'_>, features: Features) -> Result<Features, Errno> {
    let mut request = abi::Api {
        api: abi::API_NUMBER,
        features: features.bits(),
        ioctls: 0,
    };
    abi::call(fd.as_raw_fd(), abi::API, &mut request)?;
    Ok(Features::from_bits(request.features))
}
