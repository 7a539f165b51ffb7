//! Room for records of any size up to a page: slabs of one size each, in locked memory.
//!
//! A slab is a few frames, cut into equal places of a size class; it belongs to a class as long as a record is in it.
//! Slabs are given locked frames as they are first needed, and keep them: a slab left empty serves any class next.

use crate::RECORD_SIZE;
use crate::error::SetupError;
use freehold_core::units::FrameCount;
use freehold_linux::memory::{Memfd, SharedMapping, locked_memfd};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames of a slab.
pub(super) const SLAB_FRAMES: u32 = 4;
const SLAB_SIZE: usize = SLAB_FRAMES as usize * PAGE_SIZE;
/// The classes are the multiples of this.
const STEP: usize = 256;
pub(super) const SIZES: u32 = 16;
const CLASSES: usize = SIZES as usize;
const PLACES: u32 = 64;
const END: u32 = u32::MAX;

// The places of a slab are the bits of a word, and the largest class holds a whole record.
const _: () = assert!(CLASSES * STEP == RECORD_SIZE);
const _: () = assert!(SLAB_SIZE / STEP <= PLACES as usize);

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    fn slab(self) -> usize {
        (self.0 / PLACES) as usize
    }

    fn index(self) -> usize {
        (self.0 % PLACES) as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    class: usize,
    /// A bit for each place in use.
    used: u64,
    /// Neighbours among the slabs of the class that have room, or, of an empty slab, among the empty ones.
    before: u32,
    after: u32,
}

impl Slab {
    /// How many places it has.
    fn places(&self) -> u32 {
        places(self.class)
    }

    fn is_full(&self) -> bool {
        self.used.count_ones() == self.places()
    }
}

fn places(class: usize) -> u32 {
    // At most 64, as asserted above.
    u32::try_from(SLAB_SIZE / size(class)).unwrap_or(PLACES)
}

/// Bytes of a place of the class.
fn size(class: usize) -> usize {
    (class + 1) * STEP
}

/// The class of records of this length.
pub(super) fn class_of(length: usize) -> usize {
    length.clamp(1, RECORD_SIZE).div_ceil(STEP) - 1
}

#[derive(Debug)]
struct State {
    slabs: Box<[Slab]>,
    /// Slabs with room, by class; last the empty ones.
    lists: [u32; CLASSES + 1],
    /// Slabs that have their frames.
    grown: u32,
}

/// The memory of a compressed store.
#[derive(Debug)]
pub(super) struct Arena {
    // Dropped first: the mapping of the memory below.
    lock: SharedMapping,
    memory: Memfd,
    state: PiMutex<State>,
    frames: AtomicU32,
}

impl Arena {
    /// An arena that grows to at most `slabs`, empty at first.
    pub(super) fn new(slabs: u32) -> Result<Self, SetupError> {
        let (lock, memory) = locked_memfd(c"freehold-store", slabs as usize * SLAB_FRAMES as usize)?;
        let slab = Slab {
            class: 0,
            used: 0,
            before: END,
            after: END,
        };
        Ok(Self {
            lock,
            memory,
            state: PiMutex::new(State {
                slabs: vec![slab; slabs as usize].into_boxed_slice(),
                lists: [END; CLASSES + 1],
                grown: 0,
            }),
            frames: AtomicU32::new(0),
        })
    }

    /// A place for a record of `length` bytes. A few steps, and sometimes frames for a slab.
    ///
    /// # Errors
    /// `NOSPC` if the arena is full, or the kernel's refusal of frames.
    pub(super) fn allocate(&self, length: usize) -> Result<Place, Errno> {
        let class = class_of(length);
        let mut state = self.state.lock();
        let slab = match state.lists[class] {
            END => self.fresh_slab(&mut state, class)?,
            slab => slab,
        };
        let row = &mut state.slabs[slab as usize];
        let index = row.used.trailing_ones();
        row.used |= 1 << index;
        if row.is_full() {
            state.leave(slab, class);
        }
        Ok(Place(slab * PLACES + index))
    }

    /// Gives a place back.
    pub(super) fn release(&self, place: Place) {
        let mut state = self.state.lock();
        let slab = u32::try_from(place.slab()).unwrap_or(END);
        let row = &mut state.slabs[place.slab()];
        let (was_full, class) = (row.is_full(), row.class);
        debug_assert!(row.used & (1 << place.index()) != 0, "the place was not in use");
        row.used &= !(1 << place.index());
        let is_empty = row.used == 0;
        if !was_full {
            state.leave(slab, class);
        }
        state.join(slab, if is_empty { CLASSES } else { class });
    }

