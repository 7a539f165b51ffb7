//! The trace, read back with a decoder of its own: tracks are described before they are used, slices nest, and there
//! are as many events as were recorded. The numbers of the fields are those of Perfetto's public definitions.

mod common;

use std::collections::BTreeMap;

use common::{EMPTY, NO_JOBS, NONE, Recorded, wild_recording};
use freehold_picture::trace;
use freehold_scenario::recording::FaultKind;
use freehold_sim::{Mix, random_scenario};
use proptest::prelude::*;

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (block, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(block)
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (first, rest) = bytes.split_first().expect("more bytes");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("an integer without end");
}

fn number(message: &[u8], field: u64) -> Option<u64> {
    fields(message).iter().find_map(|(found, value)| match value {
        Value::Number(number) if *found == field => Some(*number),
        _ => None,
    })
}

fn bytes(message: &[u8], field: u64) -> Option<&[u8]> {
    fields(message).iter().find_map(|(found, value)| match value {
        Value::Bytes(bytes) if *found == field => Some(*bytes),
        _ => None,
    })
}

fn text(message: &[u8], field: u64) -> Option<String> {
    bytes(message, field).map(|bytes| String::from_utf8(bytes.to_vec()).expect("a text"))
}

/// A track with what happened on it.
#[derive(Debug, Default)]
struct Track {
    path: String,
    counter: bool,
    /// Time, kind and name, by time and order of writing.
    events: Vec<(u64, u64, String)>,
    values: Vec<(u64, u64)>,
}

impl Track {
    fn slices(&self, name: &str) -> usize {
        self.events
            .iter()
            .filter(|(_, kind, found)| *kind == 1 && found.starts_with(name))
            .count()
    }

    fn instants(&self, name: &str) -> usize {
        self.events
            .iter()
            .filter(|(_, kind, found)| *kind == 3 && found == name)
            .count()
    }

    /// How deep slices are nested. Every one ends, and no time goes back.
    fn depth(&self) -> usize {
        let (mut open, mut deepest) = (0_usize, 0);
        for (_, kind, _) in &self.events {
            match kind {
                1 => open += 1,
                2 => open = open.checked_sub(1).expect("an end without a begin"),
                3 => {}
                other => panic!("kind {other}"),
            }
            deepest = deepest.max(open);
        }
        assert_eq!(open, 0, "{} has a slice without end", self.path);
        deepest
    }
}

/// The tracks of a trace by their path; that it is well formed is checked on the way.
fn tracks(trace: &[u8]) -> BTreeMap<String, Track> {
    let mut found: BTreeMap<u64, Track> = BTreeMap::new();
    for (field, packet) in fields(trace) {
        let (1, Value::Bytes(packet)) = (field, packet) else {
            panic!("not a packet: {field}");
        };
        assert_eq!(number(packet, 10), Some(1), "every packet names its writer");
        if let Some(descriptor) = bytes(packet, 60) {
            let uuid = number(descriptor, 1).expect("a number");
            let process = bytes(descriptor, 3).map(|process| text(process, 6).expect("a name of the process"));
            let name = process.or_else(|| text(descriptor, 2)).expect("a name");
            let parent = number(descriptor, 5).map(|parent| found[&parent].path.clone());
            let track = Track {
                path: parent.map_or(name.clone(), |parent| format!("{parent}/{name}")),
                counter: bytes(descriptor, 8).is_some(),
                ..Track::default()
            };
            assert!(
                uuid > 0 && found.insert(uuid, track).is_none(),
                "a number is used twice"
            );
            continue;
        }
        let event = bytes(packet, 11).expect("an event");
        let at = number(packet, 8).expect("a time");
        let track = found
            .get_mut(&number(event, 11).expect("a track"))
            .expect("a track described before");
        let kind = number(event, 9).expect("a kind");
        assert_eq!(track.counter, kind == 4, "{}", track.path);
        if kind == 4 {
            track.values.push((at, number(event, 30).expect("a value")));
        } else {
            track.events.push((at, kind, text(event, 23).unwrap_or_default()));
        }
    }
    let mut named = BTreeMap::new();
    for mut track in found.into_values() {
        let slices: Vec<u64> = (track.events.iter())
            .filter_map(|(at, kind, _)| (*kind < 3).then_some(*at))
            .collect();
        assert!(slices.is_sorted(), "slices of {} do not nest", track.path);
        // As who reads it does: by time, and what happens at one time in the order of writing.
        track.events.sort_by_key(|(at, ..)| *at);
        track.depth();
        let path = track.path.clone();
        assert!(named.insert(path.clone(), track).is_none(), "{path} twice");
    }
    named
}

