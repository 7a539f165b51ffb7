//! Devices of a memory server, as the command opens them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "../../linux/tests/common/memory_helper.rs"]
mod memory_helper;
#[path = "common/server.rs"]
mod server;

use common::{count, document, freehold, status, stderr};
use memory_helper::{Helper, eventually};
use rustix::process::{Pid, Signal, kill_process};
use server::Server;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

fn device_file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("freehold-devices-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_device_is_opened_beside_reservations_and_its_memory_comes_back() {
    let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"mfc0\"\nsize = \"4MiB\"\n\
                [[device]]\nname = \"jpeg\"\nsize = \"2MiB\"\ntrusted = true\n";
    let file = device_file("open", text);
    let path = file.to_str().unwrap();
    let server = Server::start(&["--pool", "16MiB", "--devices", path]);
    let opened = server.run(&["device", "open", "mfc0", "--use", "2MiB", "--hold", "1ms", "--json"]);
    assert_eq!(status(&opened), 0, "{}", stderr(&opened));
    let row = document(&opened);
    assert_eq!(
        (&row["pages"], &row["used"], &row["zeroed_pages"]),
        (&1024.into(), &512.into(), &512.into())
    );
    assert_eq!((&row["trusted"], &row["descriptors"]), (&false.into(), &1.into()));
    // The program has the device's memory, and its status is the command's.
    let script = "test -n \"$FREEHOLD_DEVICE_DESCRIPTORS\" && exit 7";
    let mut program = freehold(&["device", "open", "jpeg", "--json", "--", "sh", "-c", script]);
    let ran = program.env("FREEHOLD_SOCKET", &server.socket).output().unwrap();
    assert_eq!(status(&ran), 7, "{}", stderr(&ran));
    let document = document(&server.run(&["status", "--json"]));
    let region = &document["victim_cache"];
    assert_eq!(
        (&region["frames"], &document["memory"]["outside"]),
        (&1536.into(), &1536.into())
    );
    assert_eq!(&document["devices"][0]["opens"], 1);
    let refused = server.run(&["device", "open", "none"]);
    assert_eq!(status(&refused), 1);
    assert!(
        stderr(&refused).contains("there is no device `none`"),
        "{}",
        stderr(&refused)
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_command_that_has_ended_has_closed_its_device() {
    let file = device_file(
        "closed",
        "[[device]]\nname = \"mfc0\"\nsize = \"4MiB\"\ntrusted = true\n",
    );
    let server = Server::start(&["--pool", "16MiB", "--devices", file.to_str().unwrap()]);
    for command in [&["--hold", "2s"][..], &["--", "sleep", "2"]] {
        let mut open = freehold(&["device", "open", "mfc0"]);
        let open = open.env("FREEHOLD_SOCKET", &server.socket).args(command);
        let mut open = open.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let said = open.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let process = Pid::from_raw(server.child.id().cast_signed()).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        let ended = open.try_wait().unwrap();
        kill_process(process, Signal::CONT).unwrap();
        assert_eq!(ended, None, "{command:?}: before the server knows of it");
        assert!(open.wait().unwrap().success(), "{command:?}: {line}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn devices_that_do_not_fit_and_servers_without_any_are_refused() {
    let server = Server::start(&["--pool", "16MiB"]);
    let refused = server.run(&["device", "open", "mfc0"]);
    assert_eq!(status(&refused), 1);
    assert!(stderr(&refused).contains("--devices FILE"), "{}", stderr(&refused));
    let file = device_file("large", "[[device]]\nname = \"a\"\nsize = \"64MiB\"\n");
    let refused = server.run(&["serve", "--pool", "16MiB", "--devices", file.to_str().unwrap()]);
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("device.size"), "{}", stderr(&refused));
    std::fs::remove_file(file).unwrap();
}

/// A reader of 4 MiB of text in 1 MiB; a device that opens once, and one that opens with each job of a task. That is of
/// ordinary class as the device's client is: a more urgent one could keep the processors until its job is over.
const LIVE: &str = r#"
name = "devices-live"
duration = "3s"
memory = { pool = "16MiB", swap = { latency = "50us" } }
region = [{ name = "text", kind = "file", size = "4MiB" }, { name = "frames", kind = "private", size = "64KiB" }]
reservation = [{ name = "r-reader", size = "1MiB" }]

[[task]]
name = "reader"
reservation = "r-reader"
period = "150ms"
access = [{ region = "text", amount = "4MiB" }]

[[task]]
name = "shutter"
class = "best-effort"
period = "600ms"
compute = "100ms"
access = [{ region = "frames", amount = "64KiB", write = true }]

[[device]]
name = "camera"
size = "3MiB"
open = [{ at = "1s", hold = "300ms" }]

[[device]]
name = "jpeg-encoder"
size = "2MiB"
trusted = true
task = "shutter"
use = "1MiB"
"#;

#[test]
fn a_scenarios_devices_are_opened_live_and_hold_nobody_elses_pages() {
    let scenario = common::Scratch::new("devices-live", LIVE);
    let run = |engine: &[&str]| common::run(&[&["run", "--json"], engine, &[scenario.path()]].concat());
    for placement in ["embedded", "server"] {
        let output = run(&["--engine", "live", "--placement", placement]);
        assert_eq!(status(&output), 0, "{placement}: {}", stderr(&output));
        let live = document(&output);
        assert_eq!(live["laws"]["violations"], serde_json::json!([]), "{placement}: {live}");
        let cache = &live["victim_cache"];
        let states = ["free", "filling", "cached", "leaving", "device", "retired"];
        assert_eq!(
            states.iter().map(|state| count(cache, state)).sum::<u64>(),
            1_280,
            "{placement}: {cache}"
        );
        let (hits, discarded) = (count(cache, "hits"), count(cache, "discarded"));
        assert!(hits > 1_000 && discarded > 0, "{placement}: {cache}");
        let (camera, jpeg) = (&live["devices"][0], &live["devices"][1]);
        assert_eq!((count(camera, "opens"), count(camera, "refused")), (1, 0), "{camera}");
        // With each job, but for one that ends before the memory of the one before is back.
        assert!(count(jpeg, "opens") >= 3, "{placement}: {jpeg}");
        assert_eq!(
            count(jpeg, "opens") + count(jpeg, "refused"),
            count(&live["tasks"][1], "jobs"),
            "{placement}: {jpeg}"
        );
        assert_eq!(
            (&jpeg["name"], &live["memory"]["outside"]),
            (&"jpeg-encoder".into(), &1_280.into())
        );
    }
    let simulated = document(&run(&["--engine", "sim"]));
    assert_eq!(count(&simulated["devices"][0], "opens"), 1, "{simulated}");
    for placement in ["embedded", "server"] {
        let followed = run(&["--engine", "live", "--placement", placement, "--lockstep"]);
        assert_eq!(status(&followed), 0, "{placement}: {}", stderr(&followed));
        assert!(count(&document(&followed)["victim_cache"], "hits") > 1_000);
    }
}

/// Huge pages of the machine, whoever has them.
fn huge_pages() -> u64 {
    pool_of_huge_pages("nr_hugepages")
}

fn pool_of_huge_pages(file: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Those that the pool keeps whether they are used or not: others in use are surplus.
fn kept_huge_pages() -> u64 {
    huge_pages().saturating_sub(pool_of_huge_pages("surplus_hugepages"))
}

/// Has a server killed, and what was prepared released while the server's memory is not given back yet. `before`: what
/// the pool kept before.
fn released_behind_a_killed(server: Server, before: u64) -> serde_json::Value {
    let helper = Helper::of(server.child.id());
    helper.stop();
    drop(server);
    let mut release = freehold(&["region", "release", "--json"]);
    let release = release.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the pool keeps what it kept before", || kept_huge_pages() == before);
    helper.let_end();
    let released = release.wait_with_output().unwrap();
    assert_eq!(status(&released), 0, "{}", stderr(&released));
    document(&released)
}

#[test]
fn prepared_memory_lies_in_one_piece_and_goes_back() {
    if !rustix::process::geteuid().is_root() || std::path::Path::new("/run/freehold/region").exists() {
        eprintln!("not run: preparing takes root, and nothing prepared before");
        return;
    }
    let (before, kept) = (huge_pages(), kept_huge_pages());
    let prepared = common::run(&["region", "prepare", "8MiB", "--json"]);
    if status(&prepared) != 0 {
        eprintln!("not run: {}", stderr(&prepared));
        assert_eq!(huge_pages(), before, "who is refused changes nothing");
        return;
    }
    assert!(document(&prepared)["free"].as_u64().unwrap() >= 4);
    let text = "[region]\nbacking = \"huge\"\n[[device]]\nname = \"mfc0\"\nsize = \"8MiB\"\n";
    let file = device_file("prepared", text);
    let server = Server::start(&["--pool", "16MiB", "--devices", file.to_str().unwrap()]);
    // Also when other memory has taken its place.
    let rows: Vec<_> = (0..2)
        .map(|_| document(&server.run(&["device", "open", "mfc0", "--hold", "1ms", "--json"])))
        .collect();
    let released = released_behind_a_killed(server, kept);
    assert_eq!((count(&released, "huge_pages"), huge_pages()), (before, before));
    for row in rows {
        assert_eq!(
            (&row["contiguity"], &row["pieces"]),
            (&"physical".into(), &1.into()),
            "{row}"
        );
    }
    std::fs::remove_file(file).unwrap();
}
