//! Replays against plain vectors, and traces that are wrong.

use freehold_core::units::FrameCount;
use freehold_core::victim_cache::Placement;
use freehold_sim::replay::{Choice, Columns, Deletes, Event, Format, ReplayError, Replayed, Row, Setup, read_trace};

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn setup(page_cache: u32, cache: u32, devices: &[u32], choice: Choice) -> Setup {
    Setup {
        page_cache: FrameCount::new(page_cache),
        cache: FrameCount::new(cache),
        devices: (0..)
            .zip(devices)
            .map(|(at, size)| (format!("d{at}"), FrameCount::new(*size)))
            .collect(),
        choice,
        placement: Placement::Safe,
        seed: 1,
        deletes: Deletes::Evictions,
    }
}

/// A trace of one-page accesses in which some pages are used often.
fn accesses(seed: u64, rows: usize, pages: u64) -> String {
    let mut state = seed;
    let mut text = "t_us,app,kind,dev,ino,page,npages\n".to_owned();
    for at in 0..rows {
        let wide = next(&mut state).is_multiple_of(3);
        let page = next(&mut state) % if wide { pages } else { pages / 8 };
        text += &format!("{at},x,F,1:0,{},{},1\n", page % 5, page / 5);
    }
    text
}

fn own(text: &str, devices: &[&str]) -> Result<Vec<Row>, String> {
    let names: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
    read_trace(text.as_bytes(), &Format::Freehold, &names).map_err(|error| error.to_string())
}

fn replay(rows: &[Row], setup: &Setup, clock: &mut dyn FnMut() -> u64) -> Result<Replayed, ReplayError> {
    freehold_sim::replay::replay(&rows.iter().copied().collect(), setup, clock)
}

/// Hits of one LRU list, by a plain vector.
fn lru_hits(rows: &[Row], frames: usize) -> u64 {
    let (mut list, mut hits) = (Vec::new(), 0);
    for row in rows {
        let Event::Access(pages) = row.event else { continue };
        let key = (pages.file, pages.first);
        if let Some(at) = list.iter().position(|found| *found == key) {
            list.remove(at);
            hits += 1;
        } else if list.len() == frames {
            list.remove(0);
        }
        list.push(key);
    }
    hits
}

#[test]
fn without_devices_two_tiers_are_one_lru_list() {
    for seed in 0..8 {
        let rows = own(&accesses(seed, 6000, 400), &[]).unwrap();
        for (page_cache, cache) in [(1, 1), (20, 45), (64, 64), (100, 300), (50, 0)] {
            let found = replay(&rows, &setup(page_cache, cache, &[], Choice::Lru), &mut || 0).unwrap();
            let (first, both) = (
                lru_hits(&rows, page_cache as usize),
                lru_hits(&rows, (page_cache + cache) as usize),
            );
            assert_eq!(found.page_cache_hits, first, "seed {seed}, {page_cache} + {cache}");
            assert_eq!(found.pages.hits, both - first);
            assert_eq!(found.misses, found.accesses - both);
            assert_eq!(found.bounds.no_device_misses, found.misses);
            let gone = found.pages.hits + found.pages.evicted + found.pages.flushed + found.pages.discarded;
            assert_eq!(found.pages.puts, gone + found.resident);
        }
    }
}

/// Devices that open and close now and then.
fn with_devices(seed: u64) -> String {
    let mut state = seed ^ 0x55;
    let mut open = [false; 3];
    let mut text = String::new();
    for (at, line) in accesses(seed, 8000, 400).lines().enumerate() {
        text += line;
        text.push('\n');
        if at > 0 && next(&mut state).is_multiple_of(40) {
            let device = usize::try_from(next(&mut state) % 3).expect("below 3");
            let sign = if open[device] { '-' } else { '+' };
            open[device] = !open[device];
            text += &format!("{at},d{device},{sign},0:0,0,0,0\n");
        }
    }
    text
}

