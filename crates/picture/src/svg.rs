//! Charts: a few shapes with the words that say what they show. Colours and hatches are classes of the page's style.

use std::fmt::Write;

use crate::html::escape;
use crate::number::{self, coordinate, ratio};

/// Width of every chart, in units of its own; the page scales it.
pub(crate) const WIDTH: f64 = 1_200.0;
/// Where the plot begins: names of rows and numbers of axes are left of it.
pub(crate) const LEFT: f64 = 130.0;
/// Where the plot ends.
pub(crate) const RIGHT: f64 = 1_170.0;

/// Gives every chart of a page a number, for what refers to it.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// A chart under construction.
#[derive(Debug)]
pub(crate) struct Chart {
    body: String,
}

/// Where a text stands with regard to its point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Chart {
    pub(crate) fn new() -> Self {
        Self { body: String::new() }
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (coordinate(x), coordinate(y), escape(text));
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        );
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"
        );
    }

    /// A shape; without any point it is left out.
    pub(crate) fn path(&mut self, path: &Path, class: &str) {
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{}\"/>", path.data);
        }
    }

    /// A shape that says what it is when pointed at.
    pub(crate) fn titled_path(&mut self, path: &Path, class: &str, title: &str) {
        if !path.is_empty() {
            let (data, title) = (&path.data, escape(title));
            let _ = writeln!(
                self.body,
                "<path class=\"{class}\" d=\"{data}\"><title>{title}</title></path>"
            );
        }
    }

    /// The finished chart: a figure, named for who cannot see it, with a caption.
    pub(crate) fn finish(self, numbers: &mut Numbers, height: f64, words: &Words<'_>) -> String {
        let (number, height, width) = (numbers.next(), coordinate(height), coordinate(WIDTH));
        let (title, description, caption) = (escape(words.title), escape(words.description), escape(words.caption));
        format!(
            "<figure>\n<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"t{number} d{number}\">\n\
             <title id=\"t{number}\">{title}</title>\n<desc id=\"d{number}\">{description}</desc>\n{}</svg>\n\
             <figcaption><b>{title}.</b> {caption}</figcaption>\n</figure>\n",
            self.body
        )
    }
}

/// What is said of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    /// What it shows, without a full stop.
    pub(crate) title: &'a str,
    /// For who cannot see it: what is to be seen.
    pub(crate) description: &'a str,
    /// How to read it.
    pub(crate) caption: &'a str,
}

/// The outline of a shape, or of many shapes of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    data: String,
}

impl Path {
    pub(crate) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let [x, y, width, height, back] = [x, y, width, height, -width].map(coordinate);
        let _ = write!(self.data, "M{x} {y}h{width}v{height}h{back}z");
    }

    /// A cross around a point.
    pub(crate) fn cross(&mut self, x: f64, y: f64, size: f64) {
        let [left, top, across, back] = [x - size, y - size, 2.0 * size, -2.0 * size].map(coordinate);
        let _ = write!(self.data, "M{left} {top}l{across} {across}m{back} 0l{across} {back}");
    }

    pub(crate) fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.data, "M{} {}", coordinate(x), coordinate(y));
    }

    pub(crate) fn line_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.data, "L{} {}", coordinate(x), coordinate(y));
    }

    pub(crate) fn across_to(&mut self, x: f64) {
        let _ = write!(self.data, "H{}", coordinate(x));
    }

    pub(crate) fn down_to(&mut self, y: f64) {
        let _ = write!(self.data, "V{}", coordinate(y));
    }

    pub(crate) fn close(&mut self) {
        self.data.push('z');
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
}

/// A part of the time of a run, and where it is on the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    /// A window is at least a nanosecond long.
    pub(crate) fn new(from: u64, to: u64) -> Self {
        let from = from.min(u64::MAX - 1);
        Self {
            from,
            to: to.max(from + 1),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Where a time is; what is outside is at the nearer edge.
    pub(crate) fn x(&self, at: u64) -> f64 {
        let offset = at.clamp(self.from, self.to) - self.from;
        LEFT + ratio(offset, self.length()) * (RIGHT - LEFT)
    }

    /// The part of an interval that lies inside, if any does.
    pub(crate) fn clip(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }

    pub(crate) fn contains(&self, at: u64) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// Marks of the time, from `top` down to `bottom`, numbered beneath.
    pub(crate) fn axis(&self, chart: &mut Chart, top: f64, bottom: f64) {
        let step = number::step(self.length(), 10);
        let mut at = self.from.checked_next_multiple_of(step).unwrap_or(u64::MAX);
        while at <= self.to {
            let x = self.x(at);
            chart.line((x, top), (x, bottom), "grid");
            chart.text(
                x,
                bottom + 14.0,
                Anchor::Middle,
                "tick",
                &number::tick(at, step, self.to),
            );
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        chart.line((LEFT, bottom), (RIGHT, bottom), "axis");
    }
}

/// An upright axis from 0 to `most` between two heights, marked at a few round numbers.
pub(crate) fn upright(chart: &mut Chart, most: u64, top: f64, bottom: f64) {
    let step = number::step(most, 4);
    let mut at = 0;
    while at <= most {
        let y = bottom - (bottom - top) * ratio(at, most);
        chart.line((LEFT - 4.0, y), (LEFT, y), "axis");
        chart.text(LEFT - 7.0, y + 4.0, Anchor::End, "tick", &number::grouped(at));
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_clips_and_scales() {
        let window = Window::new(100, 300);
        assert_eq!((window.x(0), window.x(100), window.x(300)), (LEFT, LEFT, RIGHT));
        assert_eq!(window.x(200), (LEFT + RIGHT) / 2.0);
        assert_eq!(window.clip(0, 150), Some((100, 150)));
        assert_eq!(window.clip(0, 100), None);
        assert_eq!(Window::new(5, 5).length(), 1);
        assert_eq!(Window::new(u64::MAX, 0).length(), 1);
    }

    #[test]
    fn axes_end() {
        for window in [
            Window::new(0, 1),
            Window::new(0, u64::MAX),
            Window::new(u64::MAX, u64::MAX),
        ] {
            let mut chart = Chart::new();
            window.axis(&mut chart, 0.0, 10.0);
            upright(&mut chart, window.to, 0.0, 10.0);
            assert!(chart.body.lines().count() < 60);
        }
    }
}
