//! The result, as `freehold latency --json` prints it, as its columns, and as a histogram file.

use std::fmt::{self, Write};

use serde::Serialize;

pub use crate::causes::Cause;
use crate::settings::Settings;
use crate::tally::Tally;

/// Microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
    /// 99 of a hundred are below.
    pub p99: f64,
    /// 999 of a thousand are below.
    pub p999: f64,
    /// The worst.
    pub max: f64,
}

impl Percentiles {
    /// The median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.p50
    }

    /// What nine of ten are below.
    #[must_use]
    pub fn ninth(&self) -> f64 {
        self.p90
    }
}

/// A late wake-up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outlier {
    /// How late, in microseconds.
    pub us: f64,
    /// Why.
    pub cause: Cause,
}

/// One distribution.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `shared` or `separate`.
    pub space: &'static str,
    /// As the option names it.
    pub load: &'static str,
    /// Where on its way the wake-up was seen: `irq`, `hrtimer`, `waking`, `switch`, or `thread`, its first instruction.
    pub level: &'static str,
    /// The program that measured, where it was not this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<&'static str>,
    /// How many wake-ups.
    pub wakeups: u64,
    /// How late, in microseconds.
    pub us: Percentiles,
    /// Wake-ups later than the histogram's bound.
    pub overflow: u64,
    /// The latest of 100 us and more, and why.
    pub outliers: Vec<Outlier>,
    /// Page faults of any kind of the thread between its first wake-up and its last.
    pub faults: u64,
    #[serde(skip)]
    columns: [u64; 4],
    #[serde(skip)]
    histogram: Vec<u64>,
}

impl Row {
    pub(crate) fn new([space, load, level]: [&'static str; 3], peer: Option<&'static str>, tally: &Tally) -> Self {
        Self {
            space,
            load,
            level,
            peer,
            wakeups: tally.wakeups(),
            us: tally.percentiles(),
            overflow: tally.overflow(),
            outliers: tally.outliers().to_vec(),
            faults: tally.faults(),
            columns: tally.columns(),
            histogram: tally.histogram().to_vec(),
        }
    }
}

/// Gaps of a thread that only reads the clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NoiseFloor {
    /// Those longer than a microsecond.
    pub us: Percentiles,
    /// How many there are in a second.
    pub gaps_in_a_second: u64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The thread's.
    pub priority: u32,
    /// Microseconds between two wake-ups, or a range.
    pub interval_us: String,
    /// Where all of it ran.
    pub cpu: usize,
    /// Whether CPUs were kept from deep sleep: `held`, `absent`, or why not.
    pub cpu_dma_latency: String,
    /// What the machine itself takes away.
    pub noise_floor: NoiseFloor,
    /// Levels that were asked for and could not be had.
    pub unavailable: Vec<String>,
    /// The distributions.
    pub rows: Vec<Row>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "# /dev/cpu_dma_latency: {}", self.cpu_dma_latency)?;
        let floor = &self.noise_floor;
        let (us, often) = (&floor.us, floor.gaps_in_a_second);
        writeln!(
            formatter,
            "# noise floor (us): gaps of {:.1} at the median, {:.1} at most, {often} in a second",
            us.p50, us.max
        )?;
        for missing in &self.unavailable {
            writeln!(formatter, "# not to be had: {missing}")?;
        }
        for (number, row) in self.rows.iter().enumerate() {
            let [least, last, mean, most] = row.columns;
            let (priority, interval, count) = (self.priority, &self.interval_us, row.wakeups);
            write!(
                formatter,
                "T:{number:2} P:{priority:2} I:{interval} C:{count:7} Min:{least:7} Act:{last:5} Avg:{mean:5} \
                 Max:{most:8}"
            )?;
            let (space, load, level) = (row.space, row.load, row.level);
            let (us, faults) = (&row.us, row.faults);
            write!(formatter, "  {space:8} {load:12} {level:7}")?;
            write!(
                formatter,
                " p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} us",
                us.p50, us.p90, us.p99, us.p999
            )?;
            match row.peer {
                Some(peer) => writeln!(formatter, "  by {peer}")?,
                None => writeln!(formatter, "  {faults} faults")?,
            }
        }
        Ok(())
    }
}

impl Report {
    /// A histogram file as `cyclictest --histfile` writes it: a line for each microsecond, a column for each row.
    #[must_use]
    pub fn histogram_file(&self, settings: &Settings) -> String {
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let peer = row.peer.unwrap_or("freehold");
            let _ = writeln!(text, "# T:{number} {} {} {} {peer}", row.space, row.load, row.level);
        }
        text.push_str("# Histogram\n");
        for micros in 0..usize::try_from(settings.bound).unwrap_or(0) {
            let _ = write!(text, "{micros:06}");
            for row in &self.rows {
                let _ = write!(text, "\t{:06}", row.histogram.get(micros).unwrap_or(&0));
            }
            text.push('\n');
        }
        let mut line = |name: &str, of: &dyn Fn(&Row) -> u64| {
            let _ = write!(text, "# {name}:");
            for row in &self.rows {
                let _ = write!(text, " {:05}", of(row));
            }
            text.push('\n');
        };
        line("Total", &|row| row.wakeups.saturating_sub(row.overflow));
        line("Min Latencies", &|row| row.columns[0]);
        line("Avg Latencies", &|row| row.columns[2]);
        line("Max Latencies", &|row| row.columns[3]);
        line("Histogram Overflows", &|row| row.overflow);
        text
    }
}
