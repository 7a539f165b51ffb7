//! The operations that resolve faults.

use super::{Userfault, abi};
use crate::{AddressRange, Errno, PAGE_SIZE};

/// How often one operation is tried without progress while the kernel says EAGAIN, which it does while another thread
/// changes the address space (fork, mremap, madvise with event features).
pub(super) const ATTEMPTS: u32 = 64;
/// The same of another process, whose change goes on once its message is read: trying again does not help it.
pub(super) const ATTEMPTS_SERVED: u32 = 2;

/// An operation on a range stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped after {done} bytes: {errno}")]
pub struct Stopped {
    /// How many bytes were dealt with; the error is about the page at that offset.
    pub done: usize,
    /// What the kernel said: `EXIST` the page is mapped already, `FAULT` it is in no frame (continue), `NOENT` the
    /// range is not mapped or not registered here, `AGAIN` the address space kept changing, `INVAL` a wrong argument,
    /// `NOMEM` no frame to be had, `SRCH` the process is exiting.
    pub errno: Errno,
}

/// All of these are async-signal-safe: they allocate nothing and hold no lock of the C library.
impl Userfault {
    /// Maps the frames that the memory object already has for `range`; write-protected if asked.
    ///
    /// After a zap the protection of a page is gone: ask for it again here (6.4), or the next write goes unnoticed.
    ///
    /// # Errors
    /// See [`Stopped`]; `EXIST` when another thread was first, `FAULT` when the page is in no frame.
    pub fn continue_(&self, range: AddressRange, write_protect: bool) -> Result<(), Stopped> {
        let mode = if write_protect { abi::CONTINUE_MODE_WP } else { 0 };
        self.over(range, abi::CONTINUE, mode)
    }

    /// Maps zero-filled frames where pages are missing.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn zeropage(&self, range: AddressRange) -> Result<(), Stopped> {
        self.over(range, abi::ZEROPAGE, 0)
    }

    /// Makes every later access to the missing pages of `range` raise SIGBUS (6.6).
    ///
    /// On a kernel with CONFIG_MEMORY_FAILURE the signal says so and goes past the hook of [`crate::fault`]. On one
    /// without, it looks like a missing page and reaches the hook: the pager must remember what it poisoned and answer
    /// [`Handled::No`](crate::fault::Handled::No). Filling, mapping or zapping the page undoes the poison.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn poison(&self, range: AddressRange) -> Result<(), Stopped> {
        self.over(range, abi::POISON, 0)
    }

    /// As [`poison`](Self::poison) of pages that are not mapped, where the kernel may keep marks of a write protection
    /// in their place, which it does not overwrite. Where a page is mapped after all its protection is lifted.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn poison_absent(&self, range: AddressRange) -> Result<(), Stopped> {
        match self.poison(range) {
            Err(Stopped {
                errno: Errno::EXIST, ..
            }) => {
                // Whoever waits goes on waiting until it is poisoned.
                let _ = self.protect(range, abi::WRITEPROTECT_MODE_DONTWAKE);
                self.poison(range)
            }
            result => result,
        }
    }

    /// Fills the missing pages from `start` on with `content`; write-protected if asked.
    ///
    /// # Errors
    /// See [`Stopped`]; `INVAL` at once unless `start` and the length of `content` are page multiples.
    pub fn copy(&self, start: usize, content: &[u8], write_protect: bool) -> Result<(), Stopped> {
        let range = AddressRange::new(start, content.len()).ok_or(Stopped {
            done: 0,
            errno: Errno::INVAL,
        })?;
        let mode = if write_protect { abi::COPY_MODE_WP } else { 0 };
        self.transfer(range, content.as_ptr().addr(), abi::COPY, mode)
    }

    /// Moves private anonymous pages of this process from `source` to the missing pages of `to`, without a copy (6.8).
    ///
    /// `source` must be as long as `to`, and both alike in protection and locking; pages shared by a fork or pinned
    /// by the kernel are refused (`BUSY`).
    ///
    /// # Safety
    /// The pages of `source` become missing: the caller must own them, and hold no reference into them.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub unsafe fn move_pages(&self, to: AddressRange, source: AddressRange) -> Result<(), Stopped> {
        if source.length() != to.length() {
            return Err(Stopped {
                done: 0,
                errno: Errno::INVAL,
            });
        }
        self.transfer(to, source.start(), abi::MOVE, 0)
    }

    /// Protects the pages of `range` against writes, or lifts the protection (and wakes who waits for that).
    ///
    /// # Errors
    /// `NOENT` if the range is not registered for it here; `AGAIN` if the address space kept changing.
    pub fn write_protect(&self, range: AddressRange, protect: bool) -> Result<(), Errno> {
        let mode = match (protect, self.lets_sleep) {
            (true, _) => abi::WRITEPROTECT_MODE_WP,
            (false, true) => abi::WRITEPROTECT_MODE_DONTWAKE,
            (false, false) => 0,
        };
        self.protect(range, mode)
    }

    fn protect(&self, range: AddressRange, mode: u64) -> Result<(), Errno> {
        let mut last = Errno::AGAIN;
        for _ in 0..self.attempts {
            let mut request = abi::WriteProtect {
                range: range.into(),
                mode,
            };
            match self.call(abi::WRITEPROTECT, &mut request) {
                Err(Errno::AGAIN) => last = Errno::AGAIN,
                result => return result,
            }
        }
        Err(last)
    }

    /// From now on threads whose faults are resolved go on only when they are [woken](Self::wake).
    pub fn let_sleep(&mut self, sleep: bool) {
        self.lets_sleep = sleep;
    }

    fn wake_mode(&self) -> u64 {
        if self.lets_sleep { abi::DONTWAKE } else { 0 }
    }

    /// Wakes threads that wait for a page of `range` (never needed with SIGBUS).
    ///
    /// # Errors
    /// The kernel's refusal, which no valid range causes.
    pub fn wake(&self, range: AddressRange) -> Result<(), Errno> {
        self.call(abi::WAKE, &mut abi::Range::from(range))
    }

    fn over(&self, range: AddressRange, number: u64, mode: u64) -> Result<(), Stopped> {
        let mode = mode | self.wake_mode();
        repeat(self.attempts, range, |rest| {
            let mut request = abi::RangeOperation {
                range: rest.into(),
                mode,
                done: 0,
            };
            let result = self.call(number, &mut request);
            (result, request.done)
        })
    }

    pub(super) fn transfer(&self, to: AddressRange, source: usize, number: u64, mode: u64) -> Result<(), Stopped> {
        let mode = mode | self.wake_mode();
        repeat(self.attempts, to, |rest| {
            let src = source + (rest.start() - to.start());
            let mut request = abi::Copy {
                dst: rest.start() as u64,
                src: src as u64,
                len: rest.length() as u64,
                mode,
                done: 0,
            };
            let result = self.call(number, &mut request);
            (result, request.done)
        })
    }
}

