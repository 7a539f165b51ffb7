//! Frames over time, stacked.

use freehold_scenario::recording::{ReservationSample, Sample};

use crate::number::{self, ratio};
use crate::svg::{Chart, LEFT, Numbers, Path, RIGHT, Window, Words, upright};

/// A layer: its name, its class, and what it reads.
pub(crate) type Layer = (&'static str, &'static str, fn(&ReservationSample) -> u64);

/// The lists of a reservation: they sum to its capacity and what it borrowed.
pub(crate) const LISTS: [Layer; 6] = [
    ("active", "active", |of| of.active),
    ("inactive", "inactive", |of| of.inactive),
    ("locked", "locked", |of| of.locked),
    ("in flight", "flight", |of| of.in_flight),
    ("owed", "owed", |of| of.owed),
    ("free", "free", |of| of.free),
];

/// What a reservation holds its frames for: they sum to the frames it holds.
pub(crate) const FRAMES: [Layer; 4] = [
    ("owned", "owned", |of| of.owned),
    ("conserved", "conserved", |of| of.conserved),
    ("in flight", "flight", |of| of.in_flight),
    ("free", "free", |of| of.free),
];

/// What to draw.
#[derive(Debug)]
pub(crate) struct Areas<'a> {
    pub(crate) title: String,
    pub(crate) samples: &'a [Sample],
    /// The reservation.
    pub(crate) position: usize,
    pub(crate) layers: &'a [Layer],
    pub(crate) capacity: u64,
    pub(crate) window: Window,
    /// The top of the scale, where other charts are beside this one.
    pub(crate) most: u64,
    /// At most so many samples are drawn.
    pub(crate) columns: usize,
}

const TOP: f64 = 6.0;
const BOTTOM: f64 = 130.0;

/// The largest sum of these layers in any sample.
pub(crate) fn largest(samples: &[Sample], position: usize, layers: &[Layer]) -> u64 {
    let sums = samples
        .iter()
        .filter_map(|sample| sample.reservations.get(position))
        .map(|of| sum(of, layers));
    sums.max().unwrap_or(0)
}

fn sum(of: &ReservationSample, layers: &[Layer]) -> u64 {
    layers.iter().fold(0, |sum, (_, _, read)| sum.saturating_add(read(of)))
}

impl Areas<'_> {
    /// The chart as a figure of the page.
    pub(crate) fn draw(&self, numbers: &mut Numbers) -> String {
        let mut chart = Chart::new();
        let most = self.most.max(self.capacity).max(1);
        let drawn = self.drawn();
        self.window.axis(&mut chart, TOP, BOTTOM);
        upright(&mut chart, most, TOP, BOTTOM);
        // From the topmost layer downwards, each from the base: what is beneath covers it.
        for (depth, (name, class, _)) in self.layers.iter().enumerate().rev() {
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

    /// The samples drawn: all, or every so many, the last one always.
    fn drawn(&self) -> Vec<(u64, &ReservationSample)> {
        let every = self.samples.len().div_ceil(self.columns.max(1)).max(1);
        let last = self.samples.len().saturating_sub(1);
        let chosen = self
            .samples
            .iter()
            .enumerate()
            .filter(|(at, _)| at % every == 0 || *at == last);
        let of = |sample: &Sample| sample.reservations.get(self.position).is_some();
        let chosen = chosen.filter(|(_, sample)| of(sample));
        chosen
            .map(|(_, sample)| (sample.at_ns, &sample.reservations[self.position]))
            .collect()
    }

    /// The outline of a layer and all beneath it, in steps from sample to sample. Empty where the layer is.
    fn outline(&self, drawn: &[(u64, &ReservationSample)], depth: usize, most: u64) -> Path {
        let mut path = Path::default();
        let read = self.layers[depth].2;
        let Some((first, _)) = drawn.first().filter(|_| drawn.iter().any(|(_, of)| read(of) > 0)) else {
            return path;
        };
        path.move_to(self.window.x(*first), BOTTOM);
        let mut before = BOTTOM;
        for (at, of) in drawn {
            let y = height(sum(of, &self.layers[..=depth]), most);
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
        let Some(last) = self
            .samples
            .last()
            .and_then(|sample| sample.reservations.get(self.position))
        else {
            return "Nothing was recorded.".to_owned();
        };
        let ends: Vec<String> = (self.layers.iter())
            .map(|(name, _, read)| {
                let samples = self
                    .samples
                    .iter()
                    .filter_map(|sample| sample.reservations.get(self.position));
                let most = samples.map(read).max().unwrap_or(0);
                format!("{name} {}, at most {most}", read(last))
            })
            .collect();
        format!("Capacity {} frames. At the end: {}.", self.capacity, ends.join("; "))
    }

    fn caption(&self, drawn: usize) -> String {
        let capacity = number::grouped(self.capacity);
        let mut caption = format!("In frames of 4 KiB; the dashed line is the capacity, {capacity}.");
        if drawn < self.samples.len() {
            caption.push_str(&format!(
                " Down-sampled: {drawn} of {} samples are drawn.",
                self.samples.len()
            ));
        }
        caption
    }
}

fn height(frames: u64, most: u64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * ratio(frames.min(most), most)
}