    /// Writes to the front of a place.
    pub(super) fn write(&self, place: Place, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::pwrite(&self.memory, bytes, self.offset(place))
    }

    /// Reads from the front of a place.
    pub(super) fn read(&self, place: Place, bytes: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::pread(&self.memory, bytes, self.offset(place))
    }

    /// Frames held.
    pub(super) fn frames(&self) -> FrameCount {
        FrameCount::new(self.frames.load(Ordering::Relaxed))
    }

    /// The place is its user's, so its slab keeps its class; only its row is looked at under the lock.
    fn offset(&self, place: Place) -> u64 {
        let class = self.state.lock().slabs[place.slab()].class;
        (place.slab() * SLAB_SIZE + place.index() * size(class)) as u64
    }

    fn fresh_slab(&self, state: &mut State, class: usize) -> Result<u32, Errno> {
        let slab = match state.lists[CLASSES] {
            END => {
                let next = state.grown;
                if next as usize >= state.slabs.len() {
                    return Err(Errno::NOSPC);
                }
                let frames = PageRange::new(next as usize * SLAB_FRAMES as usize, SLAB_FRAMES as usize);
                self.lock.populate(frames)?;
                state.grown += 1;
                self.frames.store(state.grown * SLAB_FRAMES, Ordering::Relaxed);
                next
            }
            empty => {
                state.leave(empty, CLASSES);
                empty
            }
        };
        state.slabs[slab as usize].class = class;
        state.join(slab, class);
        Ok(slab)
    }
}

impl State {
    fn join(&mut self, slab: u32, list: usize) {
        let first = std::mem::replace(&mut self.lists[list], slab);
        if let Some(next) = self.slabs.get_mut(first as usize) {
            next.before = slab;
        }
        let row = &mut self.slabs[slab as usize];
        (row.before, row.after) = (END, first);
    }

    fn leave(&mut self, slab: u32, list: usize) {
        let Slab { before, after, .. } = self.slabs[slab as usize];
        match self.slabs.get_mut(before as usize) {
            Some(row) => row.after = after,
            None => self.lists[list] = after,
        }
        if let Some(row) = self.slabs.get_mut(after as usize) {
            row.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, CLASSES, Place, SLAB_FRAMES, class_of};
    use freehold_linux::Errno;

    #[test]
    fn every_length_has_the_smallest_class_that_holds_it() {
        assert_eq!(
            [0, 1, 256, 257, 4095, 4096, 9999].map(class_of),
            [0, 0, 0, 1, 15, 15, 15]
        );
        assert_eq!(CLASSES, 16);
    }

    #[test]
    fn records_of_all_sizes_come_and_go_and_never_meet() {
        let arena = Arena::new(40).unwrap();
        let mut state = 1_u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from((state >> 33) % bound).unwrap()
        };
        let mut live: Vec<(Place, Vec<u8>)> = Vec::new();
        let (mut full, mut byte) = (0, 0_u8);
        for _ in 0..20_000 {
            if random(5) < 3 {
                byte = byte.wrapping_add(1);
                let record = vec![byte; random(4096) + 1];
                match arena.allocate(record.len()) {
                    Ok(place) => {
                        assert_eq!(arena.write(place, &record), Ok(record.len()));
                        live.push((place, record));
                    }
                    Err(errno) => {
                        assert_eq!(errno, Errno::NOSPC);
                        full += 1;
                    }
                }
            } else if !live.is_empty() {
                let (place, record) = live.swap_remove(random(live.len() as u64));
                let mut found = vec![0; record.len()];
                assert_eq!(arena.read(place, &mut found), Ok(record.len()));
                assert_eq!(found, record);
                arena.release(place);
            }
        }
        assert!(full > 0, "the arena was never full");
        for (place, _) in live.drain(..) {
            arena.release(place);
        }
        // Empty slabs serve every class: so many whole pages fit, and no more.
        for _ in 0..40 * SLAB_FRAMES {
            arena.allocate(4096).unwrap();
        }
        assert_eq!(arena.allocate(1), Err(Errno::NOSPC));
        assert_eq!(arena.frames().get(), 160);
    }

    #[test]
    fn memory_is_taken_as_it_is_needed() {
        let arena = Arena::new(4).unwrap();
        assert_eq!(arena.frames().get(), 0);
        let place = arena.allocate(100).unwrap();
        assert_eq!(arena.frames().get(), 4);
        arena.release(place);
        // An empty slab keeps its frames, and gives them to another class.
        arena.allocate(4096).unwrap();
        assert_eq!(arena.frames().get(), 4);
    }
}
