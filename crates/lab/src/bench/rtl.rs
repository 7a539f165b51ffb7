//! FIFOs and shared memory of modules, beside bare ones.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use freehold_linux::ThreadId;
use freehold_linux::clock;
use freehold_linux::sched;
use freehold_rtl::area::Area;
use freehold_rtl::directory::{Directory, Kind};
use freehold_rtl::fifo::peer::ProcessSide;
use freehold_rtl::fifo::reader::Reader;
use freehold_rtl::memory::NamedMemory;
use freehold_rtl::rtf;

use super::Bench;
use super::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const MESSAGE: usize = 64;
const WORDS: usize = MESSAGE / 8;
/// Messages that a ring holds.
const SLOTS: u64 = 4_096;
/// Messages of one sample: their mean is it.
const BATCH: u64 = 1_000;
const SAMPLES: u32 = 400;
/// Messages of one sample between CPUs.
const TRANSMITTED: u64 = 100_000;
const TRANSMISSIONS: u32 = 20;
const SHARED: usize = 1 << 20;

/// `rtf-put`.
pub(super) const PUT: Bench = Bench {
    name: "rtf-put",
    about: "rtf_put of 64 bytes by a real-time thread",
    floor: "the same bytes into a bare ring",
    unit: "ns",
    judged: Judged::OursP50,
    goal: 50.0,
    run: put,
};

/// `rtf-get`.
pub(super) const GET: Bench = Bench {
    name: "rtf-get",
    about: "rtf_get of 64 bytes by a real-time thread",
    floor: "the same bytes out of a bare ring",
    unit: "ns",
    judged: Judged::OursP50,
    goal: 50.0,
    run: get,
};

/// `rtf-stream`.
pub(super) const STREAM: Bench = Bench {
    name: "rtf-stream",
    about: "a message of 64 bytes from rtf_put on one CPU to a process's reader of the FIFO on another",
    floor: "the same through a bare ring, each index published with each message",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 2.5,
    run: stream,
};

/// `mbuff`.
pub(super) const MEMORY: Bench = Bench {
    name: "mbuff",
    about: "1 MiB written into memory of mbuff_alloc",
    floor: "1 MiB written into memory of one's own",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.1,
    run: memory,
};

/// A FIFO of this process that is destroyed in the end.
struct Fifo(u32);

impl Fifo {
    /// The highest number that is free.
    fn create() -> Result<Self, Failure> {
        let size = i32::try_from(SLOTS * MESSAGE as u64).map_err(refused)?;
        let free = (0..64).rev().find(|number| rtf::create(*number, size).is_ok());
        free.map(Self).ok_or_else(|| refused("no FIFO can be created"))
    }

    fn put(&self, message: &[u8; MESSAGE]) -> bool {
        rtf::put(self.0, message).is_ok()
    }

    fn get(&self, message: &mut [u8; MESSAGE]) -> bool {
        rtf::get(self.0, message) == Ok(MESSAGE)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // Nobody else has opened it.
        let _ = rtf::destroy(self.0);
    }
}

/// A ring without books: words, and two indices that each side believes.
struct Bare {
    words: Vec<AtomicU64>,
    written: Index,
    read: Index,
}

/// On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Index(AtomicU64);

impl Bare {
    fn new() -> Self {
        let words = WORDS * usize::try_from(SLOTS).unwrap_or(0);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            written: Index::default(),
            read: Index::default(),
        }
    }

    fn slot(&self, index: u64) -> &[AtomicU64] {
        let place = usize::try_from(index % SLOTS).unwrap_or(0) * WORDS;
        &self.words[place..place + WORDS]
    }

    fn put(&self, message: &[u64; WORDS]) -> bool {
        let written = self.written.0.load(Ordering::Relaxed);
        if written - self.read.0.load(Ordering::Acquire) == SLOTS {
            return false;
        }
        let slot = self.slot(written);
        slot.iter()
            .zip(message)
            .for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        self.written.0.store(written + 1, Ordering::Release);
        true
    }

    fn get(&self, message: &mut [u64; WORDS]) -> bool {
        let read = self.read.0.load(Ordering::Relaxed);
        if read == self.written.0.load(Ordering::Acquire) {
            return false;
        }
        let slot = self.slot(read);
        message
            .iter_mut()
            .zip(slot)
            .for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
        self.read.0.store(read + 1, Ordering::Release);
        true
    }
}

/// Times a batch of `event`; each must succeed.
fn batch(samples: &mut Samples, mut event: impl FnMut() -> bool) -> Result<(), Failure> {
    let begun = clock::now();
    let done = (0..BATCH).filter(|_| event()).count();
    samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), BATCH);
    if done as u64 == BATCH {
        Ok(())
    } else {
        Err(refused("a message was not put, or not there"))
    }
}

