//! A signal stack for the calling thread.

use crate::{Errno, PAGE_SIZE, sys};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A signal stack could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The caller's mistake: the size is below what the kernel itself needs to deliver a signal here, plus a page.
    #[error("a signal stack of {size} bytes is too small: this machine needs at least {least}")]
    TooSmall {
        /// The size asked for.
        size: usize,
        /// The least size.
        least: usize,
    },
    /// The caller's mistake: the thread runs on its signal stack, in a handler.
    #[error("the thread is running on its signal stack")]
    InUse,
    /// The kernel's refusal.
    #[error("a signal stack could not be set up: {0}")]
    System(Errno),
}

/// The calling thread's signal stack, with a guard page below it. Its pages are present from the start, and locked if
/// the limit on locked memory allows. Dropping it puts back the one the thread had.
#[derive(Debug)]
#[must_use = "the stack is removed when this is dropped"]
pub struct AlternateStack {
    mapping: *mut c_void,
    length: usize,
    previous: libc::stack_t,
    locked: bool,
    /// A signal stack belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl AlternateStack {
    /// Gives the calling thread a signal stack of `size` bytes, rounded up to pages.
    ///
    /// # Errors
    /// See [`StackError`]; the thread keeps the stack it had.
    pub fn install(size: usize) -> Result<Self, StackError> {
        let least = Self::least_size();
        if size < least {
            return Err(StackError::TooSmall { size, least });
        }
        let usable = size
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(StackError::System(Errno::NOMEM))?;
        let length = usable.checked_add(PAGE_SIZE).ok_or(StackError::System(Errno::NOMEM))?;
        let flags = MapFlags::PRIVATE | MapFlags::STACK | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let mapping = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        }
        .map_err(StackError::System)?;
        let mut stack = Self {
            mapping,
            length,
            previous: disabled(),
            locked: false,
            not_send: PhantomData,
        };
        // SAFETY: the lowest page of our new mapping, which nothing uses yet.
        unsafe { rustix::mm::mprotect(mapping, PAGE_SIZE, MprotectFlags::empty()) }.map_err(StackError::System)?;
        // SAFETY: the range is ours; locking changes no content.
        stack.locked = unsafe { rustix::mm::mlock(stack.bottom(), usable) }.is_ok();
        stack.previous = exchange(&libc::stack_t {
            ss_sp: stack.bottom(),
            ss_flags: 0,
            ss_size: usable,
        })?;
        Ok(stack)
    }

    /// The least size accepted: what the kernel needs for the registers of this processor, plus a page.
    #[must_use]
    pub fn least_size() -> usize {
        // SAFETY: getauxval reads a table and returns 0 for an unknown key.
        let kernel = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
        usize::try_from(kernel).unwrap_or(0).max(libc::MINSIGSTKSZ) + PAGE_SIZE
    }

    /// Whether the stack's pages are locked, so that no signal ever waits for one of them.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    fn bottom(&self) -> *mut c_void {
        self.mapping.wrapping_byte_add(PAGE_SIZE)
    }
}

fn disabled() -> libc::stack_t {
    libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    }
}

fn exchange(new: &libc::stack_t) -> Result<libc::stack_t, StackError> {
    let mut previous = MaybeUninit::uninit();
    // SAFETY: `new` describes memory that stays mapped until it is replaced, or disables; `previous` is filled.
    match sys::check_int(unsafe { libc::sigaltstack(new, previous.as_mut_ptr()) }) {
        // SAFETY: filled by the successful call.
        Ok(_) => Ok(unsafe { previous.assume_init() }),
        Err(Errno::PERM) => Err(StackError::InUse),
        Err(errno) => Err(StackError::System(errno)),
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let mut current = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: with a null new stack the call only fills `current`.
        let known = unsafe { libc::sigaltstack(std::ptr::null(), current.as_mut_ptr()) } == 0;
        // SAFETY: filled by the successful call.
        if known && unsafe { current.assume_init() }.ss_sp == self.bottom() && exchange(&self.previous).is_err() {
            // We are running on it: leaving it mapped is the only safe thing to do.
            return;
        }
        // SAFETY: the mapping is ours and the thread's signal stack is another one now.
        let _ = unsafe { rustix::mm::munmap(self.mapping, self.length) };
    }
}
