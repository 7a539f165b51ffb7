//! Reads by several threads at once, without a kernel between: what they get, and what the caches hold meanwhile.

use crate::coherence;
use crate::content::Sequence;
use crate::files::{BROUGHT, Files, READERS, UNDER_WAY, victim_key};
use crate::inode::Inode;
use crate::own::PAGE;
use crate::page_cache::{LEAST_FRAMES, Room};
use crate::reader::Reader;
use crate::tree::Tree;
use freehold_ecache::Cache;
use freehold_linux::thread::Thread;
use freehold_scenario::DeviceFile;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const DEVICES: &str = "[region]\nbacking = \"small\"\n[[device]]\nname = \"a\"\nsize = \"2MiB\"\ntrusted = true\n";

/// A mount's files, without a mount.
struct World {
    files: Arc<Files>,
    threads: Vec<Thread<()>>,
    folder: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-files-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let devices = DeviceFile::parse(DEVICES, "devices").unwrap();
        let (sender, wanted) = mpsc::sync_channel(16);
        let tree = Tree::new(&folder, 1_024).unwrap();
        let victims = Arc::new(Cache::new(&devices).unwrap());
        let files = Arc::new(Files::new(tree, LEAST_FRAMES, victims, sender).unwrap());
        let threads = vec![coherence::start(&files).unwrap()];
        crate::ahead::start(&files, wanted).unwrap();
        Self { files, threads, folder }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Arc<Inode> {
        std::fs::write(self.folder.join(name), bytes).unwrap();
        let (inode, _) = self.files.tree.lookup(1, OsStr::new(name)).unwrap();
        inode
    }

    fn path(&self) -> &Path {
        &self.folder
    }

    fn read(&self, inode: &Arc<Inode>, way: &Mutex<Sequence>, offset: u64, size: u32) -> Vec<u8> {
        self.files.lease(inode, false).unwrap();
        let state = inode.content.read();
        let served = self.files.read(inode, &state, (offset, size), way).unwrap();
        assert_eq!(served.behind, None);
        served.bytes.to_vec()
    }

    /// Pages that own memory and device memory hold both.
    fn twice(&self) -> usize {
        let cache = self.files.cache();
        cache
            .own_keys()
            .filter(|key| self.files.victims.has(victim_key(*key)))
            .count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.files.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn pages(version: u64, count: u64) -> Vec<u8> {
    (0..count)
        .flat_map(|page| (version << 32 | page).to_le_bytes().repeat(PAGE / 8))
        .collect()
}

#[test]
fn no_page_is_in_own_and_in_device_memory_whoever_reads_it_at_once() {
    let world = World::new("twice");
    let count = 4096;
    let inode = world.file("file", &pages(1, count));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (world, inode, stop) = (&world, &inode, &stop);
            scope.spawn(move || {
                // In pairs they read the same pages, at nearly the same time.
                let (mut number, way) = (seed / 2, Mutex::default());
                while !stop.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(17);
                    let page = (number >> 33) % 1400;
                    let bytes = world.read(inode, &way, page * PAGE as u64, 4096);
                    assert_eq!(bytes[..8], (1_u64 << 32 | page).to_le_bytes());
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(2);
        let mut looks = 0;
        while Instant::now() < end {
            let twice = world.twice();
            if twice > 0 {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(twice, 0, "after {looks} looks");
            looks += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(world.files.counters.victim_hits.load(Ordering::Relaxed) > 100);
    world.files.victims.check_laws().unwrap();
}

#[test]
fn frames_that_the_kernel_takes_are_given_back_and_none_is_lost() {
    let world = World::new("frames");
    let whole = pages(1, 2048);
    let inode = world.file("file", &whole);
    let way = Mutex::default();
    for (number, part) in (0..).zip(whole.chunks(64 * PAGE)) {
        assert!(world.read(&inode, &way, number * 64 * PAGE as u64, 64 * 4096) == part);
    }
    let (frames, own, _) = world.files.cache().counts();
    assert_eq!(own, frames, "it is full");
    let given = world.files.cache().give_to_kernel(7, &(0..500), false, &mut |_| ());
    assert_eq!(given, Room::Counted);
    world.files.cool();
    // Reading ahead may still hold some.
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let (_, own, kernel) = world.files.cache().counts();
        let (warm, cold) = world.files.slab.free();
        if own + warm + cold == frames + READERS * BROUGHT {
            assert!(own + kernel <= frames);
            assert!(own + kernel + warm <= frames + UNDER_WAY, "{own} {kernel} {warm}");
            break;
        }
        assert!(Instant::now() < end, "a page is lost: {own} {warm} {cold}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn behind_the_end_of_a_file_is_nothing_of_what_was_in_memory_before() {
    let world = World::new("tail");
    let inode = world.file("file", &[1; 5000]);
    for mut page in world.files.slab.take(3).unwrap() {
        page.fill(7);
    }
    world.files.lease(&inode, false).unwrap();
    let state = inode.content.read();
    let (reader, lease) = state.still().unwrap();
    let fetched = world.files.fetch(reader, lease, &[0, 1]).unwrap().unwrap();
    let (content, tail) = fetched[1].bytes.split_at(5000 - PAGE);
    assert!(fetched[0].bytes.iter().chain(content).all(|byte| *byte == 1));
    assert!(tail.iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_cut_off_behind_a_lease_is_read_as_it_is_and_its_pages_are_dropped() {
    let world = World::new("cut");
    let inode = world.file("file", &pages(1, 10));
    let way = Mutex::default();
    assert!(world.read(&inode, &way, 0, 40_960) == pages(1, 10));
    assert!(inode.content.read().lease.is_some(), "it is leased");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC;
    drop(rustix::fs::open(world.path().join("file"), flags, rustix::fs::Mode::empty()).unwrap());
    assert_eq!(world.read(&inode, &way, 0, 40_960), b"");
    let end = Instant::now() + Duration::from_secs(30);
    while world.files.cache().counts().1 > 0 {
        assert!(Instant::now() < end, "its pages stay");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The end of a mapping of this process with nothing mapped behind it.
fn edge_of_memory() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges: Vec<(u64, u64, bool)> = maps
        .lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            // The kernel's own pages are not read so.
            let plain = rest.starts_with('r') && !line.contains("[v");
            (number(start), number(end), plain)
        })
        .collect();
    let edge = ranges.windows(2).find(|two| two[0].2 && two[0].1 != two[1].0);
    edge.unwrap()[0].1
}

/// `/proc/self/mem` cannot be read where nothing is mapped: as a device that fails behind some bytes.
#[test]
fn an_error_behind_bytes_is_told_and_never_stands_for_the_end_of_the_file() {
    let world = World::new("error");
    let inode = world.file("file", b"");
    let memory = || rustix::fs::open("/proc/self/mem", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    let reader = Reader::new(memory().unwrap(), |_| Err(rustix::io::Errno::INVAL));
    inode.content.write().reader = Some(reader);
    let state = inode.content.read();
    let edge = edge_of_memory();
    let read = |offset, size| world.files.read(&inode, &state, (offset, size), &Mutex::default());
    let served = read(edge - 100, 4096).unwrap();
    assert_eq!((served.bytes.len(), served.behind), (100, Some(rustix::io::Errno::IO)));
    assert_eq!(served.for_pages().unwrap_err(), rustix::io::Errno::IO);
    assert_eq!(read(edge, 4096).unwrap_err(), rustix::io::Errno::IO);
    let served = read(edge - 100, 100).unwrap();
    assert_eq!((served.bytes.len(), served.behind), (100, None));
    assert_eq!(served.for_pages().unwrap().len(), 100);
}
