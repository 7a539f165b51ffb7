//! Figure 8: the smallest schedulable reservations.

use freehold_scenario::results::ReproduceRow;

use super::{Claim, Laboratory, row, task_of};
use crate::size;
use crate::status::Failure;

/// Runs the experiment. The paper's sizes in pages: 11 MiB and 2 MiB, chosen by hand.
pub(super) fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for (file, task, pages) in [
        ("spc-fig8-tau1.toml", "tau1", 2816),
        ("spc-fig8-tau2.toml", "tau2", 512),
    ] {
        let misses = misses(laboratory, file, task, &[])?;
        rows.push(row(
            format!("{task} with {pages} pages: misses"),
            "misses",
            Some(0),
            misses,
            Claim::Equal(0),
        ));
        let scenario = laboratory.scenario(file, &[])?;
        let index = scenario
            .task_index(task)
            .ok_or_else(|| Failure::Input(format!("{file}: no task `{task}`")))?;
        let answer = size::smallest(laboratory.session(), &scenario, index, None)?;
        let ours = answer.pages.map(u64::from);
        let what = format!("{task}: smallest reservation ({} sizes tried)", answer.tried);
        rows.push(row(&what, "pages", Some(pages), ours, Claim::AtMost(pages)));
    }
    let small = misses(laboratory, "spc-fig8-tau1.toml", "tau1", &["reservation.r1.size=10MiB"])?;
    rows.push(row(
        "tau1 with 2560 pages: misses",
        "misses",
        None,
        small,
        Claim::AtLeast(1),
    ));
    Ok(rows)
}

fn misses(laboratory: &Laboratory, file: &str, task: &str, sets: &[&str]) -> Result<Option<u64>, Failure> {
    let outcome = laboratory.run(file, sets)?;
    Ok(task_of(&outcome, task).map(|task| task.misses))
}
