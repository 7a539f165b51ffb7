//! How many page faults a thread has had: by its own account (getrusage), and by the kernel's events.

use rustix::fd::OwnedFd;

use crate::perf::{self, Attributes};
use crate::{Errno, ThreadId};

/// Page faults, by whether they needed input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Without (`ru_minflt`).
    pub minor: u64,
    /// With (`ru_majflt`).
    pub major: u64,
}

impl Faults {
    /// Those that have come since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            minor: self.minor.saturating_sub(earlier.minor),
            major: self.major.saturating_sub(earlier.major),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            minor: self.minor + other.minor,
            major: self.major + other.major,
        }
    }
}

/// The page faults of the calling thread so far (getrusage(2)).
#[must_use]
pub fn of_this_thread_by_kind() -> Faults {
    // SAFETY: all zeros is a legal `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the right type. The call fails for wrong arguments only.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let count = |faults| u64::try_from(faults).unwrap_or(0);
    Faults {
        minor: count(usage.ru_minflt),
        major: count(usage.ru_majflt),
    }
}

/// All page faults of the calling thread so far, those that needed no input too.
#[must_use]
pub fn of_this_thread() -> u64 {
    let faults = of_this_thread_by_kind();
    faults.minor + faults.major
}

/// Events of software, and of these page faults (`PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_PAGE_FAULTS`).
const SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;

/// The kernel's count of a thread's page faults, from now on. It has those too that end in a signal or in an error,
/// which getrusage leaves out.
#[derive(Debug)]
pub struct FaultEvents(OwnedFd);

impl FaultEvents {
    /// Begins to count the faults of `thread`, which may be another process's.
    ///
    /// # Errors
    /// `ACCES` or `PERM` without the right (`CAP_PERFMON`, or `kernel.perf_event_paranoid` of 1 at most); `SRCH` where
    /// the thread has ended.
    pub fn of(thread: ThreadId) -> Result<Self, Errno> {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: PAGE_FAULTS,
            ..Attributes::default()
        };
        perf::open(&attributes, thread.as_pid(), -1).map(Self)
    }

    /// How many there have been.
    ///
    /// # Errors
    /// The kernel gives no number.
    pub fn count(&self) -> Result<u64, Errno> {
        let mut bytes = [0; size_of::<u64>()];
        if rustix::io::read(&self.0, &mut bytes)? != bytes.len() {
            return Err(Errno::IO);
        }
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultEvents, of_this_thread};
    use crate::PAGE_SIZE;
    use crate::ThreadId;

    #[test]
    fn touches_of_new_memory_count() {
        // More than the allocator has at hand, so that it is fresh from the kernel.
        let (before, pages) = (of_this_thread(), 1 << 14);
        let mut memory = vec![0_u8; pages * PAGE_SIZE];
        memory.iter_mut().step_by(PAGE_SIZE).for_each(|byte| *byte = 1);
        // Huge pages would make them fewer.
        assert!(
            of_this_thread() > before,
            "{} pages",
            std::hint::black_box(memory).len() / PAGE_SIZE
        );
    }

    #[test]
    fn events_have_what_the_thread_itself_counts() {
        let Ok(events) = FaultEvents::of(ThreadId::current()) else {
            println!("not tested: the kernel's events cannot be read here");
            return;
        };
        let (before, counted) = (of_this_thread(), events.count().unwrap());
        let mut memory = vec![0_u8; (1 << 14) * PAGE_SIZE];
        memory.iter_mut().step_by(PAGE_SIZE).for_each(|byte| *byte = 1);
        let faults = of_this_thread() - before;
        let seen = events.count().unwrap() - counted;
        assert!(faults > 0 && seen >= faults, "{seen} events of {faults} faults");
        drop(std::hint::black_box(memory));
    }
}
