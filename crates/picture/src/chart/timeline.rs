//! When tasks ran, waited and were late: a row for each task, as the paper's execution histories.

use freehold_scenario::recording::{FaultKind, TaskRecording};

use super::states::{self, FULL, STATES};
use crate::number;
use crate::svg::{Anchor, Chart, LEFT, Numbers, Path, RIGHT, Window, Words};

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    /// Beneath the name.
    pub(crate) remark: String,
    pub(crate) task: &'a TaskRecording,
    /// Until when what the task did is recorded, where that is not all.
    pub(crate) until: Option<u64>,
}

/// What to draw, and how finely.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<'a> {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row<'a>>,
    pub(crate) window: Window,
    /// Beneath every row the faults, by kind.
    pub(crate) faults: bool,
    /// How many columns a row has where intervals are too many.
    pub(crate) columns: u32,
}

/// Above a row: what is late.
const LATE: f64 = 14.0;
/// Beneath a row: releases.
const RELEASES: f64 = 10.0;
/// Height of one lane of faults.
const LANE: f64 = 4.0;
/// So many intervals of one row are drawn one by one.
const MOST_INTERVALS: usize = 700;
/// So many releases of one row are marked.
const MOST_RELEASES: usize = 200;
/// Marks closer than this are one.
const APART: f64 = 1.0;

/// The kinds of faults that share a lane, with their class, from the top down.
const LANES: [(&str, &[FaultKind]); 5] = [
    ("fault-shared", &[FaultKind::SharedSwapIn]),
    ("fault-swap", &[FaultKind::SwapIn, FaultKind::FileRead]),
    ("fault-zero", &[FaultKind::ZeroFill, FaultKind::Copy]),
    ("fault-soft", &[FaultKind::Soft, FaultKind::Upgrade]),
    ("fault-failed", &[FaultKind::Failed]),
];

