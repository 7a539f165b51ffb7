//! What `freehold cache replay` prints.

use freehold_sim::replay::{Replayed, Times};
use serde::Serialize;
use std::fmt::Write;

/// The document of one replay. Counts are pages.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    asked: Asked,
    #[serde(flatten)]
    counted: Counted,
    utilisation: f64,
    utilisation_by_time: Option<f64>,
    allocations: Vec<Allocation>,
    refused: u64,
    choose_ns: Percentiles,
    bounds: Bounds,
    /// Of the static policy: the order of devices that misses least.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<String>>,
    wall_ns: u64,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Asked {
    pub(super) trace: String,
    pub(super) format: &'static str,
    pub(super) policy: &'static str,
    pub(super) placement: &'static str,
    pub(super) seed: u64,
    pub(super) page_cache_frames: u32,
    pub(super) cache_frames: u32,
}

/// What became of the pages.
#[derive(Debug, Serialize)]
struct Counted {
    rows: u64,
    accesses: u64,
    page_cache_hits: u64,
    victim_hits: u64,
    misses: u64,
    puts: u64,
    evicted: u64,
    flushed: u64,
    discarded: u64,
    discarded_wanted: u64,
    resident: u64,
}

impl From<&Replayed> for Counted {
    fn from(replayed: &Replayed) -> Self {
        let pages = &replayed.pages;
        Self {
            rows: replayed.rows,
            accesses: replayed.accesses,
            page_cache_hits: replayed.page_cache_hits,
            victim_hits: pages.hits,
            misses: replayed.misses,
            puts: pages.puts,
            evicted: pages.evicted,
            flushed: pages.flushed,
            discarded: pages.discarded,
            discarded_wanted: replayed.discarded_wanted,
            resident: replayed.resident,
        }
    }
}

#[derive(Debug, Serialize)]
struct Allocation {
    row: u64,
    device: String,
    first: u32,
    pages: u32,
    candidates: u32,
    discarded: u32,
    cost: u64,
    choose_ns: u64,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p50: u64,
    p99: u64,
    max: u64,
}

impl From<Times> for Percentiles {
    fn from(Times { p50, p99, max }: Times) -> Self {
        Self { p50, p99, max }
    }
}

#[derive(Debug, Serialize)]
struct Bounds {
    distinct: u64,
    no_device_misses: u64,
    /// Misses of the policy `optimal`, where that was replayed. It is greedy: others may miss less.
    optimal_misses: Option<u64>,
}

impl Document {
    /// `devices`: their names.
    pub(super) fn new(asked: Asked, devices: &[String], replayed: Replayed) -> Self {
        let name = |device: usize| devices.get(device).cloned().unwrap_or_default();
        let optimal = (asked.policy == "optimal").then_some(replayed.misses);
        Self {
            counted: Counted::from(&replayed),
            utilisation: replayed.utilisation.by_access,
            utilisation_by_time: replayed.utilisation.by_time,
            allocations: replayed
                .allocations
                .iter()
                .map(|open| Allocation {
                    row: open.row,
                    device: name(open.device),
                    first: open.first,
                    pages: open.pages,
                    candidates: open.candidates,
                    discarded: open.discarded,
                    cost: open.cost,
                    choose_ns: open.choose_ns,
                })
                .collect(),
            refused: replayed.refused,
            choose_ns: replayed.choose.into(),
            bounds: Bounds {
                distinct: replayed.bounds.distinct,
                no_device_misses: replayed.bounds.no_device_misses,
                optimal_misses: optimal,
            },
            order: replayed.order.map(|order| order.into_iter().map(name).collect()),
            wall_ns: replayed.wall_ns,
            asked,
        }
    }

    /// For a person.
    pub(super) fn to_text(&self) -> String {
        let (asked, counted) = (&self.asked, &self.counted);
        let mut text = String::new();
        let mut line = |what: &str, count: u64, of: u64, note: &str| {
            let share = if of == 0 { 0.0 } else { 100.0 * ratio(count, of) };
            let _ = writeln!(text, "  {what:<28}{count:>12}  {share:>5.1} %{note}");
        };
        line("page-cache hits", counted.page_cache_hits, counted.accesses, "");
        line("victim-cache hits", counted.victim_hits, counted.accesses, "");
        line("misses (pages read)", counted.misses, counted.accesses, "");
        line(
            "  displaced by a device",
            counted.discarded_wanted,
            counted.accesses,
            "",
        );
        let without = counted.accesses.saturating_sub(counted.page_cache_hits);
        let cut = without.saturating_sub(counted.misses);
        line(
            "read I/O cut",
            cut,
            without,
            " of what is read without the victim cache",
        );
        let best = without.saturating_sub(self.bounds.no_device_misses);
        line("  if no device ever opened", best, without, "");
        line(
            "  with an infinite cache",
            without.saturating_sub(self.bounds.distinct),
            without,
            "",
        );
        let _ = writeln!(
            text,
            "  opens {}, refused {}; pages displaced {}; mean use of the cache {:.1} %",
            self.allocations.len(),
            self.refused,
            counted.discarded,
            100.0 * self.utilisation
        );
        format!(
            "{}: {} accesses, page cache {} frames, victim cache {} frames, policy {}, placement {}\n{text}",
            asked.trace, counted.accesses, asked.page_cache_frames, asked.cache_frames, asked.policy, asked.placement
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share for reading")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
