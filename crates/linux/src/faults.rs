//! How many page faults the calling thread has had.

/// All page faults of the calling thread so far, those that needed no input too (`ru_minflt` and `ru_majflt`,
/// getrusage(2)).
#[must_use]
pub fn of_this_thread() -> u64 {
    // SAFETY: all zeros is a legal `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the right type. The call fails for wrong arguments only.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let count = |faults| u64::try_from(faults).unwrap_or(0);
    count(usage.ru_minflt) + count(usage.ru_majflt)
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
