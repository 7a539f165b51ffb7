//! Execution stacks as units of a pool: who waits for work has none.

use crate::cache::TakeError;
use crate::job;
use crate::pool::Pool;
use crate::switch::on_stack;
use freehold_linux::ThreadId;

/// Pages below each stack that nobody may touch: a function that needs more stack than there is ends its process there.
pub const GUARD_PAGES: usize = 1;

/// Runs `work` on a stack of the pool, taken for as long as it runs. Where all are in use, the wait is that of
/// [`Pool::take`]. A panic of `work` goes on in the caller.
///
/// # Errors
/// See [`TakeError`]; [`TakeError::Size`] where the pool's units have no guard, and so are no stacks. Nothing has run.
pub fn with_stack<T>(pool: &Pool, work: impl FnOnce() -> T) -> Result<T, TakeError> {
    let settings = pool.settings();
    if settings.guard_pages == 0 {
        return Err(TakeError::Size);
    }
    let taken = Taken::of(pool)?;
    let top = pool.unit_start(taken.unit).wrapping_add(settings.unit_bytes);
    // SAFETY: the unit is this thread's until it is released, which is after this call; its end is that of a page, and
    // its beginning a guard. Nothing unwinds a thread from outside.
    Ok(unsafe { on_stack(top, work) })
}

/// A stack, released after a panic too.
struct Taken<'a> {
    pool: &'a Pool,
    unit: usize,
    thread: u32,
}

impl<'a> Taken<'a> {
    #[inline]
    fn of(pool: &'a Pool) -> Result<Self, TakeError> {
        let thread = ThreadId::current().get();
        let unit = pool.take_unit(thread)?;
        // Nobody reads it by a name, so it has no length.
        pool.units()[unit].begin(0, job::current());
        Ok(Self { pool, unit, thread })
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        // The thread has it, so the only refusal is of a pool that somebody overwrote.
        let _ = self.pool.release_unit(self.unit, self.thread);
    }
}
