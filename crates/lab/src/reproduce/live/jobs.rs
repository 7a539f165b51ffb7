//! What `freehold exec --report-jobs` wrote of the jobs in a span of time.

use std::path::Path;

use serde::Deserialize;

use freehold_command::exit_status::Failure;

/// Until then a pool finds its size. Nanoseconds.
const SETTLING: u64 = 10_000_000_000;

/// The jobs of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jobs {
    pub(super) count: usize,
    pub(super) late: usize,
    /// Late jobs and jobs of those released ten seconds after the begin or later.
    pub(super) settled: (usize, usize),
    /// From release to finish, in milliseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// CPU time of a job (Q), in milliseconds.
    pub(super) cpu: f64,
    /// Pages read back for the program; not known without a server.
    pub(super) swap_ins: Option<u64>,
    /// Pages pinned, on average over judgements.
    pub(super) pinned: Option<f64>,
    /// The swap budget, on average over judgements, in milliseconds.
    pub(super) swap_budget: Option<f64>,
    /// Pages brought back before releases.
    pub(super) restored: Option<u64>,
    /// Jobs whose records were lost are missing.
    pub(super) lost_records: u64,
}

/// A row, the first line or the last.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    release_ns: Option<u64>,
    finish_ns: Option<u64>,
    cpu_ns: u64,
    late: serde_json::Value,
    swap_ins: Option<u64>,
    judgement: Option<Judgement>,
    lost_records: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Judgement {
    pinned_pages: u64,
    swap_budget_ns: u64,
    restored_pages: u64,
}

/// Of those released between two moments of CLOCK_MONOTONIC, in nanoseconds.
///
/// # Errors
/// A report that is not there or not whole.
pub(super) fn read(report: &Path, begin: u64, end: u64) -> Result<Jobs, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Run(format!("the report of jobs, {}: {error}", report.display()));
    let text = std::fs::read_to_string(report).map_err(|error| failed(&error))?;
    summary(&text, begin, end).map_err(|error| failed(&error))
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn summary(text: &str, begin: u64, end: u64) -> Result<Jobs, serde_json::Error> {
    let lines: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let within = |line: &&Line| line.release_ns.is_some_and(|release| (begin..end).contains(&release));
    let rows: Vec<&Line> = lines.iter().filter(within).collect();
    let mut responses: Vec<u64> = rows
        .iter()
        .filter_map(|row| Some(row.finish_ns?.saturating_sub(row.release_ns?)))
        .collect();
    responses.sort_unstable();
    let mut cpu: Vec<u64> = rows.iter().map(|row| row.cpu_ns).collect();
    cpu.sort_unstable();
    let is_late = |row: &&&Line| row.late == true;
    let after = begin.saturating_add(SETTLING);
    let settled = rows.iter().filter(|row| row.release_ns >= Some(after));
    let judgements: Vec<&Judgement> = rows.iter().filter_map(|row| row.judgement.as_ref()).collect();
    let mean = |of: fn(&Judgement) -> u64| {
        let sum: u64 = judgements.iter().map(|judgement| of(judgement)).sum();
        (!judgements.is_empty()).then(|| sum as f64 / judgements.len() as f64)
    };
    let swap_ins = rows.iter().filter_map(|row| row.swap_ins);
    let counted = rows.iter().any(|row| row.swap_ins.is_some());
    Ok(Jobs {
        count: rows.len(),
        late: rows.iter().filter(is_late).count(),
        settled: (settled.clone().filter(is_late).count(), settled.count()),
        p50: quantile(&responses, 0.5),
        p99: quantile(&responses, 0.99),
        cpu: quantile(&cpu, 0.5),
        swap_ins: counted.then(|| swap_ins.sum()),
        pinned: mean(|judgement| judgement.pinned_pages),
        swap_budget: mean(|judgement| judgement.swap_budget_ns).map(|budget| budget / 1e6),
        restored: judgements.first().zip(judgements.last()).map(|(first, last)| {
            // Counted since the pool was opened.
            last.restored_pages.saturating_sub(first.restored_pages)
        }),
        lost_records: lines.last().map_or(0, |line| line.lost_records),
    })
}

/// In milliseconds; not a number of nothing.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a list, and times far below 2^53"
)]
fn quantile(sorted: &[u64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part).ceil() as usize;
    sorted
        .get(at.saturating_sub(1))
        .map_or(f64::NAN, |value| *value as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_released_in_the_span_are_counted_and_no_others() {
        let row = |release: u64, response: u64, late: bool, pinned: u64| {
            serde_json::json!({
                "job": 1, "release_ns": release, "finish_ns": release + response, "cpu_ns": 500_000, "late": late,
                "swap_ins": 2, "judgement": {
                    "pinned_pages": pinned, "swap_budget_ns": 1_000_000, "restored_pages": 7 * release,
                },
            })
            .to_string()
        };
        let first = r#"{"thread":1,"class":"deadline","period_ns":30000000}"#.to_owned();
        let last = r#"{"jobs":4,"late":2,"swap_ins":8,"lost_records":3}"#.to_owned();
        let rows = [
            first,
            row(5, 1, true, 900),
            row(10, 1_000_000, false, 10),
            row(20, 3_000_000, true, 20),
            row(30, 1, false, 900),
            last,
        ];
        let jobs = summary(&rows.join("\n"), 10, 30).unwrap();
        let expected = Jobs {
            count: 2,
            late: 1,
            settled: (0, 0),
            p50: 1.0,
            p99: 3.0,
            cpu: 0.5,
            swap_ins: Some(4),
            pinned: Some(15.0),
            swap_budget: Some(1.0),
            restored: Some(70),
            lost_records: 3,
        };
        assert_eq!(jobs, expected);
        let rows = [
            row(0, 1, true, 0),
            row(SETTLING, 1, false, 0),
            row(SETTLING + 1, 1, true, 0),
        ];
        assert_eq!(summary(&rows.join("\n"), 0, 2 * SETTLING).unwrap().settled, (1, 2));
        let none = summary("{}\n", 0, 9).unwrap();
        assert_eq!((none.count, none.swap_ins, none.pinned), (0, None, None));
        assert!(none.p50.is_nan());
        assert!(summary("{", 0, 9).is_err());
    }
}
