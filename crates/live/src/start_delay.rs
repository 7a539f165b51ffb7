//! How long before time 0 the threads are there.
//!
//! Linux begins a deadline thread's period when the thread gets its class. One whose deadline is before the end of its
//! period, and that wakes up with most of that deadline behind it, stands still until its next period: and so at every
//! release, since releases and the kernel's periods are equally long. A thread that wakes up after its period begins
//! another one there and then. So time 0 is put where the periods of all such threads are over.

use std::time::Duration;

use freehold_scenario::{Class, Scenario};

/// Time between the last thread's being ready and time 0.
const LEAD: Duration = Duration::from_millis(20);
/// The longest that anybody waits for time 0.
const LONGEST: Duration = Duration::from_secs(10);

/// Time from when all threads have their class to time 0.
pub(crate) fn lead(scenario: &Scenario) -> Duration {
    LEAD.saturating_add(wanted(scenario)).min(LONGEST)
}

/// What is to be said where that would take too long.
pub(crate) fn warning(scenario: &Scenario) -> Option<String> {
    (wanted(scenario) > LONGEST).then(|| {
        "class \"deadline\" with a deadline before the period and a period above 5s: the kernel's periods may begin at \
         other times than the jobs, which then wait for them"
            .to_owned()
    })
}

/// Two periods of each deadline task whose deadline is before its period: told when time 0 is, a thread may stand still
/// for one, and then begins another.
fn wanted(scenario: &Scenario) -> Duration {
    let tasks = scenario.tasks.iter();
    let constrained = tasks.filter(|task| task.class == Class::Deadline && task.deadline < task.period);
    let period = constrained.filter_map(|task| task.period).max();
    period.map_or(Duration::ZERO, |period| {
        Duration::from_nanos(period.get()).saturating_mul(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: &str = r#"
name = "s"
duration = "1s"
memory.pool = "1MiB"
[[region]]
name = "p"
size = "64KiB"
[[reservation]]
name = "r"
size = "64KiB"
[[task]]
name = "a"
reservation = "r"
class = "deadline"
period = "100ms"
budget = "5ms"
[[task.access]]
region = "p"
pattern = "sequential"
amount = "4KiB"
write = true
"#;

    #[test]
    fn time_0_is_past_the_periods_of_tasks_whose_deadlines_are_before_them() {
        let of = |set: &str| {
            let text = TASKS.replace("period = \"100ms\"", set);
            Scenario::parse(&text, "s.toml").expect("legal")
        };
        assert_eq!(lead(&of("period = \"100ms\"")), LEAD);
        assert_eq!(lead(&of("period = \"100ms\"\ndeadline = \"100ms\"")), LEAD);
        let constrained = of("period = \"100ms\"\ndeadline = \"30ms\"");
        assert_eq!(lead(&constrained), LEAD + Duration::from_millis(200));
        assert_eq!(warning(&constrained), None);
        let long = of("period = \"100s\"\ndeadline = \"30ms\"");
        assert_eq!(lead(&long), LONGEST);
        assert!(warning(&long).is_some());
    }
}
