//! The CPUs of this process. A thread of a module is kept on one of them, so it cannot be asked which there are.

use std::sync::OnceLock;

use freehold_linux::sched;

static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// The CPUs that the process may use, ascending: what the first caller may. [`crate::module::prepare`] is it.
pub(crate) fn all() -> &'static [usize] {
    CPUS.get_or_init(|| sched::allowed_cpus().unwrap_or_default())
}

/// The CPU of threads for which none is named: the first.
pub(crate) fn default() -> u32 {
    let first = all().first().copied();
    first.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0)
}
