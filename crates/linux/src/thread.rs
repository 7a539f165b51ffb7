//! Threads for processes that others live on: whatever the system refuses one is an error of its maker.
//!
//! A thread of the standard library sets up an alternative stack for signals when it has begun already, and ends the
//! process where it gets none. These have no such stack. Where their stack overflows, the process ends as well, by
//! SIGSEGV and without the standard library's line about it.

use std::any::Any;
use std::ffi::{CString, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a thread's stack, as the standard library's.
const STACK: usize = 2 << 20;

/// What a thread came to: its result, or what it panicked with.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

type Work = Box<dyn FnOnce() + Send>;

/// A thread that [`spawn`] made. One that nobody joins goes on alone.
#[derive(Debug)]
pub struct Thread<T> {
    /// Nothing once it is joined.
    number: Option<libc::pthread_t>,
    outcome: Arc<Mutex<Option<Outcome<T>>>>,
}

impl<T> Thread<T> {
    /// Whether its work has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        Arc::strong_count(&self.outcome) == 1
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(mut self) -> Outcome<T> {
        if let Some(number) = self.number.take() {
            // SAFETY: the number is that of a thread that was neither joined nor detached: it is taken before either.
            unsafe { libc::pthread_join(number, std::ptr::null_mut()) };
        }
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that the C library ended on its way has none.
        outcome.take().unwrap_or_else(|| Err(Box::new("the thread was ended")))
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(number) };
        }
    }
}

/// Makes a thread of this name, of which Linux shows 15 bytes, and which a line about its panic does not have.
///
/// # Errors
/// The system's refusal of a thread or its stack (pthread_create(3)).
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Thread<T>> {
    let name = CString::new(name.bytes().take(15).collect::<Vec<_>>())?;
    let outcome = Arc::new(Mutex::new(None));
    let place = Arc::clone(&outcome);
    let work: Work = Box::new(move || {
        // SAFETY: the name is a terminated string of at most 16 bytes. Where it is refused, the thread has its maker's.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
        let came_to = catch_unwind(AssertUnwindSafe(work));
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(came_to);
    });
    let number = Some(create(work)?);
    Ok(Thread { number, outcome })
}

fn create(work: Work) -> io::Result<libc::pthread_t> {
    let argument = Box::into_raw(Box::new(work));
    // SAFETY: all-zero values are valid for both; `pthread_attr_init` fills the attributes before they are used, and
    // they live until the thread is made. `run` has the signature of a start routine.
    let (refused, number) = unsafe {
        let (mut attributes, mut number): (libc::pthread_attr_t, libc::pthread_t) = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
        let refused = libc::pthread_create(&raw mut number, &raw const attributes, run, argument.cast());
        libc::pthread_attr_destroy(&raw mut attributes);
        (refused, number)
    };
    if refused == 0 {
        return Ok(number);
    }
    // SAFETY: the pointer is from `Box::into_raw` above, and no thread has begun that would take it.
    drop(unsafe { Box::from_raw(argument) });
    Err(io::Error::from_raw_os_error(refused))
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `create` made the pointer from a box of this type, and gives it to one thread.
    let work = unsafe { Box::from_raw(argument.cast::<Work>()) };
    work();
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::spawn;

    #[test]
    fn a_thread_has_its_name_and_gives_its_result() {
        let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let thread = spawn("a name of more than fifteen", name).unwrap();
        assert_eq!(thread.join().unwrap(), "a name of more \n");
        assert!(spawn("a\0b", || ()).is_err());
    }

    #[test]
    fn a_panic_is_the_result() {
        let thread = spawn("panics", || std::panic::panic_any(7)).unwrap();
        let with = thread.join().unwrap_err();
        assert_eq!(with.downcast_ref::<i32>(), Some(&7));
    }

    #[test]
    fn what_a_thread_has_is_dropped_where_nobody_joins_it() {
        let (sender, receiver) = std::sync::mpsc::channel();
        drop(spawn("alone", move || sender.send(1)).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
        assert!(receiver.recv().is_err(), "the sender has gone");
    }
}