/// Puts, or gets, `repeat` batches; the other direction between them is not timed.
fn in_turns(effort: Effort, timed_put: bool) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let (bare, fifo) = (Bare::new(), Fifo::create()?);
    let mut other = Samples::new()?;
    let repeat = effort.scaled(SAMPLES);
    let (mut words, mut bytes) = ([7; WORDS], [7; MESSAGE]);
    for _ in 0..effort.rounds {
        for _ in 0..repeat {
            let (put, get) = if timed_put {
                (&mut found.floor, &mut other)
            } else {
                (&mut other, &mut found.floor)
            };
            batch(put, || bare.put(black_box(&words)))?;
            batch(get, || bare.get(black_box(&mut words)))?;
        }
        for _ in 0..repeat {
            let (put, get) = if timed_put {
                (&mut found.ours, &mut other)
            } else {
                (&mut other, &mut found.ours)
            };
            batch(put, || fifo.put(black_box(&bytes)))?;
            batch(get, || fifo.get(black_box(&mut bytes)))?;
        }
    }
    Ok(found)
}

fn put(effort: Effort) -> Result<Found, Failure> {
    in_turns(effort, true)
}

fn get(effort: Effort) -> Result<Found, Failure> {
    in_turns(effort, false)
}

fn stream(effort: Effort) -> Result<Found, Failure> {
    let cpus = sched::allowed_cpus().map_err(refused)?;
    let [from, .., to] = *cpus.as_slice() else {
        return Err(refused("a stream between CPUs needs two of them"));
    };
    let before = sched::affinity(ThreadId::current()).map_err(refused)?;
    let mut found = Found::new()?;
    let bare = Arc::new(Bare::new());
    let fifo = Fifo::create()?;
    let directory = Directory::open().map_err(refused)?;
    let side = || {
        let area = directory.find(Kind::Fifo, &fifo.0.to_string());
        area.and_then(ProcessSide::of).map_err(refused)
    };
    let repeat = effort.scaled(TRANSMISSIONS);
    found.alternate(
        effort,
        |samples| {
            for _ in 0..repeat {
                let (own, mut words) = (Arc::clone(&bare), [0; WORDS]);
                let reader = move || own.get(&mut words);
                transmit(samples, [from, to], || bare.put(&[7; WORDS]), reader)?;
            }
            Ok(())
        },
        |samples| {
            for _ in 0..repeat {
                let (mut reader, mut bytes) = (Reader::new(side()?), [0; MESSAGE]);
                let get = move || reader.read(&mut bytes) == MESSAGE;
                transmit(samples, [from, to], || fifo.put(&[7; MESSAGE]), get)?;
            }
            Ok(())
        },
    )?;
    sched::set_affinity(ThreadId::current(), &before).map_err(refused)?;
    let note = "the reader takes up to 4 KiB at once, and looks less often where it finds little; the floor's polls";
    found.notes.push(note.to_owned());
    Ok(found)
}

/// Times so many messages from one CPU to another, by the time that the reader has them all.
fn transmit(
    samples: &mut Samples,
    [from, to]: [usize; 2],
    mut put: impl FnMut() -> bool,
    mut get: impl FnMut() -> bool + Send + 'static,
) -> Result<(), Failure> {
    let ready = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&ready);
    sched::pin(ThreadId::current(), from).map_err(refused)?;
    let reader = std::thread::spawn(move || {
        let pinned = sched::pin(ThreadId::current(), to);
        begins.store(true, Ordering::Release);
        let mut left = TRANSMITTED;
        while left > 0 {
            left -= u64::from(get());
        }
        pinned.map(|()| clock::now())
    });
    while !ready.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let begun = clock::now();
    let mut left = TRANSMITTED;
    while left > 0 {
        left -= u64::from(put());
    }
    let ended = reader
        .join()
        .map_err(|_| refused("the reader failed"))?
        .map_err(refused)?;
    samples.record_mean(
        ended.saturating_since(begun).as_nanos().try_into().unwrap_or(u64::MAX),
        TRANSMITTED,
    );
    Ok(())
}

fn memory(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let directory = Directory::open().map_err(refused)?;
    let name = format!("bench-{}", std::process::id());
    let shared = NamedMemory::hold(&directory, &name, SHARED, true, 0).map_err(refused)?;
    let area: &Area = shared.area();
    let (source, mut own) = (vec![7_u8; SHARED], vec![1_u8; SHARED]);
    let repeat = effort.scaled(SAMPLES);
    found.alternate(
        effort,
        |samples| {
            for _ in 0..repeat {
                samples.time(|| black_box(&mut own).copy_from_slice(black_box(&source)));
            }
            Ok(())
        },
        |samples| {
            for _ in 0..repeat {
                let copied = samples.time(|| area.copy_in(0, black_box(&source)));
                copied.ok_or_else(|| refused("the memory is too small"))?;
            }
            Ok(())
        },
    )?;
    Ok(found)
}
