//! Figure 8: the smallest schedulable reservations.

use freehold_core::units::PageCount;
use freehold_scenario::format_size;
use freehold_scenario::results::ReproduceRow;

use super::files::file;
use super::{Claim, Laboratory, row, task_of};
use super::{Experiment, Kind};
use freehold_command::engine::Engine;
use freehold_command::exit_status::Failure;
use freehold_command::size;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-fig8",
    about: "the smallest schedulable reservations of tau1 and tau2",
    files: &[file!("spc-fig8-tau1.toml"), file!("spc-fig8-tau2.toml")],
    kind: Kind::Scenarios,
    run,
};

/// Runs the experiment. The paper's sizes in pages: 11 MiB and 2 MiB, chosen by hand.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
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
        rows.extend(smallest(laboratory, file, task, pages)?);
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

/// The smallest reservation, found by the search of `freehold size` in virtual time, where hundreds of runs take a
/// moment; live, that size is then shown to hold on real pages, and the one that fails in the simulator is tried too.
fn smallest(laboratory: &Laboratory, file: &str, task: &str, paper: u64) -> Result<Vec<ReproduceRow>, Failure> {
    let scenario = laboratory.scenario(file, &[])?;
    let missing = || Failure::Input(format!("{file}: no task `{task}`"));
    let index = scenario.task_index(task).ok_or_else(missing)?;
    let answer = size::smallest(&laboratory.session().simulated(), &scenario, index, None)?;
    let ours = answer.pages.map(u64::from);
    let what = format!(
        "{task}: smallest reservation ({} sizes tried in the simulator)",
        answer.tried
    );
    let mut rows = vec![row(&what, "pages", Some(paper), ours, Claim::AtMost(paper))];
    if laboratory.session().engine() == Engine::Live {
        for size in [answer.pages, answer.failing_pages] {
            let Some(size) = size else { continue };
            let reservation = &answer.reservation;
            let set = format!(
                "reservation.{reservation}.size={}",
                format_size(PageCount::new(size).to_bytes())
            );
            let misses = misses(laboratory, file, task, &[&set])?;
            rows.push(row(
                format!("{task} live with {size} pages: misses"),
                "misses",
                None,
                misses,
                Claim::Shown,
            ));
        }
    }
    Ok(rows)
}

fn misses(laboratory: &Laboratory, file: &str, task: &str, sets: &[&str]) -> Result<Option<u64>, Failure> {
    let outcome = laboratory.run(file, sets)?;
    Ok(task_of(&outcome, task).map(|task| task.misses))
}
