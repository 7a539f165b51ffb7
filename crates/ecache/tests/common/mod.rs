//! What the tests share: device files, pages that tell whose they are, and the client's side of an opening.

#![allow(dead_code, reason = "each test uses some of it")]

use freehold_ecache::{Cache, FileId, Key, PAGE_SIZE, PageIndex};
use freehold_scenario::DeviceFile;
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};

pub(crate) const MIB: usize = 1 << 20;

/// A cache for devices `name size trusted`, on small pages.
pub(crate) fn cache(devices: &[(&str, &str, bool)]) -> Cache {
    cache_on("small", devices)
}

pub(crate) fn cache_on(backing: &str, devices: &[(&str, &str, bool)]) -> Cache {
    let mut text = format!("[region]\nbacking = \"{backing}\"\n");
    for (name, size, trusted) in devices {
        text += &format!("[[device]]\nname = \"{name}\"\nsize = \"{size}\"\ntrusted = {trusted}\n");
    }
    let file = DeviceFile::parse(&text, "devices.toml").expect("the test's devices are good");
    Cache::new(&file).expect("there is memory for a test")
}

pub(crate) fn key(file: u64, page: u32) -> Key {
    Key {
        file: FileId::new(file),
        page: PageIndex::new(page),
    }
}

/// The content of a page at one of its versions: every word tells all three.
pub(crate) fn content(key: Key, version: u64) -> [u8; PAGE_SIZE] {
    let word = key.file.get() << 48 ^ u64::from(key.page.get()) << 24 ^ version;
    let mut page = [0; PAGE_SIZE];
    for (at, place) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *place = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64).to_le_bytes();
    }
    page
}

/// Reads a descriptor's whole memory object.
pub(crate) fn read_all(fd: &OwnedFd) -> Vec<u8> {
    let size = usize::try_from(rustix::fs::fstat(fd).expect("it is open").st_size).expect("it is small");
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        let count = rustix::io::pread(fd, &mut bytes[done..], done as u64).expect("it can be read");
        assert!(count > 0, "it is as long as its size");
        done += count;
    }
    bytes
}

/// Waits for something that must come.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Pages of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 31)) % bound
    }
}
