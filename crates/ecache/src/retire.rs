//! Memory that a client had who is not trusted: it goes back to the kernel, and other memory takes its place.
//!
//! A ring of io_uring or a device may keep (pin) frames that no descriptor and no mapping shows. What is kept
//! elsewhere is not taken from the machine twice: as much of the device waits. So each frame that was lent is followed
//! until it is free. The kernel tells of every frame that becomes free; whoever gets it then is nothing to this
//! device. Where the kernel does not tell, a frame counts as kept as long as it looks so, which one in another object
//! may do. Memory that takes the place of other memory, and was not lent yet, is not suspected at all.

use crate::region::Region;
use freehold_linux::PageRange;
use freehold_linux::freed_frames::{FreedFrames, Watch};
use freehold_linux::memory::{Chunk, HUGE_PAGES};
use freehold_linux::physical::Pins;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Small frames that are given back together.
const TOGETHER: usize = 512;

/// What the kernel tells of frames; made when it is wanted first, and kept.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    freed: OnceLock<Option<FreedFrames>>,
}

/// Frames of a device that have been given back and are not free yet.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    frames: BTreeSet<u64>,
    watch: Option<Watch>,
}

/// A chunk that has left the region, with the frames that its pages had, as far as they are known.
struct Left {
    chunk: Chunk,
    frames: Vec<Option<u64>>,
}

impl Region {
    /// Gives the memory of chunks that nobody else has back to the kernel, and takes other memory for them. Returns
    /// those that have it. As long as something in the kernel keeps a frame, a chunk waits, without memory.
    pub(crate) fn retire(&self, places: &[usize], kept: &mut Kept) -> Vec<usize> {
        let left = self.take_out(places);
        let pins = Pins::open().ok();
        if self.is_huge() {
            return self.retire_huge(places, left, pins.as_ref(), &mut kept.frames);
        }
        match pins {
            Some(pins) => kept.follow(left, &pins, &self.machine),
            None => left.iter().for_each(Left::give_up),
        }
        let ready = places.len() - self.waiting(places, kept.frames.len());
        self.renew(&places[..ready])
    }

    /// The pool of huge pages is last in, first out. What was given back, does not come again at once and is not in use
    /// again is kept.
    fn retire_huge(
        &self,
        places: &[usize],
        left: Vec<Left>,
        pins: Option<&Pins>,
        kept: &mut BTreeSet<u64>,
    ) -> Vec<usize> {
        for left in left {
            kept.extend(left.frames());
            left.give_up();
        }
        let mut fresh = self.renew(places);
        for frame in fresh.iter().flat_map(|place| self.frames(*place)).flatten() {
            kept.remove(&frame);
        }
        kept.retain(|frame| pins.is_some_and(|pins| !pins.is_used_again(*frame).unwrap_or(true)));
        let waiting = self.waiting(&fresh, kept.len() * HUGE_PAGES);
        for place in fresh.split_off(fresh.len() - waiting) {
            drop(self.take_out(&[place]));
        }
        fresh
    }

    /// Takes chunks out, whose places are empty then: those first whose frames lie last. The pool of huge pages is last
    /// in, first out, so that what comes next ascends.
    fn take_out(&self, places: &[usize]) -> Vec<Left> {
        let take = |place: &usize| {
            let frames = self.frames(*place);
            Some(Left {
                chunk: self.leave(*place)?,
                frames,
            })
        };
        let mut left: Vec<Left> = places.iter().filter_map(take).collect();
        left.sort_by(|one, other| other.frames.cmp(&one.frames));
        left
    }

    /// How many of the places, from the last on, have as many pages as are kept elsewhere.
    fn waiting(&self, places: &[usize], mut pages: usize) -> usize {
        let waits = |place: &&usize| {
            let waits = pages > 0;
            pages = pages.saturating_sub(self.pages_at(**place));
            waits
        };
        places.iter().rev().take_while(waits).count()
    }
}

impl Kept {
    /// Gives memory back to the kernel. What does not become free is kept, with what was kept already.
    fn follow(&mut self, left: Vec<Left>, pins: &Pins, machine: &Frames) {
        if !left.is_empty() {
            // Frames that CPUs have in hand would become free later.
            Pins::settle();
        }
        let before = self.frames.len();
        for left in left {
            self.give_back(&left, pins, machine);
        }
        if self.frames.len() > before {
            Pins::settle();
        }
        self.forget_freed();
        self.frames.retain(|frame| pins.has(*frame).unwrap_or(false));
        if self.frames.is_empty() {
            self.watch = None;
        }
    }

    /// Gives the memory of one chunk back. Only some of its frames are watched at a time: the kernel has room to tell
    /// of so many, and of few others.
    fn give_back(&mut self, left: &Left, pins: &Pins, machine: &Frames) {
        for (number, part) in left.frames.chunks(TOGETHER).enumerate() {
            let mut frames: BTreeSet<u64> = part.iter().flatten().copied().collect();
            let mut watch = machine.watch(&frames);
            let _ = left.chunk.punch_part(PageRange::new(number * TOGETHER, part.len()));
            let mut forget = |frames: &mut BTreeSet<u64>| {
                if let Some(watch) = &mut watch {
                    watch.remove_freed(frames);
                }
            };
            forget(&mut frames);
            frames.retain(|frame| pins.is_cut_off(*frame).unwrap_or(false));
            if !frames.is_empty() {
                self.frames.append(&mut frames);
                self.watch_anew(machine);
                forget(&mut self.frames);
            }
        }
        // Where the kernel does not say which frames these are.
        left.give_up();
    }

    /// Watches what is kept now, and nothing else.
    fn watch_anew(&mut self, machine: &Frames) {
        let before = std::mem::replace(&mut self.watch, machine.watch(&self.frames));
        if let Some(mut before) = before {
            before.remove_freed(&mut self.frames);
        }
    }

    fn forget_freed(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.remove_freed(&mut self.frames);
        }
    }
}

impl Frames {
    fn watch(&self, frames: &BTreeSet<u64>) -> Option<Watch> {
        let freed = self.freed.get_or_init(FreedFrames::open).as_ref()?;
        (!frames.is_empty()).then(|| freed.watch(frames))?
    }
}

impl Left {
    /// Gives the memory back, whoever has a path to it.
    fn give_up(&self) {
        // Where the kernel refuses, the memory goes with the object.
        let _ = self.chunk.punch();
    }

    fn frames(&self) -> impl Iterator<Item = u64> {
        self.frames.iter().flatten().copied()
    }
}
