//! Random operations on files of a mount, each made beside it too: bytes, counts and errors are equal.

mod common;
mod mounts;

use freehold_client::device::Device;
use mounts::{Mounted, folders, may_mount, until};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const STEPS: &str = "2500";
/// Programs at once.
const TOGETHER: u64 = 4;

fn twin(seed: u64, past: &str, mounted: &Mounted) -> Child {
    let tree = |folder: &Path| folder.join(format!("tree-{seed}"));
    let native = mounted.source.with_file_name("native");
    fs::create_dir_all(&native).expect("a folder beside");
    Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/twin.py"))
        .args([&seed.to_string(), STEPS, past])
        .args([tree(&mounted.source), tree(&mounted.at), tree(&native)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 starts")
}

/// Four at a time from a cache smaller than their files, while devices open and close.
fn compare(name: &str, past: &str, seeds: std::ops::Range<u64>) {
    if !may_mount() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("not run: there is no python3");
        return;
    }
    let (source, at) = folders(name);
    let socket = std::env::temp_dir().join(format!("freehold-{name}-{}", std::process::id()));
    let mounted = Mounted::of(&source, &at, "4MiB", &["--socket", socket.to_str().expect("UTF-8")]);
    until("the socket is there", || socket.exists().then_some(()));
    let stop = AtomicBool::new(false);
    let opened = std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            let mut opened = 0;
            while !stop.load(Ordering::Relaxed) {
                for name in ["mfc", "jpeg"] {
                    // A program that is being started has this one's descriptors for a moment, and so the device's.
                    drop(until("a closed device opens", || Device::open(&socket, name, 0).ok()));
                    opened += 1;
                }
            }
            opened
        });
        let failed = seeds.clone().step_by(4).find_map(|first| {
            let running: Vec<Child> = (first..first + TOGETHER)
                .map(|seed| twin(seed, past, &mounted))
                .collect();
            let ended = running
                .into_iter()
                .map(|child| child.wait_with_output().expect("its end"));
            let told = ended.map(
                |output| match String::from_utf8_lossy(&output.stdout).trim().parse::<u32>() {
                    Ok(done) if output.status.success() && done > 800 => None,
                    _ => Some(format!("{output:?}")),
                },
            );
            // All of them end before anything is judged.
            told.collect::<Vec<_>>().into_iter().flatten().next()
        });
        stop.store(true, Ordering::Relaxed);
        let opened = opener.join().expect("devices open");
        assert!(failed.is_none(), "{failed:?}");
        opened
    });
    assert!(opened > 10, "{opened} openings of devices");
}

#[test]
fn random_operations_by_four_programs_are_as_without_a_mount() {
    compare("twin", "0", 1..9);
}

/// What programs change in SOURCE itself is seen: by mappings after a moment, and by sizes that are asked for.
#[test]
fn random_operations_beside_changes_behind_the_back_are_as_without_a_mount() {
    compare("twin-past", "0.15", 21..29);
}
