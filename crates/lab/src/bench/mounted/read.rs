//! Reads of one page that the mount has.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::bare::Answers;
use super::scene::{self, FILE, PAGE, Scene, Server};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u64 = 4_096;
/// Reads in one round.
const READS: u32 = 20_000;
/// The page cache of our mount: the whole file has room.
const CACHE: &str = "32MiB";
/// What a read may take of the time of a read from the device.
const OF_DEVICE: f64 = 0.25;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "mount-read",
    about: "a read(2) of 4 KiB, in random order, of a file that a mount has cached",
    floor: "the same from a mount that answers every read with one page",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.3,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let scene = Scene::new(PAGES)?;
    let reads = effort.scaled(READS);
    let (mut found, mut device) = (Found::new()?, Samples::new()?);
    found.alternate(
        effort,
        |samples| bare(&scene, samples, reads),
        |samples| {
            ours(&scene, samples, reads)?;
            from_device(&scene.file(), &mut device, reads / 10)
        },
    )?;
    let share = found.ours.quantiles().p50 / device.quantiles().p50;
    found.add_side("the same from the device (O_DIRECT)", &device);
    found.goal_row("of the device's time, by the medians", share, "", OF_DEVICE);
    found
        .notes
        .push(format!("{PAGES} pages; ours has a page cache of {CACHE}"));
    Ok(found)
}

/// Page numbers, the same for all.
fn order(pages: u64, reads: u32) -> impl Iterator<Item = u64> {
    let step = move |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some((*state >> 33) % pages)
    };
    (0..reads).scan(7, move |state, _| step(state))
}

fn bare(scene: &Scene, samples: &mut Samples, reads: u32) -> Result<(), Failure> {
    let mounted = scene.mount(Server::Bare(Answers::Page))?;
    let file = File::open(mounted.path(FILE)).map_err(refused)?;
    let mut bytes = [0; PAGE];
    for page in order(scene.pages(), reads) {
        let read = samples.time(|| file.read_at(&mut bytes, page * PAGE as u64));
        read.map_err(refused)?;
    }
    Ok(())
}

fn ours(scene: &Scene, samples: &mut Samples, reads: u32) -> Result<(), Failure> {
    let mounted = scene.mount(Server::Ours(CACHE))?;
    let path = mounted.path(FILE);
    let warmed = std::fs::read(&path).map_err(refused)?.len() as u64;
    if warmed != scene.pages() * PAGE as u64 {
        return Err(refused("the mount's file is not whole"));
    }
    let file = File::open(path).map_err(refused)?;
    let mut bytes = [0; PAGE];
    for page in order(scene.pages(), reads) {
        let read = samples.time(|| file.read_at(&mut bytes, page * PAGE as u64));
        read.map_err(refused)?;
        scene::check(&bytes, page)?;
    }
    Ok(())
}

fn from_device(path: &Path, samples: &mut Samples, reads: u32) -> Result<(), Failure> {
    let file: OwnedFd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).map_err(refused)?;
    let mut memory = vec![0; 2 * PAGE];
    let start = memory.as_ptr().align_offset(PAGE);
    let bytes = memory
        .get_mut(start..start + PAGE)
        .ok_or_else(|| refused("no aligned memory"))?;
    for page in order(PAGES, reads.max(1)) {
        let read = samples.time(|| rustix::io::pread(&file, &mut *bytes, page * PAGE as u64));
        read.map_err(refused)?;
        scene::check(bytes, page)?;
    }
    Ok(())
}
