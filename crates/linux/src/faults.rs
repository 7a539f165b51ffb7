//! How many page faults the calling thread has had.

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

#[cfg(test)]
mod tests {
    use super::of_this_thread;
    use crate::PAGE_SIZE;

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
}
