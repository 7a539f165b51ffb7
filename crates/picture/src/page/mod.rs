//! The page of `--report`: tables and charts of one or several runs, in one file that refers to no other.

mod compare;
mod figures;
mod frames;
mod legend;
mod run;
mod tables;

pub use frames::{FrameHistory, frame_page};

use std::fmt::Write;

use crate::html::escape;
use crate::svg::{Numbers, Window};
use crate::{Run, label};

const STYLE: &str = include_str!("style.css");

/// How finely things are drawn, so that the page stays small: the more rows and charts, the coarser.
#[derive(Clone, Copy, Debug)]
struct Detail {
    /// Columns of an execution history.
    columns: u32,
    /// Samples of a chart of frames.
    samples: usize,
}

impl Detail {
    fn of(runs: &[Run<'_>]) -> Self {
        let tasks: usize = runs.iter().map(|run| run.result.tasks.len()).sum();
        let charts: usize = runs.iter().map(|run| 2 * run.result.reservations.len()).sum();
        let rows = u32::try_from(tasks.saturating_mul(5)).unwrap_or(u32::MAX).max(1);
        Self {
            columns: (26_500 / rows).clamp(106, 1_060),
            samples: (10_000 / charts.max(1)).clamp(50, 1_000),
        }
    }
}

/// Writes the page. The same runs always give the same page. Cost: below about 2 MB for a few runs of a few tasks.
#[must_use]
pub fn report(runs: &[Run<'_>]) -> String {
    let (mut numbers, detail) = (Numbers::default(), Detail::of(runs));
    let mut page = String::new();
    write_head(&mut page, runs);
    if runs.len() > 1 {
        page.push_str(&compare::section(runs, detail, &mut numbers));
    }
    for position in 0..runs.len() {
        page.push_str(&run::section(runs, position, detail, &mut numbers));
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn write_head(page: &mut String, runs: &[Run<'_>]) {
    let labels: Vec<String> = (0..runs.len()).map(|position| label::of(runs, position)).collect();
    let title = escape(&labels.join(", "));
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Freehold: {title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{}<header>\n<h1>Freehold: {title}</h1>\n",
        legend::PATTERNS
    );
    if runs.is_empty() {
        page.push_str("<p>There is no run to show.</p>\n");
    }
    if runs.len() > 1 {
        page.push_str("<nav aria-label=\"Contents\"><ul>\n<li><a href=\"#comparison\">Comparison</a></li>\n");
        for (position, label) in labels.iter().enumerate() {
            let _ = writeln!(page, "<li><a href=\"#run{}\">{}</a></li>", position + 1, escape(label));
        }
        page.push_str("</ul></nav>\n");
    }
    page.push_str("</header>\n<main>\n");
}

/// The time that all these runs cover, so that they can be compared.
fn whole(runs: &[Run<'_>]) -> Window {
    let longest = runs.iter().map(|run| run.result.head.duration_ns).max();
    Window::new(0, longest.unwrap_or(0))
}

/// A heading with what is beneath it.
fn part(level: u8, title: &str, body: &str) -> String {
    format!("<h{level}>{}</h{level}>\n{body}", escape(title))
}
