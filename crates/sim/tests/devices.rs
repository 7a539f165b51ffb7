//! Device memory in the simulator: what the victim cache saves, and law 6 with copies in flight, failing copies, late
//! returns and clients that die.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::results::RunResult;
use freehold_scenario::{
    AccessSpec, DeviceSpec, Faults, OpenSpec, Pattern, RegionKind, RegionSpec, ReservationSpec, Scenario, ScenarioSpec,
    TaskSpec,
};
use freehold_sim::{Options, Outcome, simulate};

fn pages(count: u64) -> ByteLen {
    ByteLen::new(count * 4096)
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// A task with a reservation of 40 frames reads a file of 100 pages in order, and another of as many without one.
fn reader() -> ScenarioSpec {
    let mut spec = ScenarioSpec::new("reader", ms(2_000), pages(400));
    for name in ["file", "other"] {
        let mut region = RegionSpec::new(name, pages(100));
        region.kind = RegionKind::File;
        spec.regions.push(region);
    }
    spec.reservations.push(ReservationSpec::new("r1", pages(40)));
    for (name, region, reservation) in [("tau1", "file", Some("r1")), ("tau2", "other", None)] {
        let mut task = TaskSpec::new(name);
        task.reservation = reservation.map(str::to_owned);
        task.period = Some(ms(100));
        task.accesses.push(AccessSpec::new(region, Pattern::Sequential));
        spec.tasks.push(task);
    }
    spec
}

fn device(name: &str, size: u64, opens: &[(u64, u64, u64)]) -> DeviceSpec {
    let open = |&(at, hold, used): &(u64, u64, u64)| OpenSpec {
        at: ms(at),
        hold: ms(hold),
        used: (used > 0).then(|| pages(used)),
    };
    DeviceSpec {
        name: name.to_owned(),
        size: pages(size),
        trusted: false,
        task: None,
        used: None,
        opens: opens.iter().map(open).collect(),
    }
}

fn run(spec: ScenarioSpec) -> Outcome {
    let options = Options {
        check_every: Some(1),
        sequences: true,
        ..Options::default()
    };
    let outcome = simulate(&Scenario::try_from(spec).unwrap(), &options).unwrap();
    assert!(outcome.laws_hold(), "{:#?}", outcome.result.laws);
    if let Some(cache) = outcome.result.victim_cache {
        let uses = [
            cache.free,
            cache.filling,
            cache.cached,
            cache.leaving,
            cache.device,
            cache.retired,
        ];
        assert_eq!(uses.iter().sum::<u64>(), cache.frames);
        let gone = [cache.hits, cache.evicted, cache.flushed, cache.discarded, cache.failed];
        let there = cache.cached + cache.filling;
        assert_eq!(gone.iter().sum::<u64>() + there, cache.puts, "{cache:?}");
    }
    outcome
}

fn reads(result: &RunResult) -> u64 {
    result.store.reads
}

/// With as many frames as the file has pages beside the reservation's, each page is read from the file once.
#[test]
fn a_cache_as_large_as_the_file_saves_every_second_read() {
    let alone = run(reader());
    let mut cached = reader();
    cached.devices.push(device("mfc0", 120, &[]));
    let cached = run(cached);
    assert_eq!(
        reads(&alone.result),
        20 * 100 + 100,
        "every page of `file` is read anew by each job"
    );
    assert_eq!(reads(&cached.result), 2 * 100);
    let cache = cached.result.victim_cache.unwrap();
    assert_eq!((cache.hits, cache.device, cache.discarded), (19 * 100, 0, 0));
    assert_eq!(cached.result.memory.outside, 120);
}

/// Law 0: hits change when a page is there, never what a reservation faults on and evicts.
#[test]
fn the_cache_changes_no_sequence() {
    let alone = run(reader());
    let mut cached = reader();
    cached
        .devices
        .push(device("mfc0", 60, &[(150, 300, 0), (900, 200, 20)]));
    let cached = run(cached);
    assert_eq!(alone.sequences, cached.sequences);
    let frames = |outcome: &Outcome| outcome.result.reservations[0].clone();
    assert_eq!(frames(&alone), frames(&cached));
}

/// A device that opens gets its frames at once and loses the cache their pages, not one more.
#[test]
fn an_open_discards_what_is_there_and_is_served_at_once() {
    let mut spec = reader();
    spec.duration = ms(1_000);
    spec.devices.push(device("mfc0", 80, &[(450, 100, 0)]));
    spec.devices.push(device("jpeg", 40, &[(460, 1_000, 10)]));
    let outcome = run(spec);
    let [first, second] = &outcome.result.devices[..] else {
        panic!("two devices");
    };
    assert_eq!((first.opens, first.refused, first.state.as_str()), (1, 0, "idle"));
    assert_eq!((second.opens, second.used, second.state.as_str()), (1, 10, "open"));
    // Not trusted: 80 pages are zeroed.
    assert_eq!(first.open_ns.max, 80 * 100);
    let cache = outcome.result.victim_cache.unwrap();
    assert_eq!((cache.device, cache.frames), (10, 120));
    assert!(cache.discarded > 0, "{cache:?}");
}

/// The jobs of a task open a device and close it.
#[test]
fn jobs_open_devices() {
    let mut spec = reader();
    spec.devices.push(DeviceSpec {
        task: Some("tau1".to_owned()),
        used: Some(pages(30)),
        trusted: true,
        ..device("camera", 60, &[])
    });
    let outcome = run(spec);
    let camera = &outcome.result.devices[0];
    assert_eq!(
        (camera.opens, camera.refused, camera.open_ns.max),
        (outcome.result.tasks[0].jobs, 0, 0)
    );
}

/// What a task writes is never served as it was before.
#[test]
fn a_page_that_was_written_is_served_as_written() {
    let mut spec = reader();
    spec.devices.push(device("mfc0", 120, &[(333, 333, 50)]));
    let mut writer = TaskSpec::new("writer");
    writer.period = Some(ms(300));
    let mut access = AccessSpec::new("file", Pattern::Random);
    (access.amount, access.write) = (Some(pages(10)), true);
    writer.accesses.push(access);
    spec.tasks.push(writer);
    let outcome = run(spec);
    assert!(outcome.result.store.writes > 10 && outcome.result.victim_cache.unwrap().hits > 100);
}

/// Copies that fail or are late, frames that come back late and clients that die at any time: law 6 holds, no open of a
/// closed device is refused for its place, and nobody waits for ever.
#[test]
fn faults_break_no_law() {
    let (mut hits, mut failed, mut discarded) = (0, 0, 0);
    for seed in 1..=40 {
        let mut spec = reader();
        spec.seed = seed;
        spec.duration = ms(1_500);
        let opens = |first: u64| -> Vec<(u64, u64, u64)> {
            (0..20)
                .map(|open| (first + open * 70, 1 + (open * seed) % 60, (open * seed) % 30))
                .collect()
        };
        spec.devices.push(device("a", 30, &opens(seed)));
        spec.devices.push(device("b", 40, &opens(2 * seed)));
        spec.devices.push(DeviceSpec {
            task: Some("tau2".to_owned()),
            ..device("c", 20, &[])
        });
        spec.faults = Some(Faults {
            seed: None,
            late: 0.2,
            late_by: ms(1 + seed % 20),
            fail: 0.1,
            reorder: seed % 2 == 0,
        });
        let outcome = run(spec);
        let cache = outcome.result.victim_cache.unwrap();
        (hits, failed, discarded) = (hits + cache.hits, failed + cache.failed, discarded + cache.discarded);
    }
    assert!(
        hits > 1_000 && failed > 100 && discarded > 100,
        "{hits} {failed} {discarded}"
    );
}

#[test]
fn devices_are_read_and_written() {
    let text = "name = \"d\"\nduration = \"1s\"\nmemory.pool = \"1MiB\"\n[[region]]\nname = \"f\"\nkind = \"file\"\n\
                size = \"64KiB\"\n[[device]]\nname = \"mfc0\"\nsize = \"128KiB\"\ntrusted = true\n[[device.open]]\n\
                at = \"10ms\"\nhold = \"5ms\"\nuse = \"64KiB\"\n";
    let scenario = Scenario::parse(text, "d.toml").unwrap();
    assert_eq!(
        (scenario.devices[0].size.get(), scenario.devices[0].opens[0].used.get()),
        (32, 16)
    );
    assert_eq!(
        Scenario::parse(&scenario.to_toml(), "d.toml").unwrap().spec(),
        scenario.spec()
    );
    let error = |from: &str, to: &str| {
        Scenario::parse(&text.replace(from, to), "d.toml")
            .unwrap_err()
            .to_string()
    };
    for (from, to, said) in [
        (
            "\"128KiB\"",
            "\"2MiB\"",
            "d.toml:10: device.mfc0.size: is 2MiB: of the pool 1MiB are left",
        ),
        (
            "hold = \"5ms\"",
            "hold = \"0s\"",
            "d.toml:14: device.mfc0.open.0.hold: is zero",
        ),
        (
            "use = \"64KiB\"",
            "use = \"256KiB\"",
            "device.mfc0.open.0.use: is 256KiB: at most 128KiB",
        ),
        (
            "trusted = true",
            "task = \"tau\"",
            "device.mfc0.task: the jobs of a task open it, and so does `open`",
        ),
        ("trusted = true", "speed = 3", "device.mfc0.speed"),
    ] {
        let found = error(from, to);
        assert!(found.contains(said), "{found}");
    }
}