fn check(recorded: &Recorded) -> BTreeMap<String, Track> {
    let tracks = tracks(&trace(&[recorded.run()]));
    let process = format!("{}: simulated", recorded.result.head.scenario);
    assert_eq!(tracks[&process].instants("run"), 1);
    for (task, of) in recorded.result.tasks.iter().zip(&recorded.recording.tasks) {
        let track = &tracks[&format!("{process}/{}", task.name)];
        assert_eq!(track.slices("job "), of.jobs.len());
        for kind in FaultKind::ALL {
            let recorded = of.faults.iter().filter(|fault| fault.kind == kind).count();
            assert_eq!(track.slices(kind.name()), recorded, "{}", kind.name());
        }
        assert_eq!(track.instants("deadline missed") as u64, task.misses);
        let states = &tracks[&format!("{process}/{}: state", task.name)];
        assert_eq!(states.slices(""), of.spans.len());
        assert!(states.depth() <= 1);
    }
    let of = |part: &str| -> Vec<&Track> {
        let begin = format!("{process}/{part}");
        let found = tracks.iter().filter(|(path, _)| path.starts_with(&begin));
        found.map(|(_, track)| track).collect()
    };
    let transfers: usize = of("store/").iter().map(|lane| lane.slices("")).sum();
    assert_eq!(transfers, recorded.recording.transfers.len());
    assert!(
        of("store/").iter().all(|lane| lane.depth() == 1),
        "transfers of a lane overlap"
    );
    let evictions: usize = of("evictions of ").iter().map(|track| track.events.len()).sum();
    assert_eq!(evictions, recorded.recording.evictions.len());
    let last = recorded.recording.samples.last().expect("samples");
    for (reservation, sample) in recorded.result.reservations.iter().zip(&last.reservations) {
        let name = &reservation.name;
        let value = |list: &str| {
            tracks[&format!("{process}/lists of {name}/{name}: {list}")]
                .values
                .last()
                .copied()
        };
        assert_eq!(value("active"), Some((last.at_ns, sample.lists.active)));
        assert_eq!(value("free"), Some((last.at_ns, sample.lists.free)));
        assert_eq!(value("held"), Some((last.at_ns, sample.frames.held)));
    }
    assert_eq!(
        tracks[&format!("{process}/pool/used")].values.last(),
        Some(&(last.at_ns, last.pool_used))
    );
    tracks
}

#[test]
fn faults_are_within_their_jobs() {
    let recorded = Recorded::load(NONE);
    let tracks = check(&recorded);
    let tau1 = &tracks["two-tasks-none: simulated/tau1"];
    assert_eq!(tau1.depth(), 2);
    let mut open = Vec::new();
    for (_, kind, name) in &tau1.events {
        match kind {
            1 => {
                assert_eq!(open.is_empty(), name.starts_with("job "), "{name}");
                open.push(name);
            }
            2 => drop(open.pop()),
            _ => {}
        }
    }
    let reads = tracks.keys().filter(|path| path.contains("/store/reads ")).count();
    assert!((1..=8).contains(&reads), "{reads} lanes for 8 channels and few tasks");
}

#[test]
fn random_runs() {
    for seed in 0..150 {
        let recorded = Recorded::of(random_scenario(seed, Mix::everything()));
        let checked = std::panic::catch_unwind(|| check(&recorded).len());
        assert!(checked.is_ok(), "seed {seed}");
    }
}

#[test]
fn several_runs_are_several_processes() {
    let runs = [
        Recorded::load(NONE),
        Recorded::load(NONE),
        Recorded::parse(EMPTY),
        Recorded::parse(NO_JOBS),
    ];
    let runs: Vec<_> = runs.iter().map(Recorded::run).collect();
    let bytes = trace(&runs);
    let tracks = tracks(&bytes);
    let processes = tracks.keys().filter(|path| !path.contains('/')).count();
    assert_eq!(processes, runs.len());
    assert!(
        tracks.contains_key("two-tasks-none (none), run 2: simulated/tau1"),
        "{:?}",
        tracks.keys()
    );
    assert_eq!(trace(&runs), bytes, "the same runs, another trace");
    assert!(trace(&[]).is_empty());
}

proptest! {
    #![proptest_config(common::cases(200))]
    #[test]
    fn any_recording(recording in wild_recording()) {
        let recorded = Recorded::parse(NO_JOBS).with_huge_counts(recording);
        tracks(&trace(&[recorded.run()]));
    }
}
