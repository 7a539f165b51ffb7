//! Memory that a ring of io_uring keeps after its client has closed everything: no lease shows it.

mod common;

use common::{Random, cache, cache_on, content, key, until};
use freehold_ecache::{Cache, Client, DeviceState, Opened, PAGE_SIZE};
use freehold_linux::PageRange;
use freehold_linux::memory::{Access, Chunk, Memfd, SharedMapping};
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

fn openings() -> usize {
    if std::env::var_os("FREEHOLD_SOAK").is_some() {
        2000
    } else {
        60
    }
}

/// A ring that keeps some pages of an opening, after everything else of it has been closed.
struct Pins {
    ring: IoUring,
    buffers: Vec<libc::iovec>,
}

/// Keeps pages at these places; `None` where there is no io_uring.
fn pin(opened: Opened, places: &[usize]) -> Option<Pins> {
    let ring = match IoUring::new(8) {
        Ok(ring) => ring,
        Err(error) => {
            eprintln!("not run: there is no io_uring here ({error})");
            return None;
        }
    };
    let map = |fd: &OwnedFd| {
        let memory = Memfd::adopt(fd.try_clone().expect("a descriptor is left"), 512).expect("it is a memory object");
        SharedMapping::of_whole(&memory, Access::ReadWrite).expect("it can be mapped")
    };
    let mappings: Vec<SharedMapping> = opened.grant.descriptors.iter().map(map).collect();
    let buffer = |place: &usize| libc::iovec {
        iov_base: mappings[place / 512]
            .base()
            .wrapping_add(place % 512 * PAGE_SIZE)
            .cast(),
        iov_len: PAGE_SIZE,
    };
    let buffers: Vec<libc::iovec> = places.iter().map(buffer).collect();
    // SAFETY: the buffers are mapped now; the kernel keeps their frames, and they are reached through it only.
    unsafe { ring.submitter().register_buffers(&buffers) }.expect("they are mapped");
    Some(Pins { ring, buffers })
}

impl Pins {
    /// Has the kernel write to the pages that it keeps.
    fn write(&mut self) {
        let source = std::fs::File::open("/dev/urandom").expect("it is there");
        for (number, buffer) in (0..).zip(&self.buffers) {
            let (at, length) = (
                buffer.iov_base.cast(),
                u32::try_from(buffer.iov_len).expect("it is a page"),
            );
            let read = opcode::ReadFixed::new(types::Fd(source.as_raw_fd()), at, length, number).build();
            // SAFETY: the buffer is registered; the kernel writes to its frame, which no reference leads to.
            unsafe { self.ring.submission().push(&read) }.expect("there is room");
            self.ring.submit_and_wait(1).expect("it is read");
            let done = self.ring.completion().next().expect("it is told").result();
            assert_eq!(usize::try_from(done), Ok(PAGE_SIZE), "buffer {number}");
        }
    }
}

fn fill(cache: &Cache, pages: u32) {
    for page in 0..pages {
        let put = cache.put(key(1, page), &content(key(1, page), 0));
        put.expect("a frame is free or can be");
    }
}

/// Whether these pages are there, each as it was put.
fn are_right(cache: &Cache, pages: u32) -> bool {
    let mut page = [0; PAGE_SIZE];
    (0..pages).all(|number| cache.get(key(1, number), &mut page) && page == content(key(1, number), 0))
}

fn frames_are_told() -> bool {
    let told = rustix::process::geteuid().is_root();
    if !told {
        eprintln!("not run: frames are told to root only");
    }
    told
}

#[test]
fn a_pinned_page_is_no_page_of_the_cache() {
    if !frames_are_told() {
        return;
    }
    // By hand: the machine's huge pages are others' too.
    let huge = std::env::var_os("FREEHOLD_HUGE").is_some();
    let devices = [("mfc0", "4MiB", false), ("jpeg", "2MiB", false)];
    let cache = cache_on(if huge { "huge" } else { "small" }, &devices);
    let opened = cache.open("mfc0", 0, Client::default()).unwrap();
    let Some(mut pins) = pin(opened, &[0]) else { return };
    until("the rest comes back", || cache.counts().0.retired.get() == 512);
    assert_eq!(cache.device_rows()[0].state, DeviceState::Returning);
    assert_eq!(cache.counts().0.device.get(), 0, "what is not pinned serves again");
    fill(&cache, 1024);
    pins.write();
    drop(pins);
    until("it comes back", || cache.device_rows()[0].state == DeviceState::Idle);
    assert_eq!(cache.counts().0.retired.get(), 0);
    assert!(are_right(&cache, 1024));
    assert_eq!(cache.region_row().mismatched, 0);
    cache.check_laws().unwrap();
}

