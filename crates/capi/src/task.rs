//! Tasks and what is counted for them.

use std::ffi::c_char;
use std::sync::Arc;

use freehold_client::Task;

use crate::connection::freehold_connection;
use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::reservation::freehold_reservation;
use crate::sized::{self, Versioned};
use crate::text;

/// A task: in whose mappings faults are served on its reservation's account.
#[derive(Debug)]
pub struct freehold_task {
    _private: [u8; 0],
}

object!(freehold_task, Arc<Task>, "task", b"fhtask..");

/// What happened to a task so far.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_counts {
    /// sizeof(freehold_counts).
    pub size: usize,
    /// Faults on resident pages.
    pub soft_faults: u64,
    /// First touches filled with zeros.
    pub zero_fills: u64,
    /// Pages read back from the store.
    pub swap_ins: u64,
    /// Of these, pages that another's eviction took.
    pub shared_swap_ins: u64,
    /// First reads of a file's pages.
    pub file_reads: u64,
    /// Write-permission faults.
    pub write_faults: u64,
    /// Pages taken from its own lists.
    pub evictions: u64,
    /// Nanoseconds between fault and resolution, all together.
    pub waited_ns: u64,
}

// SAFETY: `repr(C)`, begins with its size, integers only.
unsafe impl Versioned for freehold_counts {
    const LEAST: usize = 72;
    const NAME: &'static str = "freehold_counts";
}

/// Makes a task in a reservation, or, where that is null, among those without one. `urgency` is from 0 (background) to
/// 255; above 0 it needs the right to be real-time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_task_add(
    connection: *const freehold_connection,
    reservation: *const freehold_reservation,
    urgency: u32,
    name: *const c_char,
    task: *mut *mut freehold_task,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, connection, reservation, name) = unsafe {
            let out = handle::place(task)?;
            let reservation = handle::borrow_if_any(reservation)?;
            (
                out,
                handle::borrow(connection)?,
                reservation,
                text::read(name, "the task's name")?,
            )
        };
        let urgency = u8::try_from(urgency).map_err(|_| Problem::invalid("an urgency is at most 255"))?;
        let task = connection.add_task(reservation, urgency, name)?;
        handle::give(Arc::new(task), out);
        Ok(())
    })
}

/// Counts what happened to a task so far; `counts->size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_count(task: *const freehold_task, counts: *mut freehold_counts) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let task = unsafe { handle::borrow(task) }?;
        let found = task.counts()?;
        let counted = freehold_counts {
            size: 0,
            soft_faults: found.soft_faults,
            zero_fills: found.zero_fills,
            swap_ins: found.swap_ins,
            shared_swap_ins: found.shared_swap_ins,
            file_reads: found.file_reads,
            write_faults: found.write_faults,
            evictions: found.evictions,
            waited_ns: found.waited.get(),
        };
        // SAFETY: as above.
        unsafe { sized::write(counts, counted) }
    })
}

/// Ends a task, once its mappings and periodic threads are ended too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_task_end(task: *mut freehold_task) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        drop(unsafe { handle::take(task) }?);
        Ok(())
    })
}
