//! Any bytes as a trace of file pages: they are refused with a place and a reason, or replayed with every page counted.

use freehold_core::units::FrameCount;
use freehold_core::victim_cache::Placement;
use freehold_sim::replay::{Choice, Columns, Deletes, Event, Format, Row, Setup, Trace, read_trace, replay};

/// Traces of more accesses are read only.
const MOST: u64 = 20_000;
const DEVICES: [(&str, u32); 3] = [("a", 6), ("b", 4), ("c", 3)];

/// Reads the bytes as the format that the first one names, and replays what they say. Returns whether they were a
/// trace.
pub(crate) fn run(bytes: &[u8]) -> bool {
    let Some((first, bytes)) = bytes.split_first() else {
        return false;
    };
    let names: Vec<String> = DEVICES.iter().map(|(name, _)| (*name).to_owned()).collect();
    match read_trace(bytes, &format(*first), &names) {
        Ok(rows) => {
            check(&rows, *first);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn format(first: u8) -> Format {
    let columns = |text| Columns::parse(text).expect("these are columns");
    match first % 5 {
        0 | 1 => Format::Freehold,
        2 => Format::LibCacheSimCsv(columns("time=1,object=2,size=3")),
        3 => Format::LibCacheSimCsv(columns("object=1,numeric,header")),
        _ => Format::OracleGeneral { one_page: first >= 128 },
    }
}

fn check(rows: &[Row], first: u8) {
    let pages = rows.iter().map(|row| match row.event {
        Event::Access(pages) | Event::Delete(pages) => u64::from(pages.count),
        _ => 0,
    });
    if pages.sum::<u64>() > MOST {
        return;
    }
    let choices = [
        Choice::Lru,
        Choice::LruExact,
        Choice::Count,
        Choice::Random,
        Choice::Static,
        Choice::Optimal,
    ];
    let setup = Setup {
        page_cache: FrameCount::new(5),
        cache: FrameCount::new(13),
        devices: DEVICES
            .map(|(name, size)| (name.to_owned(), FrameCount::new(size)))
            .into(),
        choice: choices[usize::from(first / 5) % choices.len()],
        placement: if first.is_multiple_of(2) {
            Placement::Safe
        } else {
            Placement::Paper
        },
        seed: 1,
        deletes: if first.is_multiple_of(3) {
            Deletes::Flush
        } else {
            Deletes::Evictions
        },
    };
    match replay(&rows.iter().copied().collect::<Trace>(), &setup, &mut || 0) {
        Ok(found) => {
            assert_eq!(found.accesses, found.page_cache_hits + found.pages.hits + found.misses);
            let gone = found.pages.hits + found.pages.evicted + found.pages.flushed + found.pages.discarded;
            assert_eq!(found.pages.puts, gone + found.resident);
            assert!(setup.placement == Placement::Paper || found.refused == 0);
            assert!(found.misses >= found.bounds.distinct);
        }
        // It opens what is open, or closes what is closed.
        Err(error) => assert!(error.to_string().starts_with("line "), "{error}"),
    }
}