impl Timeline<'_> {
    /// The chart as a figure of the page.
    pub(crate) fn draw(&self, numbers: &mut Numbers) -> String {
        let mut chart = Chart::new();
        let count = |row: &Row<'_>| states::seen(&row.task.spans, self.window);
        let most = self.rows.iter().map(count).max().unwrap_or(0);
        let one_by_one = most <= MOST_INTERVALS;
        let height = self.row_height();
        let bottom = 4.0 + height * number::ratio(self.rows.len() as u64, 1);
        self.window.axis(&mut chart, 4.0, bottom);
        let mut releases = true;
        for (at, row) in self.rows.iter().enumerate() {
            let top = 4.0 + height * number::ratio(at as u64, 1);
            self.draw_missing(&mut chart, row, top + LATE);
            self.draw_states(&mut chart, row, top + LATE + FULL, one_by_one);
            self.draw_late(&mut chart, row, top + LATE);
            releases &= self.draw_releases(&mut chart, row, top + LATE + FULL);
            if self.faults {
                self.draw_faults(&mut chart, row, top + LATE + FULL + RELEASES);
            }
            let middle = top + LATE + FULL / 2.0;
            chart.text(4.0, middle, Anchor::Start, "name", &shortened(&row.name, 18));
            chart.text(4.0, middle + 14.0, Anchor::Start, "remark", &shortened(&row.remark, 20));
        }
        let words = Words {
            title: &self.title,
            description: &self.description(),
            caption: &self.caption(one_by_one, releases),
        };
        chart.finish(numbers, bottom + 20.0, &words)
    }

    fn row_height(&self) -> f64 {
        let lanes = if self.faults {
            LANE * number::ratio(LANES.len() as u64, 1) + 2.0
        } else {
            0.0
        };
        LATE + FULL + RELEASES + lanes
    }

    /// A hatch over the time of which nothing is known.
    fn draw_missing(&self, chart: &mut Chart, row: &Row<'_>, top: f64) {
        let missing = row.until.and_then(|until| self.window.clip(until, u64::MAX));
        if let Some((from, _)) = missing {
            let left = self.window.x(from);
            let mut hatch = Path::default();
            hatch.rectangle(left, top, (RIGHT - left).max(APART), FULL);
            chart.titled_path(&hatch, "missing", "not recorded");
        }
    }

    fn draw_states(&self, chart: &mut Chart, row: &Row<'_>, base: f64, one_by_one: bool) {
        let shapes = if one_by_one {
            states::intervals(&row.task.spans, self.window, base)
        } else {
            states::shares(&row.task.spans, self.window, self.columns, base)
        };
        for ((_, class, _), shape) in STATES.iter().zip(&shapes) {
            chart.path(shape, class);
        }
        chart.line((LEFT, base), (RIGHT, base), "axis");
    }

    /// A bar from the deadline of a late job to its end, and a cross at the deadline.
    fn draw_late(&self, chart: &mut Chart, row: &Row<'_>, top: f64) {
        let (mut bars, mut crosses) = (Path::default(), Path::default());
        let (mut drawn, mut crossed) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for job in row.task.jobs.iter().filter(|job| job.missed) {
            let deadline = job.deadline_ns.unwrap_or(job.end_ns);
            if let Some((from, to)) = self.window.clip(deadline, job.end_ns) {
                // Jobs that are late at the same time share a bar.
                let left = self.window.x(from).max(drawn);
                let right = self.window.x(to).max(self.window.x(from) + APART).min(RIGHT);
                if right > left {
                    bars.rectangle(left, top - 5.0, right - left, 4.0);
                    drawn = right;
                }
            }
            let x = self.window.x(deadline);
            if self.window.contains(deadline) && x >= crossed + 4.0 {
                crosses.cross(x, top - 9.0, 3.0);
                crossed = x;
            }
        }
        chart.path(&bars, "late");
        chart.path(&crosses, "missed");
    }

    /// Whether there were few enough to draw them.
    fn draw_releases(&self, chart: &mut Chart, row: &Row<'_>, base: f64) -> bool {
        let seen = || row.task.jobs.iter().filter(|job| self.window.contains(job.release_ns));
        if seen().count() > MOST_RELEASES {
            return false;
        }
        let mut marks = Path::default();
        for job in seen() {
            let x = self.window.x(job.release_ns);
            marks.move_to(x, base);
            marks.down_to(base + 5.0);
        }
        chart.path(&marks, "release");
        true
    }

    fn draw_faults(&self, chart: &mut Chart, row: &Row<'_>, top: f64) {
        for (lane, (class, kinds)) in LANES.iter().enumerate() {
            let y = top + LANE * number::ratio(lane as u64, 1);
            let mut marks = Path::default();
            // Marks that touch become one shape, from the first's left to the last's right.
            let mut open: Option<(f64, f64)> = None;
            let mine = |kind: &FaultKind| kinds.contains(kind);
            for fault in row.task.faults.iter().filter(|fault| mine(&fault.kind)) {
                if fault.from_ns > self.window.to || fault.to_ns < self.window.from {
                    continue;
                }
                let left = self.window.x(fault.from_ns);
                let right = self.window.x(fault.to_ns).max(left + APART);
                match &mut open {
                    Some((_, end)) if left <= *end + APART => *end = end.max(right),
                    _ => {
                        if let Some((from, to)) = open.replace((left, right)) {
                            marks.rectangle(from, y, to - from, LANE - 1.0);
                        }
                    }
                }
            }
            if let Some((from, to)) = open {
                marks.rectangle(from, y, to - from, LANE - 1.0);
            }
            chart.path(&marks, class);
        }
    }

    fn description(&self) -> String {
        let (from, to) = (number::time(self.window.from), number::time(self.window.to));
        let rows = self.rows.iter().map(|row| {
            let released = |job: &&freehold_scenario::recording::JobSpan| self.window.contains(job.release_ns);
            let jobs = row.task.jobs.iter().filter(released);
            let late = jobs.clone().filter(|job| job.missed).count();
            format!(
                "{} {}: {} jobs released, {late} of them late",
                row.name,
                row.remark,
                jobs.count()
            )
        });
        let rows: Vec<String> = rows.collect();
        format!("From {from} to {to}. {}.", rows.join("; "))
    }

    fn caption(&self, one_by_one: bool, releases: bool) -> String {
        let mut caption = String::from("Crosses are deadlines missed, bars above a row the time past them.");
        if releases {
            caption.push_str(" Ticks beneath a row are releases.");
        }
        if !one_by_one {
            let column = number::time(self.window.length() / u64::from(self.columns.max(1)));
            caption.push_str(&format!(
                " Down-sampled: each of {} columns shows how its {column} were shared; what is late is at least a \
                 column wide.",
                self.columns
            ));
        }
        if self
            .rows
            .iter()
            .any(|row| row.until.is_some_and(|until| until < self.window.to))
        {
            caption.push_str(" Hatched to the end of a row: not recorded, there was no room.");
        }
        if self.faults {
            caption.push_str(" Marks beneath a row are its faults; those that touch are drawn as one.");
        }
        caption
    }
}

/// A name as far as it fits.
fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(most - 1).collect();
    short.push('\u{2026}');
    short
}
