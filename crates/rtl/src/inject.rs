//! Faults of the time-sharing side, on request: what a kernel or a driver with a bug does to what shares its memory.

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use freehold_linux::ThreadId;
use freehold_linux::clock;
use freehold_linux::sched::{self, Policy};
use serde::{Deserialize, Serialize};

use crate::area::Area;
use crate::directory::{Directory, Kind};
use crate::fifo::peer::ProcessSide;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Random words are stored at random places of the process's own memory.
    RandomStores,
    /// Memory is taken and never given back.
    Leak,
    /// A thread computes at SCHED_FIFO 50.
    Spin,
    /// Many processes are forked at once.
    Forks,
    /// The process is killed.
    Kill,
    /// The indices of every FIFO are overwritten.
    CorruptFifos,
    /// Every shared memory is overwritten.
    CorruptMemory,
    /// The process stops: nothing is served any more.
    Stop,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::RandomStores,
        Self::Leak,
        Self::Spin,
        Self::Forks,
        Self::Kill,
        Self::CorruptFifos,
        Self::CorruptMemory,
        Self::Stop,
    ];
}

/// Words that a fault stores.
const STORES: u32 = 256;
const LEAKED: usize = 16 << 20;
const SPUN: Duration = Duration::from_millis(20);
const FORKED: u32 = 32;

/// Random numbers of one fault.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Does it, in the calling process. It may not return.
pub(crate) fn inject(directory: &Directory, fault: Fault, seed: u64) {
    let mut random = Random(seed);
    match fault {
        Fault::RandomStores => random_stores(&mut random),
        Fault::Leak => std::mem::forget(black_box(vec![1_u8; LEAKED])),
        Fault::Spin => spin(),
        Fault::Forks => forks(),
        Fault::Kill => signal_self(libc::SIGKILL),
        Fault::CorruptFifos => corrupt_fifos(directory, &mut random),
        Fault::CorruptMemory => corrupt_memory(directory, &mut random),
        Fault::Stop => signal_self(libc::SIGSTOP),
    }
}

/// Where this process may write: the ranges of its writable mappings.
fn writable() -> Vec<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let parse = |text| usize::from_str_radix(text, 16).ok();
        rest.starts_with("rw").then_some((parse(start)?, parse(end)?))
    };
    maps.lines().filter_map(range).collect()
}

fn random_stores(random: &mut Random) {
    let ranges = writable();
    let bytes: usize = ranges.iter().map(|(start, end)| end - start).sum();
    for _ in 0..STORES {
        let mut place = usize::try_from(random.next()).unwrap_or(0) % bytes.max(1);
        for (start, end) in &ranges {
            if place < end - start {
                let word: *mut u64 = std::ptr::with_exposed_provenance_mut((start + place) & !7);
                // SAFETY: none: this is the fault that is asked for. The word is mapped and writable, and whatever it
                // belonged to is broken from here on. The process is one that is made to be broken.
                unsafe { word.write_volatile(random.next()) };
                break;
            }
            place -= end - start;
        }
    }
}

fn spin() {
    // It ends by itself; where no thread can be made, nothing spins.
    let _ = std::thread::Builder::new().stack_size(128 * 1024).spawn(|| {
        let _ = sched::pin(ThreadId::current(), 0);
        let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 50 });
        let until = clock::now().saturating_add(SPUN);
        while clock::now() < until {
            std::hint::spin_loop();
        }
    });
}

fn forks() {
    for _ in 0..FORKED {
        // SAFETY: the child sleeps and ends, by functions that are async-signal-safe.
        unsafe {
            if libc::fork() == 0 {
                libc::usleep(20_000);
                libc::_exit(0);
            }
        }
    }
    // SAFETY: waits for children of this process, and asks for no status.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

fn signal_self(signal: i32) {
    // SAFETY: ends or stops this process, which is what is asked for.
    unsafe { libc::kill(libc::getpid(), signal) };
}

fn corrupt_fifos(directory: &Directory, random: &mut Random) {
    for name in directory.names(Kind::Fifo) {
        let side = directory.find(Kind::Fifo, &name).and_then(ProcessSide::of);
        if let Ok(side) = side {
            side.corrupt_read_index(random.next());
        }
    }
}

fn corrupt_memory(directory: &Directory, random: &mut Random) {
    for name in directory.names(Kind::Memory) {
        let links = fs::read_dir(directory.link(Kind::Memory, &name))
            .into_iter()
            .flatten()
            .flatten();
        for area in links.filter_map(|link| Area::open(&link.path()).ok()) {
            for word in 0..area.bytes() / 8 {
                // SAFETY: within the mapping and aligned. It is shared with others, who take its content for what it
                // is: bytes that anybody may write.
                unsafe { area.start().cast::<u64>().add(word).write_volatile(random.next()) };
            }
        }
    }
}
