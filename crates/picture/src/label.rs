//! What a run is called beside others.

use crate::Run;

/// The scenario's name; where several runs have it, with the policy, and where that does not tell them apart either,
/// with a number.
pub(crate) fn of(runs: &[Run<'_>], position: usize) -> String {
    let Some(run) = runs.get(position) else {
        return String::new();
    };
    let short = |run: &Run<'_>| run.result.head.scenario.clone();
    let long = |run: &Run<'_>| format!("{} ({})", run.result.head.scenario, run.result.policy());
    let alike = |name: &dyn Fn(&Run<'_>) -> String| runs.iter().filter(|other| name(other) == name(run)).count();
    if alike(&short) == 1 {
        short(run)
    } else if alike(&long) == 1 {
        long(run)
    } else {
        format!("{}, run {}", long(run), position + 1)
    }
}