#[test]
fn every_policy_counts_what_it_displaces_and_optimal_displaces_least() {
    let mut misses = std::collections::BTreeMap::new();
    for seed in 0..6 {
        let rows = own(&with_devices(seed), &["d0", "d1", "d2"]).unwrap();
        for (name, choice) in [
            ("lru", Choice::Lru),
            ("exact", Choice::LruExact),
            ("count", Choice::Count),
            ("random", Choice::Random),
            ("static", Choice::Static),
            ("optimal", Choice::Optimal),
        ] {
            let found = replay(&rows, &setup(40, 90, &[36, 34, 20], choice), &mut || 0).unwrap();
            assert_eq!(found.refused, 0, "{name}");
            assert_eq!(found.accesses, found.page_cache_hits + found.pages.hits + found.misses);
            let displaced: u64 = found.allocations.iter().map(|open| u64::from(open.discarded)).sum();
            assert_eq!(displaced, found.pages.discarded);
            assert!(found.discarded_wanted <= found.pages.discarded && found.misses >= found.bounds.no_device_misses);
            assert!(found.allocations.len() > 50 && found.discarded_wanted > 0);
            *misses.entry(name).or_insert(0) += found.misses;
        }
    }
    assert!(
        misses["optimal"] <= misses["random"] && misses["lru"] <= misses["random"],
        "{misses:?}"
    );
}

#[test]
fn deletions_flush_only_where_they_are_meant() {
    let text = "0,x,F,1:0,7,0,4\n1,x,D,1:0,7,1,1\n2,x,F,1:0,7,0,4\n";
    let rows = own(text, &[]).unwrap();
    let mut setup = setup(2, 8, &[], Choice::Lru);
    let kept = replay(&rows, &setup, &mut || 0).unwrap();
    setup.deletes = Deletes::Flush;
    let flushed = replay(&rows, &setup, &mut || 0).unwrap();
    assert_eq!((kept.misses, flushed.misses), (4, 5));
}

