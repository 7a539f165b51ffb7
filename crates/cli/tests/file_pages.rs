//! Pages of files that a memory server evicts into device memory: a hit saves a read, and every byte is the file's.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "common/campaign.rs"]
mod campaign;
mod common;
#[path = "common/server.rs"]
mod peer;

use campaign::{Managed, PATIENCE, Server};
use freehold_protocol::message::{Request, Role};
use peer::Peer;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Pages of the library's data: 16 MiB.
const PAGES: u64 = 4_096;
/// Pages of the device: 12 MiB. With the reservation's 8 MiB that is more than the library.
const DEVICE: u64 = 3_072;
const DEVICES: &str = "[region]\nbacking = \"small\"\n[[device]]\nname = \"camera\"\nsize = \"12MiB\"\n";

/// A library, the program that goes round it, and a server with a device.
struct World {
    server: Server,
    folder: PathBuf,
    program: PathBuf,
}

impl World {
    fn new(name: &str) -> Option<Self> {
        let program = common::compiled("text")?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let blob: Vec<u8> = (0..PAGES * 512).flat_map(|word| mixed(word).to_le_bytes()).collect();
        std::fs::write(folder.join("blob"), blob).expect("a file");
        let source = ".section .rodata\n.balign 4096\n.globl blob, blob_end\nblob: .incbin \"blob\"\nblob_end:\n\
                      .section .note.GNU-stack,\"\",@progbits\n";
        std::fs::write(folder.join("blob.s"), source).expect("a file");
        std::fs::write(folder.join("devices.toml"), DEVICES).expect("a file");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-o", "blob.so", "blob.s"])
            .current_dir(&folder);
        assert!(compiler.status().expect("it compiled before").success());
        let library = File::open(folder.join("blob.so")).expect("it was made");
        // Pages that are not on the disk yet stay in the kernel's page cache.
        library.sync_all().expect("a disk");
        if freehold_linux::uncached_read::Uncached::of(&library).is_none() {
            println!("not tested: {} is on no disk", folder.display());
            return None;
        }
        let devices = folder.join("devices.toml");
        let options = ["--pool", "48MiB", "--log-level", "warn", "--devices"];
        let options = options.into_iter().chain(devices.to_str());
        let server = Server::start(name, &options.collect::<Vec<_>>());
        Some(Self {
            server,
            folder,
            program,
        })
    }

    fn library(&self) -> PathBuf {
        self.folder.join("blob.so")
    }

    fn exec(&self) -> Managed {
        let library = self.library();
        self.server
            .exec(Some("8MiB"), &self.program, &[library.to_str().expect("text")])
    }