/// Drives `step` over `range`. The kernel says EAGAIN both for progress that stopped short (`done` > 0) and for none.
fn repeat(
    attempts: u32,
    range: AddressRange,
    mut step: impl FnMut(AddressRange) -> (Result<(), Errno>, i64),
) -> Result<(), Stopped> {
    let mut done = 0;
    let mut fruitless = 0;
    while let Some(rest) = range.after(done) {
        let (result, progress) = step(rest);
        match result {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(Stopped { done, errno }),
        }
        match usize::try_from(progress) {
            Ok(bytes) if bytes >= PAGE_SIZE => {
                done += bytes;
                fruitless = 0;
            }
            _ => fruitless += 1,
        }
        if fruitless == attempts {
            return Err(Stopped {
                done,
                errno: Errno::AGAIN,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ATTEMPTS, Stopped, repeat};
    use crate::{AddressRange, Errno, PAGE_SIZE};

    #[test]
    fn partial_progress_goes_on_and_the_error_names_the_page() {
        let range = AddressRange::new(PAGE_SIZE, 4 * PAGE_SIZE).unwrap();
        let mut calls = Vec::new();
        let result = repeat(ATTEMPTS, range, |rest| {
            calls.push(rest.start() / PAGE_SIZE);
            if calls.len() == 1 {
                (Err(Errno::AGAIN), 8192)
            } else {
                (Err(Errno::EXIST), -17)
            }
        });
        assert_eq!(calls, [1, 3]);
        assert_eq!(
            result,
            Err(Stopped {
                done: 2 * PAGE_SIZE,
                errno: Errno::EXIST
            })
        );
    }

    #[test]
    fn fruitless_attempts_are_bounded() {
        let range = AddressRange::new(PAGE_SIZE, PAGE_SIZE).unwrap();
        let mut calls = 0;
        let result = repeat(ATTEMPTS, range, |_| {
            calls += 1;
            (Err(Errno::AGAIN), -11)
        });
        assert_eq!(calls, ATTEMPTS);
        assert_eq!(
            result,
            Err(Stopped {
                done: 0,
                errno: Errno::AGAIN
            })
        );
    }
}
