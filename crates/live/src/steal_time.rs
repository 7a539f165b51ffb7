//! CPU time that a hypervisor kept from this machine's CPUs: a task's late job shows it as CPU wait, though nobody
//! here had the CPU.

use std::time::Duration;

/// The length of a tick in /proc/stat: the kernel scales its own to 100 Hz for user space.
const TICK: Duration = Duration::from_millis(10);

/// What was kept from these CPUs since the machine started, to ticks of 10 ms. None where the kernel does not say.
pub(crate) fn stolen(cpus: &[usize]) -> Option<Duration> {
    of(&std::fs::read_to_string("/proc/stat").ok()?, cpus)
}

fn of(stat: &str, cpus: &[usize]) -> Option<Duration> {
    let ticks = |cpu: &usize| -> Option<u32> {
        let name = format!("cpu{cpu}");
        let mut fields = stat
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut line| (line.next()? == name).then_some(line))?;
        // user nice system idle iowait irq softirq steal
        fields.nth(7)?.parse().ok()
    };
    let all: Option<Vec<u32>> = cpus.iter().map(ticks).collect();
    let sum = all?.into_iter().fold(0_u32, u32::saturating_add);
    Some(TICK.saturating_mul(sum))
}

#[cfg(test)]
mod tests {
    use super::{of, stolen};
    use std::time::Duration;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 99 0 0\n\
                        cpu1 1 2 3 4 5 6 7 80 0 0\n\
                        cpu10 1 2 3 4 5 6 7 3 0 0\n\
                        intr 12\n";

    #[test]
    fn the_ticks_of_the_named_cpus_are_added() {
        assert_eq!(of(STAT, &[1]), Some(Duration::from_millis(800)));
        assert_eq!(of(STAT, &[1, 10]), Some(Duration::from_millis(830)));
        assert_eq!(of(STAT, &[0]), None);
        assert_eq!(of("", &[0]), None);
    }

    #[test]
    fn the_kernel_says_it_of_every_cpu_that_may_be_used() {
        let cpus = freehold_linux::sched::allowed_cpus().unwrap();
        assert!(stolen(&cpus).is_some());
    }
}
