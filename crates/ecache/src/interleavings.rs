//! Every order of the steps of a put, a get, a flush and an opening that meet at one page and one frame. What a step
//! does, it does under the lock, or in a frame that is its own: so these are all interleavings that threads can have.

use super::{Cache, Key};
use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::{DeviceId, FileId, FrameIndex, FrameRange, Got};
use freehold_linux::PAGE_SIZE;
use freehold_scenario::DeviceFile;

const OLD: u8 = 1;
const NEW: u8 = 2;
/// What the device writes.
const JUNK: u8 = 3;

const KEY: Key = Key {
    file: FileId::new(1),
    page: PageIndex::new(0),
};

/// What a thread is at: how many of its steps are done.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    put: u8,
    get: u8,
    flush: u8,
    open: u8,
}

/// One run.
struct Run {
    cache: Cache,
    done: Done,
    filling: Option<FrameIndex>,
    leaving: Option<FrameIndex>,
    copy: [u8; PAGE_SIZE],
    /// What a get may give now: the version that the page has, where it is not flushed.
    version: Option<u8>,
    /// What it was when the get began.
    wanted: Option<u8>,
    right: bool,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Put,
    Get,
    Flush,
    Open,
}

/// How many steps each has.
const STEPS: [u8; 4] = [3, 3, 1, 2];
const ALL: [Who; 4] = [Who::Put, Who::Get, Who::Flush, Who::Open];

impl Run {
    fn new() -> Self {
        let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"d\"\nsize = \"4KiB\"\n";
        let file = DeviceFile::parse(text, "d.toml").unwrap();
        let cache = Cache::new(&file).unwrap();
        cache.put(KEY, &[OLD; PAGE_SIZE]).unwrap();
        Self {
            cache,
            done: Done::default(),
            filling: None,
            leaving: None,
            copy: [0; PAGE_SIZE],
            version: Some(OLD),
            wanted: None,
            right: false,
        }
    }

    /// Does the next step of one; false where it has none, or has to wait.
    fn step(&mut self, who: Who) -> bool {
        match who {
            Who::Put => self.put(),
            Who::Get => self.get(),
            Who::Flush => self.flush(),
            Who::Open => self.open(),
        }
    }

    fn put(&mut self) -> bool {
        let shared = &self.cache.shared;
        match self.done.put {
            0 => {
                self.filling = shared.begin_put(KEY).ok();
                // Whatever was there of this page is gone, whether there is a frame for the new one or not.
                self.version = self.filling.map(|_| NEW);
            }
            1 => {
                if let Some(frame) = self.filling {
                    assert!(shared.copy_in(frame, KEY, &[NEW; PAGE_SIZE]));
                }
            }
            2 => {
                if let Some(frame) = self.filling {
                    shared.end_copy(frame, true);
                }
            }
            _ => return false,
        }
        self.done.put += 1;
        true
    }

    fn get(&mut self) -> bool {
        let shared = &self.cache.shared;
        match self.done.get {
            0 => {
                self.wanted = self.version;
                if let Got::Hit(frame) = shared.begin_get(KEY) {
                    self.leaving = Some(frame);
                }
                self.version = None;
            }
            1 => {
                if let Some(frame) = self.leaving {
                    self.right = shared.copy_out(frame, KEY, &mut self.copy);
                    assert!(self.right, "nobody writes a frame that a copy is under way in");
                }
            }
            2 => {
                if let Some(frame) = self.leaving {
                    shared.end_copy(frame, true);
                    assert_eq!(
                        Some(self.copy[0]),
                        self.wanted,
                        "a get gives the version of when it began"
                    );
                }
            }
            _ => return false,
        }
        self.done.get += 1;
        true
    }

    fn flush(&mut self) -> bool {
        if self.done.flush > 0 {
            return false;
        }
        self.cache.flush_page(KEY);
        self.version = None;
        self.done.flush += 1;
        true
    }

    fn open(&mut self) -> bool {
        let shared = &self.cache.shared;
        let device = DeviceId::new(0).unwrap();
        match self.done.open {
            0 => {
                let mut state = shared.state();
                let _ = state.core.open(device, FrameCount::ZERO).unwrap();
                state.drain();
                // The region is this page's only place.
                self.version = None;
            }
            1 => {
                let mut state = shared.state();
                let Some(range) = state.rows[0].handed.take() else {
                    return false;
                };
                assert_eq!(state.core.frames().filling.get() + state.core.frames().leaving.get(), 0);
                drop(state);
                shared.region.zero(range).unwrap();
                let only = FrameRange::new(FrameIndex::new(0), FrameCount::new(1));
                for fd in shared.region.descriptors(only).unwrap() {
                    rustix::io::pwrite(&fd, &[JUNK; PAGE_SIZE], 0).unwrap();
                }
            }
            _ => return false,
        }
        self.done.open += 1;
        true
    }
}

/// Every order that begins as this one does; one in which a step had to wait is another's.
fn explore(order: &mut Vec<Who>, left: [u8; 4], ends: &mut u32) {
    if left == [0; 4] {
        let mut run = Run::new();
        if order.iter().all(|who| run.step(*who)) {
            run.cache.check_laws().unwrap();
            *ends += 1;
        }
        return;
    }
    for (place, who) in ALL.into_iter().enumerate() {
        if left[place] > 0 {
            let mut left = left;
            left[place] -= 1;
            order.push(who);
            explore(order, left, ends);
            order.pop();
        }
    }
}

#[test]
fn a_page_and_a_frame_survive_every_order_of_steps() {
    let mut ends = 0;
    explore(&mut Vec::new(), STEPS, &mut ends);
    assert!(ends > 1000, "{ends} orders");
}
