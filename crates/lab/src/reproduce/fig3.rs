//! Figure 3: what company does to a task that has more frames than it needs.

use freehold_scenario::results::ReproduceRow;

use super::files::file;
use super::{Claim, Laboratory, row, task_of};
use super::{Experiment, Kind};
use freehold_command::engine::{Outcome, Placement};
use freehold_command::exit_status::Failure;

/// Under isolation a typical job may take this much longer than alone, in hundredths: the CPU is shared, the pages are
/// isolated.
const ISOLATED_HUNDREDTHS: u64 = 125;

struct Times {
    execution: Option<u64>,
    completion: Option<u64>,
    shared_swap_ins: Option<u64>,
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-fig3",
    about: "execution and completion time of a task alone, and beside one that is short of frames",
    files: &[file!("spc-fig3-alone.toml"), file!("spc-fig3.toml")],
    kind: Kind::Scenarios,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let alone = times(&laboratory.run("spc-fig3-alone.toml", &[])?);
    let file = "spc-fig3.toml";
    let none = times(&laboratory.run(file, &["region.shm.sharing=none"])?);
    let spc = times(&laboratory.run(file, &[])?);
    let spel = times(&laboratory.run(file, &["reservation.r1.sharing.shm=spel"])?);

    let mut rows = together("alone", &alone, [Claim::Shown, Claim::Shown, Claim::Equal(0)]).to_vec();
    let (execution, completion) = (alone.execution.unwrap_or(0), alone.completion.unwrap_or(0));
    let noticeably = completion.saturating_mul(2);
    // A server brings pages in its own thread: what that takes is waiting for the task, no execution of it.
    let execution_harmed = match laboratory.session().placement() {
        Placement::Embedded => Claim::AtLeast(execution),
        Placement::Server => Claim::Shown,
    };
    let harmed = [execution_harmed, Claim::AtLeast(noticeably), Claim::AtLeast(1)];
    rows.extend(together("with the second, none", &none, harmed));
    for (name, times) in [("with the second, spc", &spc), ("with the second, spel", &spel)] {
        let within = |alone: u64| Claim::AtMost(alone.saturating_mul(ISOLATED_HUNDREDTHS) / 100);
        rows.extend(together(
            name,
            times,
            [within(execution), within(completion), Claim::Equal(0)],
        ));
    }
    Ok(rows)
}

fn together(name: &str, times: &Times, [execution, completion, swap_ins]: [Claim; 3]) -> [ReproduceRow; 3] {
    [
        row(
            format!("first {name}: mean execution time"),
            "ns",
            None,
            times.execution,
            execution,
        ),
        row(
            format!("first {name}: typical completion time"),
            "ns",
            None,
            times.completion,
            completion,
        ),
        row(
            format!("first {name}: pages another evicted"),
            "pages",
            None,
            times.shared_swap_ins,
            swap_ins,
        ),
    ]
}

fn times(outcome: &Outcome) -> Times {
    let first = task_of(outcome, "first");
    Times {
        execution: first.and_then(|task| task.times.cpu_ns.checked_div(task.jobs)),
        completion: first.map(|task| task.response_ns.p50),
        shared_swap_ins: first.map(|task| task.faults.shared_swap_ins),
    }
}
