//! What went on at the store: pages read, pages written, pages evicted, over time.

use freehold_scenario::recording::TransferKind;

use crate::Run;
use crate::number::{self, ratio};
use crate::svg::{Anchor, Chart, LEFT, Numbers, Path, RIGHT, Window, Words};

const COLUMNS: u64 = 265;
const ROW: f64 = 34.0;

/// Reads, writes and evictions of the run, a row each; nothing where there were none.
pub(crate) fn draw(run: &Run<'_>, window: Window, numbers: &mut Numbers) -> String {
    let recording = run.recording;
    let begun = |kind| {
        let transfers = recording.transfers.iter().filter(move |transfer| transfer.kind == kind);
        transfers.map(|transfer| transfer.from_ns)
    };
    let evicted = recording.evictions.iter().map(|eviction| eviction.at_ns);
    let rows = [
        ("pages read", "read", count(begun(TransferKind::Read), window)),
        ("pages written", "write", count(begun(TransferKind::Write), window)),
        ("evictions", "evicted", count(evicted, window)),
    ];
    if rows.iter().all(|(_, _, counts)| counts.iter().all(|count| *count == 0)) {
        return String::new();
    }
    let mut chart = Chart::new();
    let bottom = 4.0 + ROW * ratio(rows.len() as u64, 1);
    window.axis(&mut chart, 4.0, bottom);
    let width = (RIGHT - LEFT) / ratio(COLUMNS, 1);
    let mut ends = Vec::new();
    for (at, (name, class, counts)) in rows.iter().enumerate() {
        let base = 4.0 + ROW * ratio(at as u64 + 1, 1);
        let most = counts.iter().copied().max().unwrap_or(0);
        let mut bars = Path::default();
        for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let height = ((ROW - 6.0) * ratio(*count, most)).max(0.5);
            bars.rectangle(LEFT + ratio(column as u64, 1) * width, base - height, width, height);
        }
        chart.path(&bars, class);
        chart.line((LEFT, base), (RIGHT, base), "axis");
        chart.text(4.0, base - 14.0, Anchor::Start, "name", name);
        chart.text(
            4.0,
            base - 2.0,
            Anchor::Start,
            "remark",
            &format!("highest {}", number::grouped(most)),
        );
        ends.push(format!("{name} {}", counts.iter().sum::<u64>()));
    }
    let column = number::time(window.length() / COLUMNS);
    let words = Words {
        title: "Store and evictions",
        description: &format!("Recorded: {}.", ends.join(", ")),
        caption: &format!(
            "Pages in each {column}, by when they were asked for; every row has a scale of its own.{}",
            missing(run)
        ),
    };
    chart.finish(numbers, bottom + 20.0, &words)
}

/// What is to be said where not every transfer found room.
fn missing(run: &Run<'_>) -> String {
    let recorded = run.recording.transfers.len() as u64;
    let counted = run.result.store.reads.saturating_add(run.result.store.writes);
    if recorded >= counted {
        return String::new();
    }
    let (recorded, counted) = (number::grouped(recorded), number::grouped(counted));
    format!(" Only the first {recorded} of {counted} transfers are recorded.")
}

fn count(times: impl Iterator<Item = u64>, window: Window) -> Vec<u64> {
    let mut counts = vec![0; usize::try_from(COLUMNS).unwrap_or(1)];
    let last = counts.len() - 1;
    for at in times.filter(|at| window.contains(*at)) {
        let column = u128::from(at - window.from) * u128::from(COLUMNS) / u128::from(window.length());
        counts[usize::try_from(column).unwrap_or(last).min(last)] += 1;
    }
    counts
}
