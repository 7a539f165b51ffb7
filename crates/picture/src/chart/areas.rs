//! Frames over time, stacked.

use freehold_report::reservation::ReservationCounts;
use freehold_scenario::recording::Sample;

use crate::number::{self, ratio};
use crate::svg::{Chart, LEFT, Numbers, Path, RIGHT, Window, Words, upright};

/// A layer: its name, its class, and what it reads.
pub(crate) type Layer = (&'static str, &'static str, fn(&ReservationCounts) -> u64);

/// The lists of a reservation: they sum to its capacity and what it borrowed.
pub(crate) const LISTS: [Layer; 6] = [
    ("active", "active", |of| of.lists.active),
    ("inactive", "inactive", |of| of.lists.inactive),
    ("locked", "locked", |of| of.lists.locked),
    ("in flight", "flight", |of| of.lists.in_flight),
    ("owed", "owed", |of| of.lists.owed),
    ("free", "free", |of| of.lists.free),
];

/// What a reservation holds its frames for: they sum to the frames it holds.
pub(crate) const FRAMES: [Layer; 4] = [
    ("owned", "owned", |of| of.frames.owned),
    ("conserved", "conserved", |of| of.frames.conserved),
    ("in flight", "flight", |of| of.lists.in_flight),
    ("free", "free", |of| of.lists.free),
];

/// The values of all layers at one time.
pub(crate) type Point = (u64, Vec<u64>);

/// What to draw.
#[derive(Debug)]
pub(crate) struct Areas {
    pub(crate) title: String,
    /// Names and classes, from the bottom.
    pub(crate) layers: Vec<(&'static str, &'static str)>,
    pub(crate) points: Vec<Point>,
    pub(crate) capacity: u64,
    pub(crate) window: Window,
    /// The top of the scale, where other charts are beside this one.
    pub(crate) most: u64,
    /// At most so many points are drawn.
    pub(crate) columns: usize,
}

const TOP: f64 = 6.0;
const BOTTOM: f64 = 130.0;

/// The layers of the reservation at this position, at every sample that knows it.
pub(crate) fn of_reservation(samples: &[Sample], position: usize, layers: &[Layer]) -> Vec<Point> {
    let known = samples.iter().filter_map(|sample| {
        let of = sample.reservations.get(position)?;
        Some((sample.at_ns, layers.iter().map(|(_, _, read)| read(of)).collect()))
    });
    known.collect()
}

/// The pool: frames used, and frames free.
pub(crate) fn of_pool(samples: &[Sample]) -> Vec<Point> {
    let of = |sample: &Sample| (sample.at_ns, vec![sample.pool_used, sample.pool_free]);
    samples.iter().map(of).collect()
}

/// The largest sum of all layers.
pub(crate) fn largest(points: &[Point]) -> u64 {
    points.iter().map(|(_, values)| sum(values)).max().unwrap_or(0)
}

fn sum(values: &[u64]) -> u64 {
    number::total(values.iter().copied())
}

impl Areas {
    /// The chart as a figure of the page.
    pub(crate) fn draw(&self, numbers: &mut Numbers) -> String {
        let mut chart = Chart::new();
        let most = self.most.max(self.capacity).max(largest(&self.points)).max(1);
        let drawn = self.drawn();
        self.window.axis(&mut chart, TOP, BOTTOM);
        upright(&mut chart, most, TOP, BOTTOM);
        // From the topmost layer downwards, each from the base: what is beneath covers it.
        for (depth, (name, class)) in self.layers.iter().enumerate().rev() {
            let outline = self.outline(&drawn, depth, most);
            chart.titled_path(&outline, class, name);
        }
        let y = height(self.capacity, most);
        chart.line((LEFT, y), (RIGHT, y), "capacity");
        let words = Words {
            title: &self.title,
            description: &self.description(),
            caption: &self.caption(drawn.len()),
        };
        chart.finish(numbers, BOTTOM + 20.0, &words)
    }

    /// The points drawn: all, or every so many, the last one always.
    fn drawn(&self) -> Vec<&Point> {
        let every = self.points.len().div_ceil(self.columns.max(1)).max(1);
        let last = self.points.len().saturating_sub(1);
        let chosen = self.points.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| at.is_multiple_of(every) || *at == last);
        chosen.map(|(_, point)| point).collect()
    }

    /// The outline of a layer and all beneath it, in steps from point to point. Empty where the layer is.
    fn outline(&self, drawn: &[&Point], depth: usize, most: u64) -> Path {
        let mut path = Path::default();
        let value = |point: &Point| point.1.get(depth).copied().unwrap_or(0);
        let Some((first, _)) = drawn.first().filter(|_| drawn.iter().any(|point| value(point) > 0)) else {
            return path;
        };
        path.move_to(self.window.x(*first), BOTTOM);
        let mut before = BOTTOM;
        for (at, values) in drawn {
            let y = height(sum(values.get(..=depth).unwrap_or(values)), most);
            if (y - before).abs() >= 0.05 {
                path.across_to(self.window.x(*at));
                path.down_to(y);
                before = y;
            }
        }
        path.across_to(self.window.x(drawn.last().map_or(*first, |(at, _)| *at)));
        path.down_to(BOTTOM);
        path.close();
        path
    }

    fn description(&self) -> String {
        let Some((_, last)) = self.points.last() else {
            return "Nothing was recorded.".to_owned();
        };
        let layers = self.layers.iter().zip(last).enumerate();
        let ends = layers.map(|(depth, ((name, _), end))| {
            let values = self.points.iter().filter_map(|(_, values)| values.get(depth));
            format!("{name} {end}, at most {}", values.max().unwrap_or(&0))
        });
        let ends: Vec<String> = ends.collect();
        format!("Capacity {} frames. At the end: {}.", self.capacity, ends.join("; "))
    }

    fn caption(&self, drawn: usize) -> String {
        let capacity = number::grouped(self.capacity);
        let mut caption = format!("In frames of 4 KiB; the dashed line is the capacity, {capacity}.");
        if drawn < self.points.len() {
            caption.push_str(&format!(
                " Down-sampled: {drawn} of {} samples are drawn.",
                self.points.len()
            ));
        }
        caption
    }
}

fn height(frames: u64, most: u64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * ratio(frames.min(most), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn areas(points: Vec<Point>, columns: usize) -> Areas {
        Areas {
            title: "test".to_owned(),
            layers: vec![("used", "active"), ("free", "free")],
            points,
            capacity: 10,
            window: Window::new(0, 9),
            most: 0,
            columns,
        }
    }

    #[test]
    fn layers_are_stacked_in_steps() {
        let areas = areas(vec![(0, vec![0, 10]), (3, vec![5, 5]), (9, vec![5, 5])], 10);
        let drawn = areas.drawn();
        let mut expected = Path::default();
        expected.move_to(LEFT, BOTTOM);
        expected.across_to(areas.window.x(3));
        expected.down_to(height(5, 10));
        expected.across_to(RIGHT);
        expected.down_to(BOTTOM);
        expected.close();
        assert_eq!(format!("{:?}", areas.outline(&drawn, 0, 10)), format!("{expected:?}"));
        assert!(areas.description().contains("used 5, at most 5; free 5, at most 10"));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let areas = areas((0..100).map(|at| (at, vec![at, 0])).collect(), 10);
        let drawn = areas.drawn();
        assert_eq!((drawn.len(), drawn[0].0, drawn[drawn.len() - 1].0), (11, 0, 99));
        assert!(areas.caption(drawn.len()).contains("11 of 100 samples"));
        // A layer that is always empty has no shape.
        assert!(areas.outline(&drawn, 1, 100).is_empty());
    }
}
