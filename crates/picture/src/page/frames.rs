//! A page of frame times: the history of a player's frames under several policies, all to one scale (the paper's
//! Figures 10 and 11).

use std::fmt::Write;

use crate::html::{self, Cell, Table, escape};
use crate::number::{self, ratio};
use crate::svg::{self, Anchor, Chart, LEFT, Numbers, Path, RIGHT, Words};

use super::STYLE;

const TOP: f64 = 26.0;
const BOTTOM: f64 = 190.0;
const MILLISECOND: u64 = 1_000_000;

/// One playing of a clip.
#[derive(Clone, Debug)]
pub struct FrameHistory {
    /// Under what it was played.
    pub label: String,
    /// The time that each frame took, in nanoseconds, from the first frame on.
    pub times: Vec<u64>,
    /// The time there is for a frame, in nanoseconds.
    pub period: u64,
    /// What happened at which frame.
    pub marks: Vec<(u64, String)>,
    /// What else is to be said of it, a word and a number each.
    pub counts: Vec<(String, u64)>,
}

/// Writes the page: a chart for each history, one under the other to one scale, and their numbers as a table. The same
/// histories always give the same page.
#[must_use]
pub fn frame_page(title: &str, about: &str, histories: &[FrameHistory]) -> String {
    let (mut page, title) = (String::new(), escape(title));
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Freehold: {title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Freehold: {title}</h1>\n</header>\n<main>\n{}",
        html::paragraph(about)
    );
    page.push_str(&table(histories).to_html());
    let frames = histories
        .iter()
        .map(|history| history.times.len() as u64)
        .max()
        .unwrap_or(0);
    let longest = histories
        .iter()
        .flat_map(|history| &history.times)
        .copied()
        .max()
        .unwrap_or(0);
    // At least two periods high, so that a small jitter looks small.
    let most = histories
        .iter()
        .map(|history| history.period.saturating_mul(2))
        .max()
        .unwrap_or(0);
    let most = longest.max(most).max(MILLISECOND);
    let mut numbers = Numbers::default();
    for history in histories {
        page.push_str(&draw(history, frames.max(1), most, &mut numbers));
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn table(histories: &[FrameHistory]) -> Table {
    let words: Vec<&str> = histories
        .first()
        .map(|history| history.counts.iter().map(|(word, _)| word.as_str()).collect())
        .unwrap_or_default();
    let columns = [
        &["policy", "frames", "half took at most", "99 of 100", "longest"],
        &words[..],
    ]
    .concat();
    let mut table = Table::new("Frame times", &columns);
    for history in histories {
        let mut sorted = history.times.clone();
        sorted.sort_unstable();
        let at = |share: usize| {
            sorted
                .get(sorted.len().saturating_sub(1) * share / 100)
                .map_or(Cell::None, |time| Cell::Time(*time))
        };
        let mut cells = vec![
            Cell::Head(history.label.clone()),
            Cell::Count(sorted.len() as u64),
            at(50),
            at(99),
            at(100),
        ];
        cells.extend(history.counts.iter().map(|(_, count)| Cell::Count(*count)));
        cells.resize(columns.len(), Cell::None);
        table.row(cells);
    }
    table
}

fn draw(history: &FrameHistory, frames: u64, most: u64, numbers: &mut Numbers) -> String {
    let mut chart = Chart::new();
    let x = |frame: u64| LEFT + ratio(frame, frames) * (RIGHT - LEFT);
    let y = |time: u64| BOTTOM - (BOTTOM - TOP) * ratio(time.min(most), most);
    let step = number::step(frames, 10);
    for frame in (0..=frames / step).map(|mark| mark * step) {
        chart.line((x(frame), TOP), (x(frame), BOTTOM), "grid");
        chart.text(x(frame), BOTTOM + 14.0, Anchor::Middle, "tick", &number::grouped(frame));
    }
    chart.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
    svg::upright(&mut chart, most / MILLISECOND, TOP, BOTTOM);
    chart.line((LEFT, y(history.period)), (RIGHT, y(history.period)), "capacity");
    for (frame, what) in &history.marks {
        chart.line((x(*frame), TOP), (x(*frame), BOTTOM), "axis");
        chart.text(x(*frame) + 4.0, TOP - 8.0, Anchor::Start, "tick", what);
    }
    let mut line = Path::default();
    for (frame, time) in (0_u64..).zip(&history.times) {
        if line.is_empty() {
            line.move_to(x(frame), y(*time));
        } else {
            line.line_to(x(frame), y(*time));
        }
    }
    chart.path(&line, "history");
    let longest = history.times.iter().copied().max().unwrap_or(0);
    let description = format!(
        "{} frames, the longest {}, of {} each.",
        history.times.len(),
        number::time(longest),
        number::time(history.period)
    );
    let words = Words {
        title: &history.label,
        description: &description,
        caption: "Milliseconds from frame to frame, by the number of the frame; the dashed line is the period.",
    };
    chart.finish(numbers, BOTTOM + 20.0, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(label: &str, times: Vec<u64>) -> FrameHistory {
        FrameHistory {
            label: label.to_owned(),
            times,
            period: 33_333_333,
            marks: vec![(2, "a second player".to_owned())],
            counts: vec![("read again".to_owned(), 143)],
        }
    }

    #[test]
    fn every_history_is_drawn_to_one_scale() {
        let histories = [
            history("none", vec![33_000_000, 33_000_000, 120_000_000, 33_000_000]),
            history("<spc>", vec![33_000_000; 4]),
        ];
        let page = frame_page("three players", "About.", &histories);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("class=\"history\"").count(), 2);
        assert!(page.contains("&lt;spc&gt;") && !page.contains("<spc>"));
        assert!(page.contains("120 ms") && page.contains("143") && page.contains("a second player"));
        // The longest frame is at the top of its chart, and the other chart has nothing there.
        assert!(page.contains("L650 26"), "{page}");
        assert_eq!(page, frame_page("three players", "About.", &histories));
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        for histories in [
            vec![],
            vec![history("none", vec![])],
            vec![history("x", vec![u64::MAX, 0])],
        ] {
            assert!(frame_page("", "", &histories).ends_with("</html>\n"));
        }
    }
}