    /// What the program prints by itself.
    fn native(&self) -> String {
        let mut command = Command::new(&self.program);
        command.arg(self.library()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was compiled");
        child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().nth(1).expect("a hash").to_owned()
    }

    fn region(&self) -> Region {
        let row = &self.server.status()["victim_cache"];
        let count = |key: &str| row[key].as_u64().expect("a count");
        let states = ["free", "filling", "cached", "leaving", "device", "retired"];
        assert_eq!(states.map(count).iter().sum::<u64>(), count("frames"), "{row}");
        assert_eq!(count("mismatched"), 0, "{row}");
        Region {
            puts: count("puts"),
            hits: count("hits"),
            gets: count("gets"),
            cached: count("cached"),
            device: count("device"),
        }
    }

    /// Bytes that the server had read from disks.
    fn read_from_disk(&self) -> u64 {
        let path = format!("/proc/{}/io", self.server.child.id());
        let text = std::fs::read_to_string(path).expect("its own counts");
        let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.and_then(|line| line.parse().ok()).expect("a count")
    }

    fn open_device(&self) -> Child {
        let mut command = common::freehold(&["device", "open", "camera", "--hold", "1000s", "--socket"]);
        command.arg(self.server.socket()).stdout(Stdio::null());
        let child = command.spawn().expect("freehold");
        self.until("open");
        child
    }

    /// Waits until all of the device's memory caches pages.
    fn until_full(&self) -> Region {
        let begun = Instant::now();
        loop {
            let region = self.region();
            if region.cached == DEVICE {
                return region;
            }
            assert!(begun.elapsed() < PATIENCE, "{region:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until(&self, state: &str) {
        let begun = Instant::now();
        while self.server.status()["devices"][0]["state"] != state {
            assert!(begun.elapsed() < PATIENCE, "the device is never {state}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn laws_hold(&self) {
        let mut peer = Peer::connect(&self.server.socket()).expect("the server listens");
        let hello = Request::Hello {
            role: Role::Observer,
            agent_thread: 0,
            name: "test",
        };
        peer.ask(&hello, &[]).expect("an observer");
        peer.laws_must_hold();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[derive(Debug)]
struct Region {
    puts: u64,
    hits: u64,
    gets: u64,
    cached: u64,
    device: u64,
}

fn mixed(word: u64) -> u64 {
    (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 7)
}

/// Has the program go round once.
fn go_round(program: &mut Managed, expected: &str) {
    ask(program);
    program.expect_line(expected);
}

fn ask(program: &mut Managed) {
    let input = program.child.stdin.as_mut().expect("piped");
    input.write_all(b"\n").expect("the program reads");
}

#[test]
fn text_larger_than_its_reservation_comes_back_from_device_memory() {
    let Some(world) = World::new("hits") else { return };
    let native = world.native();
    let mut program = world.exec();
    go_round(&mut program, &native);
    let (first, read) = (world.region(), world.read_from_disk());
    assert!(first.puts > PAGES / 4, "{first:?}");
    // Each page was asked for once, the text of the program and of its libraries too.
    assert!(first.gets - first.hits < PAGES * 3 / 2, "{first:?}");
    go_round(&mut program, &native);
    let (second, again) = (world.region(), world.read_from_disk());
    // What did not stay with the program was in device memory, and nothing was read again.
    let (gets, hits) = (second.gets - first.gets, second.hits - first.hits);
    assert!(hits > PAGES / 4 && hits > gets * 9 / 10, "{hits} of {gets}");
    assert!(
        (again - read) / 4096 < hits / 10,
        "{} pages read",
        (again - read) / 4096
    );
    // A device takes the memory: everything is read, and nothing is cached.
    let mut device = world.open_device();
    let taken = world.region();
    assert_eq!((taken.device, taken.cached), (DEVICE, 0), "{taken:?}");
    go_round(&mut program, &native);
    let without = world.region();
    assert_eq!((without.hits, without.cached), (taken.hits, 0), "{without:?}");
    assert!(world.read_from_disk() > again, "the library was read");
    // It dies, and its memory caches again.
    device.kill().expect("it runs");
    device.wait().expect("a child");
    world.until("idle");
    go_round(&mut program, &native);
    let filled = world.region();
    go_round(&mut program, &native);
    let third = world.region();
    assert!(third.hits - filled.hits > PAGES / 4, "{filled:?} {third:?}");
    world.laws_hold();
    let (status, lines, errors) = program.rest();
    assert!(status.success() && lines.is_empty(), "{errors}");
    // What it had when it ended is more than is kept for the next program: it went into device memory too.
    world.server.wait_without("text");
    let left = world.until_full();
    let mut next = world.exec();
    go_round(&mut next, &native);
    let hits = world.region().hits - left.hits;
    assert!(hits > PAGES / 2, "{hits} {left:?}");
    world.laws_hold();
}

/// Where the library's file has this page of the data.
fn place_of(library: &Path, page: u64) -> u64 {
    let content = std::fs::read(library).expect("the library");
    let begins = mixed(page * 512).to_le_bytes();
    let place = content.windows(8).position(|bytes| bytes == begins);
    place.expect("the page is there") as u64
}

#[test]
fn who_writes_a_cached_file_waits_for_nothing_and_is_seen() {
    let Some(world) = World::new("written") else { return };
    let library = world.library();
    let native = world.native();
    let mut old = world.exec();
    for _ in 0..2 {
        go_round(&mut old, &native);
    }
    let leased = |world: &World| world.server.status()["victim_cache"]["leased_files"].as_u64();
    assert!(leased(&world) > Some(0));
    let before = world.region();
    assert!(before.cached > PAGES / 4, "{before:?}");
    let pages = [3, PAGES / 2, PAGES - 5].map(|page| place_of(&library, page));
    // The lease is let go: a writer that had to take it away would wait for 45 s.
    let begun = Instant::now();
    let file = OpenOptions::new()
        .write(true)
        .open(&library)
        .expect("it may be written");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(
        world.region().cached < before.cached - PAGES / 4,
        "its pages are dropped"
    );
    for page in pages {
        file.write_all_at(b"another!", page).expect("a disk");
    }
    file.sync_all().expect("a disk");
    drop(file);
    let changed = world.native();
    assert_ne!(changed, native);
    // What was cached of the old state is never given to who opens the new one, which is cached in its turn.
    let mut new = world.exec();
    for _ in 0..3 {
        go_round(&mut new, &changed);
        ask(&mut old);
    }
    assert!(world.region().hits > before.hits + PAGES / 4);
    world.laws_hold();
    let (status, lines, errors) = old.rest();
    assert!(status.success() && lines.len() == 3, "{lines:?} {errors}");
    assert!(new.rest().0.success());
}

#[test]
fn a_killed_server_leaves_nothing_wrong_behind() {
    let Some(mut world) = World::new("killed") else { return };
    let native = world.native();
    let mut program = world.exec();
    for _ in 0..2 {
        go_round(&mut program, &native);
    }
    let mut device = world.open_device();
    go_round(&mut program, &native);
    ask(&mut program);
    world.server.child.kill().expect("it runs");
    world.server.child.wait().expect("a child");
    // The program has gone round before, or goes with the server; nothing that it read was wrong.
    let (_, lines, errors) = program.rest();
    assert!(lines.iter().all(|line| *line == native), "{lines:?} {errors}");
    // Nobody holds a lease any more, and whoever had the device has its memory until it ends.
    let begun = Instant::now();
    let written = OpenOptions::new().write(true).open(world.library());
    assert!(written.is_ok() && begun.elapsed() < Duration::from_secs(20));
    let ended = device.kill().and_then(|()| device.wait());
    assert!(ended.is_ok(), "{ended:?}");
}
