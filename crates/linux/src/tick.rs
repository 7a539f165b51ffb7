//! The scheduler's tick.

use crate::{Errno, sys};
use std::time::Duration;

/// The period of the scheduler's tick (1/HZ: 4 ms at HZ = 250).
///
/// SCHED_DEADLINE budgets are enforced at ticks: a runtime far below a few of them is not kept exactly. The value is
/// the resolution of CLOCK_MONOTONIC_COARSE, which the kernel defines as its tick; no configuration file is needed.
///
/// # Errors
/// The kernel's refusal; only a sandbox that filters `clock_getres` causes one.
pub fn period() -> Result<Duration, Errno> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a valid timespec that the kernel fills.
    sys::check_int(unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) })?;
    let seconds = u64::try_from(resolution.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u32::try_from(resolution.tv_nsec).map_err(|_| Errno::INVAL)?;
    Ok(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn agrees_with_the_kernel_configuration() {
        let tick = super::period().unwrap();
        let Some(output) = Command::new("zcat")
            .arg("/proc/config.gz")
            .output()
            .ok()
            .filter(|o| o.status.success())
        else {
            println!("NOT CHECKED: /proc/config.gz is not readable here (tick reported: {tick:?})");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let hz = text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")).unwrap();
        let hz: u128 = hz.parse().unwrap();
        assert_eq!(1_000_000_000 / tick.as_nanos(), hz);
    }
}