/// As much of a device waits as is pinned of it, for as long, whoever else takes and gives frames meanwhile.
#[test]
fn what_is_pinned_anywhere_waits_until_it_is_let_go_beside_a_neighbour() {
    if !frames_are_told() {
        return;
    }
    let cache = cache(&[("mfc0", "8MiB", false), ("jpeg", "2MiB", false)]);
    let neighbour = Neighbour::start();
    let mut random = Random(11);
    for _ in 0..16 {
        let places: Vec<usize> = (0..=random.below(7))
            .map(|_| usize::try_from(random.below(2048)).unwrap())
            .collect();
        let opened = cache.open("mfc0", 0, Client::default()).unwrap();
        let Some(mut pins) = pin(opened, &places) else { return };
        until("what is pinned waits", || cache.counts().0.retired.get() == 512);
        assert_eq!(cache.counts().0.device.get(), 0);
        fill(&cache, 2048);
        pins.write();
        assert!(are_right(&cache, 2048), "{places:?}");
        assert_eq!(cache.counts().0.retired.get(), 512, "{places:?}");
        drop(pins);
        until("it comes back", || cache.device_rows()[0].state == DeviceState::Idle);
    }
    drop(neighbour);
    assert_eq!(cache.region_row().mismatched, 0);
    cache.check_laws().unwrap();
}

/// Frames go round between a program and the kernel's free ones: each is read once, and lies in its memory object then,
/// clean and mapped by nobody, for about as long as an opener waits for its device.
struct Neighbour {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Pages that the neighbour takes at once, and how often until it comes to the first of them again.
const AT_ONCE: usize = 64;
const STEPS: usize = 1024;

impl Neighbour {
    fn start() -> Self {
        let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (Arc::clone(&stop), Arc::clone(&steps));
        let thread = std::thread::spawn(move || {
            let object = Chunk::create(c"neighbour", AT_ONCE * STEPS, false).expect("there is memory for a test");
            while !told.load(Ordering::Relaxed) {
                let step = counted.fetch_add(1, Ordering::Relaxed);
                let part = PageRange::new(step % STEPS * AT_ONCE, AT_ONCE);
                object.punch_part(part).expect("it can be punched");
                read_once(&object, part).expect("it can be mapped");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            stop,
            steps,
            thread: Some(thread),
        }
    }

    /// Goes on when it has taken frames once more.
    fn await_step(&self) {
        let before = self.steps.load(Ordering::Relaxed);
        until("the neighbour goes on", || self.steps.load(Ordering::Relaxed) > before);
    }
}

fn read_once(object: &Chunk, part: PageRange) -> rustix::io::Result<()> {
    let (place, length) = ((part.first() * PAGE_SIZE) as u64, part.count() * PAGE_SIZE);
    // SAFETY: a new mapping at a place that the kernel chooses, gone before anything else can use it.
    unsafe {
        let at = mmap(null_mut(), length, ProtFlags::READ, MapFlags::SHARED, object, place)?;
        madvise(at, length, Advice::LinuxPopulateRead)?;
        munmap(at, length)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            std::thread::panicking() || matches!(ended, Some(Ok(()))),
            "it ran to the end"
        );
    }
}

#[test]
fn what_a_neighbour_got_since_is_nobodys_pin() {
    let cache = cache(&[("mfc0", "4MiB", false)]);
    let neighbour = Neighbour::start();
    for opening in 0..openings() {
        let opened = cache.open("mfc0", 0, Client::default());
        assert!(opened.is_ok(), "opening {opening}: {}", opened.unwrap_err());
        neighbour.await_step();
    }
    drop(neighbour);
    cache.check_laws().unwrap();
}
