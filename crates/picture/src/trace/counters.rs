//! Counters: every reservation's lists, the pool, the regions.

use freehold_report::reservation::Number;

use super::packet::{Packets, Track};
use crate::Run;

/// What does not change, and what follows from the others.
const NO_COUNTERS: [&str; 2] = ["capacity", "peak"];

pub(super) fn write(packets: &mut Packets, process: Track, run: &Run<'_>) {
    let samples = &run.recording.samples;
    if samples.is_empty() {
        return;
    }
    for (position, reservation) in run.result.reservations.iter().enumerate() {
        let parent = packets.track(process, &format!("lists of {}", reservation.name));
        for number in Number::shown().filter(|number| !NO_COUNTERS.contains(&number.name())) {
            let values = samples.iter().filter_map(|sample| {
                let of = sample.reservations.get(position)?;
                Some((sample.at_ns, number.of(of)))
            });
            let track = packets.counter(
                parent,
                &format!("{}: {}", reservation.name, number.label()),
                "frames",
                &reservation.name,
            );
            write_values(packets, track, values);
        }
    }
    let pool = packets.track(process, "pool");
    let used = packets.counter(pool, "used", "frames", "pool");
    write_values(
        packets,
        used,
        samples.iter().map(|sample| (sample.at_ns, sample.pool_used)),
    );
    let free = packets.counter(pool, "free", "frames", "pool");
    write_values(
        packets,
        free,
        samples.iter().map(|sample| (sample.at_ns, sample.pool_free)),
    );
    let regions = packets.track(process, "resident pages");
    for (position, region) in run.result.regions.iter().enumerate() {
        let values = samples.iter().filter_map(|sample| {
            let resident = sample.regions_resident.get(position)?;
            Some((sample.at_ns, *resident))
        });
        let track = packets.counter(regions, &format!("{}: resident", region.name), "pages", "regions");
        write_values(packets, track, values);
    }
}

/// The first value, each that differs from the one before, and the last.
fn write_values(packets: &mut Packets, track: Track, values: impl Iterator<Item = (u64, u64)>) {
    let mut written: Option<(u64, u64)> = None;
    let mut last = None;
    for (at, value) in values {
        if written.is_none_or(|(_, before)| before != value) {
            packets.value(at, track, value);
            written = Some((at, value));
        }
        last = Some((at, value));
    }
    if let Some((at, value)) = last.filter(|last| Some(*last) != written) {
        packets.value(at, track, value);
    }
}
