//! A file that nobody has in memory, read from its beginning to its end.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use freehold_linux::clock;

use super::bare::Answers;
use super::scene::{self, FILE, PAGE, Scene, Server};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Length of the file.
const MEGABYTES: u32 = 64;
/// Bytes of one read.
const AT_ONCE: usize = 128 << 10;
/// Pages of 1 MiB.
const MEGABYTE: u64 = 256;
/// The page cache of our mount: half of the file.
const CACHE: &str = "32MiB";
/// Passes of one round.
const PASSES: u32 = 3;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "mount-sequential",
    about: "1 MiB of a file that no cache has, read in order, 128 KiB at once",
    floor: "the same from a mount whose reads the kernel passes through to the file",
    unit: "ns",
    judged: Judged::RatioP50,
    // At least 0.8 of its speed.
    goal: 1.25,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let megabytes = u64::from(effort.scaled(MEGABYTES)).max(2);
    let scene = Scene::new(megabytes * MEGABYTE)?;
    let mut found = Found::new()?;
    found.alternate(
        effort,
        |samples| pass(&scene, Server::Bare(Answers::Through), samples),
        |samples| pass(&scene, Server::Ours(CACHE), samples),
    )?;
    found.notes.push(format!(
        "a sample is the mean of a whole pass of {} MiB; ours has a page cache of {CACHE}",
        scene.pages() / MEGABYTE
    ));
    Ok(found)
}

fn pass(scene: &Scene, server: Server<'_>, samples: &mut Samples) -> Result<(), Failure> {
    for _ in 0..PASSES {
        scene.cool()?;
        // A new mount: nothing is cached.
        let mounted = scene.mount(server)?;
        let begun = clock::now();
        read_all(&mounted.path(FILE), scene.pages())?;
        let whole = clock::now().as_nanos() - begun.as_nanos();
        samples.record_mean(whole, scene.pages() / MEGABYTE);
    }
    Ok(())
}

fn read_all(path: &Path, pages: u64) -> Result<(), Failure> {
    let file = File::open(path).map_err(refused)?;
    let mut bytes = vec![0; AT_ONCE];
    let mut at = 0;
    while at < pages {
        file.read_exact_at(&mut bytes, at * PAGE as u64).map_err(refused)?;
        for (page, bytes) in (at..).zip(bytes.chunks_exact(PAGE)) {
            scene::check(bytes, page)?;
        }
        at += (AT_ONCE / PAGE) as u64;
    }
    Ok(())
}