#[test]
fn the_paper_s_placement_refuses_and_counts_it() {
    // Figure 4's sizes; places are drawn so that sooner or later a device is stranded.
    let mut state = 3;
    let (mut open, mut text) = ([false; 3], String::new());
    for at in 0..600 {
        let device = usize::try_from(next(&mut state) % 3).unwrap();
        let sign = if open[device] { '-' } else { '+' };
        open[device] = !open[device];
        text += &format!("{at},d{device},{sign},0:0,0,0,0\n");
    }
    let rows = own(&text, &["d0", "d1", "d2"]).unwrap();
    let mut setup = setup(1, 13, &[6, 4, 3], Choice::Random);
    assert_eq!(replay(&rows, &setup, &mut || 0).unwrap().refused, 0);
    setup.placement = Placement::Paper;
    assert!(replay(&rows, &setup, &mut || 0).unwrap().refused > 0);
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_its_line() {
    for (text, expected) in [
        ("0,x,F,1:0,7,0\n", "line 1: has not the columns"),
        ("0,x,F,1:0,7,0,1\nx,x,F,1:0,7,0,1\n", "line 2: t_us `x` is no number"),
        (
            "0,x,F,1:0,7,0,1152921504606846976\n",
            "line 1: page and npages name no pages",
        ),
        ("0,x,F,1:0,7,4294967295,2\n", "line 1: page and npages name no pages"),
        ("0,x,F,1:0,7,0,0\n", "line 1: page and npages name no pages"),
        ("0,x,Z,1:0,7,0,1\n", "line 1: kind `Z` is unknown"),
        ("\n0,jpeg,+,0:0,0,0,0\n", "line 2: there is no device `jpeg`"),
    ] {
        let error = own(text, &["mfc"]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let twice = own("0,mfc,+,0:0,0,0,0\n1,mfc,+,0:0,0,0,0\n", &["mfc"]).unwrap();
    let mut setup = setup(1, 4, &[2], Choice::Lru);
    setup.devices[0].0 = "mfc".to_owned();
    let error = replay(&twice, &setup, &mut || 0).unwrap_err().to_string();
    assert!(
        error.starts_with("line 2: device `mfc`: the device is open already"),
        "{error}"
    );
    let closed = own("0,mfc,-,0:0,0,0,0\n", &["mfc"]).unwrap();
    assert!(
        replay(&closed, &setup, &mut || 0)
            .unwrap_err()
            .to_string()
            .starts_with("line 1: device `mfc`: the device is not open")
    );
}

#[test]
fn foreign_formats_are_read_as_their_owners_read_them() {
    let columns = Columns::parse("time=1,object=2,size=3,header").unwrap();
    let text = "t,id,size\n0.5,a,4096\n1,b,4097\n2,a,0\n3,a,1\n";
    let rows = read_trace(text.as_bytes(), &Format::LibCacheSimCsv(columns), &[]).unwrap();
    let pages: Vec<_> = rows.iter().map(|row| (row.time, row.event)).collect();
    assert_eq!(pages.len(), 3, "an object without bytes is passed over");
    assert!(matches!(pages[1], (Some(1_000_000), Event::Access(pages)) if pages.count == 2));
    assert!(matches!(pages[2].1, Event::Access(pages) if pages.file == 0));
    for wrong in ["", "time=1", "object=0", "object=1,delimiter=ab", "id=3"] {
        assert!(Columns::parse(wrong).is_err(), "{wrong}");
    }
    let mut records = Vec::new();
    for (time, object, size) in [(1_u32, 9_u64, 4096_u32), (2, 9, 0), (3, 10, 8192)] {
        records.extend(time.to_le_bytes());
        records.extend(object.to_le_bytes());
        records.extend(size.to_le_bytes());
        records.extend((-1_i64).to_le_bytes());
    }
    let format = |one_page| Format::OracleGeneral { one_page };
    let rows = read_trace(&records[..], &format(false), &[]).unwrap();
    assert!(matches!(rows[..], [_, Row { number: 3, event: Event::Access(pages), .. }] if pages.count == 2));
    let rows = read_trace(&records[..], &format(true), &[]).unwrap();
    assert!(matches!(rows[1].event, Event::Access(pages) if pages.count == 1));
    let cut = read_trace(&records[..70], &format(false), &[]).unwrap_err().to_string();
    assert!(cut.starts_with("line 3: the last record has 22 of 24 bytes"), "{cut}");
}

/// What each group used and read, by a plain list, with rows of groups at random places.
#[test]
fn accesses_after_a_mark_are_its_groups() {
    for seed in 0..8 {
        let mut state = seed + 100;
        let mut rows = Vec::new();
        for row in own(&accesses(seed, 2000, 200), &[]).unwrap() {
            if next(&mut state).is_multiple_of(7) {
                let group = usize::try_from(next(&mut state) % 4).unwrap();
                let event = Event::Mark { group };
                rows.push(Row { event, ..row });
            }
            rows.push(row);
        }
        let (mut list, mut expected, mut group) = (Vec::new(), [(0, 0, 0); 4], None);
        for row in &rows {
            match row.event {
                Event::Mark { group: next } => {
                    expected[next].0 += 1;
                    group = Some(next);
                }
                Event::Access(pages) => {
                    let key = (pages.file, pages.first);
                    let known = list.iter().position(|found| *found == key);
                    let counts = group.map(|group: usize| &mut expected[group]);
                    if let Some(counts) = counts {
                        counts.1 += 1;
                        counts.2 += u64::from(known.is_none());
                    }
                    match known {
                        Some(at) => drop(list.remove(at)),
                        None if list.len() == 60 => drop(list.remove(0)),
                        None => {}
                    }
                    list.push(key);
                }
                _ => {}
            }
        }
        let found = replay(&rows, &setup(20, 40, &[], Choice::Lru), &mut || 0).unwrap();
        let groups = found
            .groups
            .iter()
            .map(|group| (group.begun, group.accesses, group.misses));
        assert!(
            groups.eq(expected),
            "seed {seed}: {:?}, expected {expected:?}",
            found.groups
        );
    }
}
