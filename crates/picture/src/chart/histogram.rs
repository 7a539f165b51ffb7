//! How often which response time occurred.

use freehold_scenario::recording::JobSpan;

use crate::number::{self, ratio};
use crate::svg::{Anchor, Chart, LEFT, Numbers, Path, RIGHT, Window, Words};

/// What to draw.
#[derive(Debug)]
pub(crate) struct Histogram<'a> {
    pub(crate) title: String,
    pub(crate) jobs: &'a [JobSpan],
    /// Jobs of the result, of which those recorded may be a part.
    pub(crate) counted: u64,
    /// The largest response of a finished job, ns.
    pub(crate) max: u64,
    /// Relative, ns.
    pub(crate) deadline: Option<u64>,
    /// The end of the scale, ns, where other charts are beside this one.
    pub(crate) most: u64,
}

const BARS: u64 = 100;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 110.0;

impl Histogram<'_> {
    /// The chart as a figure of the page.
    pub(crate) fn draw(&self, numbers: &mut Numbers) -> String {
        let mut chart = Chart::new();
        let most = self.most.max(self.max).max(self.deadline.unwrap_or(0));
        // A little room past the last mark.
        let window = Window::new(0, most.saturating_add(most / 25));
        let bars = self.count(window);
        let highest = bars.iter().copied().max().unwrap_or(0);
        window.axis(&mut chart, TOP, BOTTOM);
        mark_counts(&mut chart, highest);
        self.draw_bars(&mut chart, window, &bars);
        if let Some(deadline) = self.deadline {
            let x = window.x(deadline);
            chart.line((x, 4.0), (x, BOTTOM), "deadline");
            chart.text(
                x - 4.0,
                13.0,
                Anchor::End,
                "note",
                &format!("deadline {}", number::time(deadline)),
            );
        }
        if self.max > 0 {
            let x = window.x(self.max);
            let mut mark = Path::default();
            mark.move_to(x - 5.0, BOTTOM + 8.0);
            mark.across_to(x + 5.0);
            mark.down_to(BOTTOM + 2.0);
            mark.close();
            chart.line((x, TOP - 2.0), (x, BOTTOM), "maximum");
            let anchor = if x < (LEFT + RIGHT) / 2.0 {
                Anchor::Start
            } else {
                Anchor::End
            };
            let shift = if x < (LEFT + RIGHT) / 2.0 { 4.0 } else { -4.0 };
            chart.text(
                x + shift,
                TOP + 10.0,
                anchor,
                "note",
                &format!("maximum {}", number::time(self.max)),
            );
        }
        let words = Words {
            title: &self.title,
            description: &self.description(),
            caption: &self.caption(),
        };
        chart.finish(numbers, BOTTOM + 20.0, &words)
    }

    /// Finished jobs in each of [`BARS`] equal parts of the window.
    fn count(&self, window: Window) -> Vec<u64> {
        let mut bars = vec![0; usize::try_from(BARS).unwrap_or(1)];
        for job in self.jobs.iter().filter(|job| job.finished) {
            let bar = u128::from(job.response_ns()) * u128::from(BARS) / u128::from(window.length());
            let last = bars.len() - 1;
            bars[usize::try_from(bar).unwrap_or(last).min(last)] += 1;
        }
        bars
    }

    fn draw_bars(&self, chart: &mut Chart, window: Window, bars: &[u64]) {
        let highest = bars.iter().copied().max().unwrap_or(0);
        let width = (RIGHT - LEFT) / ratio(BARS, 1);
        let late = self.deadline.map_or(f64::INFINITY, |deadline| window.x(deadline));
        let (mut good, mut bad) = (Path::default(), Path::default());
        for (at, count) in bars.iter().enumerate().filter(|(_, count)| **count > 0) {
            let left = LEFT + ratio(at as u64, 1) * width;
            let height = BOTTOM - level(*count, highest);
            let shape = if left >= late { &mut bad } else { &mut good };
            shape.rectangle(left + 0.5, BOTTOM - height, width - 1.0, height);
        }
        chart.path(&good, "bar");
        chart.path(&bad, "bar-late");
    }

    fn caption(&self) -> String {
        let mut caption = String::from(
            "Finished jobs by response time; the height of a bar grows with the logarithm of its count, so that a \
             single job is seen.",
        );
        let recorded = self.jobs.len() as u64;
        if recorded < self.counted {
            let (recorded, counted) = (number::grouped(recorded), number::grouped(self.counted));
            caption.push_str(&format!(" Only the first {recorded} of {counted} jobs are recorded."));
        }
        caption
    }

    fn description(&self) -> String {
        let finished = self.jobs.iter().filter(|job| job.finished).count();
        let deadline = self.deadline.map_or_else(String::new, |deadline| {
            let past = self
                .jobs
                .iter()
                .filter(|job| job.finished && job.response_ns() > deadline)
                .count();
            format!(
                " The deadline is {}; {past} jobs finished past it.",
                number::time(deadline)
            )
        });
        format!(
            "{finished} finished jobs, the longest took {}.{deadline}",
            number::time(self.max)
        )
    }
}

/// Where a count is on a logarithmic scale from 0 to the highest count.
fn level(count: u64, highest: u64) -> f64 {
    let logarithm = |count: u64| ratio(count, 1).ln_1p();
    let part = logarithm(count) / logarithm(highest.max(1));
    BOTTOM - (BOTTOM - TOP) * part.min(1.0)
}

fn mark_counts(chart: &mut Chart, highest: u64) {
    let mut count = 1_u64;
    while count <= highest {
        let y = level(count, highest);
        chart.line((LEFT - 4.0, y), (LEFT, y), "axis");
        chart.text(LEFT - 7.0, y + 4.0, Anchor::End, "tick", &number::grouped(count));
        let Some(next) = count.checked_mul(10) else { break };
        count = next;
    }
    chart.text(4.0, TOP + 4.0, Anchor::Start, "remark", "jobs");
}
