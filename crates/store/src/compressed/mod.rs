//! A store in locked memory, compressed with LZ4.
//!
//! A record is compressed when its write is finished, by the thread that needs the frame. A fault that finds sixteen
//! pages on their way out pays for the page whose frame it takes, and for one more ([`Store::burst`]). So transfers
//! end as fast as frames are used.
//!
//! A record that does not compress is kept as it is. A record of zeros takes no room.

mod arena;

use self::arena::{Arena, Place, SIZES, SLAB_FRAMES};
use crate::attempts::transfer;
use crate::description::{Backend, Description, Kind, Shortfall};
use crate::error::{Damage, SetupError, StoreError};
use crate::faults::Faults;
use crate::slots::{Mark, Slot, SlotTable};
use crate::store::{Due, Store, Urgency};
use crate::tally::{StoreStats, Tally};
use crate::{RECORD_SIZE, Record, checksum};
use freehold_core::units::{Duration, FrameCount, Instant};
use freehold_linux::Errno;
use freehold_linux::memory::{PageLease, zeroed};
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// What does not get shorter than this is kept as it is: the class of whole records would hold it anyway.
const WORTHWHILE: usize = RECORD_SIZE - RECORD_SIZE / SIZES as usize;
const MOST_OUTPUT: usize = get_maximum_output_size(RECORD_SIZE);
/// Threads that can compress at a time.
const SCRATCHES: usize = 4;

/// Shape of a [`CompressedStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedConfig {
    /// Records it can hold, at least 1.
    pub slots: u32,
    /// The most frames it may take, rounded up to slabs of four; `None` for as many as records that do not compress
    /// need, which it takes only where they do not. With less, a write may find the store full.
    pub capacity: Option<FrameCount>,
}

/// Where records of all slots are.
#[derive(Debug)]
struct Records {
    places: Box<[AtomicU32]>,
    /// Bytes stored; 0 for none.
    lengths: Box<[AtomicU16]>,
    stored: AtomicU64,
}

/// What one thread at a time compresses with.
struct Scratch {
    table: CompressTable,
    bytes: Box<[u8]>,
}

/// Keeps evicted pages compressed in locked memory of its own.
#[derive(Debug)]
pub struct CompressedStore {
    arena: Arena,
    slots: SlotTable,
    records: Records,
    scratches: [PiMutex<Scratch>; SCRATCHES],
    limited: bool,
    faults: Faults,
    tally: Tally,
}

impl CompressedStore {
    /// Makes a store. All its tables are allocated here; its memory is reserved as address space.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new(config: CompressedConfig) -> Result<Self, SetupError> {
        if config.slots == 0 {
            return Err(SetupError::NoSlots);
        }
        // Whole records fill slabs; of every other class one slab may be half empty.
        let enough = config.slots.div_ceil(SLAB_FRAMES).saturating_add(SIZES);
        let slabs = match config.capacity {
            Some(most) => most.get().div_ceil(SLAB_FRAMES).clamp(1, enough),
            None => enough,
        };
        Ok(Self {
            arena: Arena::new(slabs)?,
            slots: SlotTable::new(config.slots),
            records: Records::new(config.slots),
            scratches: std::array::from_fn(|_| PiMutex::new(Scratch::new())),
            limited: slabs < enough,
            faults: Faults::default(),
            tally: Tally::default(),
        })
    }

    /// Something to compress with: a free one, or the first in turn.
    fn scratch(&self) -> PiGuard<'_, Scratch> {
        let free = self.scratches.iter().find_map(PiMutex::try_lock);
        free.unwrap_or_else(|| self.scratches[0].lock())
    }

    /// Puts `record` into the arena in place of the slot's old one.
    fn keep(
        &self,
        slot: Slot,
        record: &Record,
        faults: &Faults,
        make_room: &mut dyn FnMut() -> bool,
    ) -> Result<(), StoreError> {
        let io = |errno| StoreError::Io { slot, errno };
        self.release(slot);
        self.slots.set_sum(slot, checksum::of(slot.get(), record));
        if is_zeros(record) {
            self.slots.set(slot, Mark::ZEROS);
            return Ok(());
        }
        self.slots.clear(slot, Mark::ZEROS);
        let mut scratch = self.scratch();
        let bytes = scratch.compress(record).unwrap_or(record);
        let place = loop {
            match self.arena.allocate(bytes.len()) {
                Err(Errno::NOSPC) if make_room() => {}
                Err(Errno::NOSPC) => return Err(StoreError::Full(slot)),
                allocated => break allocated.map_err(io)?,
            }
        };
        let torn = faults.tear();
        let written = transfer(faults, &self.tally, |length| {
            let cut = |part: usize| bytes.len() * part / RECORD_SIZE;
            let part = if torn { RECORD_SIZE / 2 } else { length };
            let whole = self.arena.write(place, &bytes[..cut(part)])? == cut(length);
            Ok(if whole || torn { length } else { 0 })
        });
        if let Err(errno) = written {
            self.arena.release(place);
            return Err(io(errno));
        }
        self.records.note(slot, place, bytes.len());
        Ok(())
    }

    /// The slot has no record in the arena any more.
    fn release(&self, slot: Slot) {
        if let Some((place, _)) = self.records.forget(slot) {
            self.arena.release(place);
        }
    }

    fn fetch(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let mut page = self.slots.take(slot)?;
        self.strike(slot)?;
        self.expand(slot, page.bytes_mut())?;
        self.slots.verify(slot, page.bytes())?;
        Ok(page)
    }

    /// Fills `record` with what the arena has for the slot.
    fn expand(&self, slot: Slot, record: &mut Record) -> Result<(), StoreError> {
        let damaged = |damage| StoreError::Damaged { slot, damage };
        if self.slots.has(slot, Mark::ZEROS) {
            record.fill(0);
            return Ok(());
        }
        let (place, length) = self.records.find(slot).ok_or(damaged(Damage::Absent))?;
        let mut scratch = self.scratch();
        let whole = length == RECORD_SIZE;
        let bytes = if whole {
            &mut record[..]
        } else {
            &mut scratch.bytes[..length]
        };
        transfer(&self.faults, &self.tally, |part| {
            let wanted = length * part / RECORD_SIZE;
            let read = self.arena.read(place, &mut bytes[..wanted])?;
            Ok(if read == wanted { part } else { 0 })
        })
        .map_err(|errno| StoreError::Io { slot, errno })?;
        if whole {
            return Ok(());
        }
        match decompress_into(&scratch.bytes[..length], record) {
            Ok(RECORD_SIZE) => Ok(()),
            _ => Err(damaged(Damage::Checksum)),
        }
    }

    fn strike(&self, slot: Slot) -> Result<(), StoreError> {
        if self.slots.clear(slot, Mark::STRUCK) {
            return Err(StoreError::Io { slot, errno: Errno::IO });
        }
        Ok(())
    }

    fn end_write(&self, slot: Slot, make_room: &mut dyn FnMut() -> bool) -> Result<PageLease, StoreError> {
        let page = self.slots.take(slot)?;
        self.strike(slot)?;
        self.keep(slot, page.bytes(), &self.faults, make_room)?;
        self.slots.set(slot, Mark::PRESENT);
        Ok(page)
    }
}

impl Store for CompressedStore {
    fn submit_write(&self, now: Instant, slot: Slot, _: Urgency, page: PageLease) -> Result<Due, StoreError> {
        self.slots.check(slot)?;
        self.slots.clear(slot, Mark::PRESENT);
        if self.faults.strike_write() {
            self.slots.set(slot, Mark::STRUCK);
        }
        self.slots.keep(slot, page);
        Ok(Due::At(now))
    }

    fn submit_read(&self, now: Instant, slot: Slot, _: Urgency, page: PageLease) -> Result<Due, StoreError> {
        self.slots.require(slot)?;
        if self.faults.strike_read() {
            self.slots.set(slot, Mark::STRUCK);
        }
        self.slots.keep(slot, page);
        Ok(Due::At(now))
    }

    fn due(&self, _: Instant, _: Slot) -> Due {
        Due::At(Instant::ZERO)
    }

    fn raise(&self, _: Instant, _: Slot, _: Urgency) -> Option<Instant> {
        None
    }

    fn finish_write(&self, slot: Slot) -> Result<PageLease, StoreError> {
        self.finish_write_making_room(slot, &mut || false)
    }

    fn finish_write_making_room(
        &self,
        slot: Slot,
        make_room: &mut dyn FnMut() -> bool,
    ) -> Result<PageLease, StoreError> {
        self.tally.write(self.end_write(slot, make_room))
    }

    fn finish_read(&self, slot: Slot) -> Result<PageLease, StoreError> {
        self.tally.read(self.fetch(slot))
    }

    fn cancel(&self, slot: Slot) {
        if self.slots.take(slot).is_ok() {
            self.slots.clear(slot, Mark::STRUCK);
        }
    }

    fn takes_room(&self, slot: Slot) -> bool {
        self.limited && self.records.find(slot).is_some()
    }

    fn forget(&self, slot: Slot) {
        self.slots.clear(slot, Mark::PRESENT);
        self.release(slot);
    }

    fn seed(&self, slot: Slot, content: Option<&Record>) -> Result<(), StoreError> {
        self.slots.check(slot)?;
        let content = content.unwrap_or(&[0; RECORD_SIZE]);
        self.keep(slot, content, &Faults::default(), &mut || false)?;
        self.slots.set(slot, Mark::PRESENT);
        Ok(())
    }

    fn damage(&self, slot: Slot) -> Result<(), StoreError> {
        self.slots.check(slot)?;
        let io = |errno| StoreError::Io { slot, errno };
        let (place, length) = self.records.find(slot).ok_or(io(Errno::NODATA))?;
        let mut bytes = vec![0; length];
        self.arena.read(place, &mut bytes).map_err(io)?;
        // LZ4 ends with literals; elsewhere a changed bit may say the same in other words.
        bytes[length - 1] ^= 1;
        self.arena.write(place, &bytes).map(|_| ()).map_err(io)
    }

    fn latency(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn burst(&self) -> usize {
        1
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            frames: self.arena.frames(),
            stored_bytes: self.records.stored.load(Ordering::Relaxed),
            ..self.tally.stats()
        }
    }

    fn describe(&self) -> Description {
        Description {
            kind: Kind::Compressed,
            backend: Backend::Inline,
            direct: false,
            shortfalls: self.limited.then_some(Shortfall::Capacity).into_iter().collect(),
        }
    }
}

impl Records {
    fn new(slots: u32) -> Self {
        Self {
            places: zeroed(slots as usize),
            lengths: zeroed(slots as usize),
            stored: AtomicU64::new(0),
        }
    }

    fn find(&self, slot: Slot) -> Option<(Place, usize)> {
        let length = usize::from(self.lengths[slot.index()].load(Ordering::Acquire));
        let place = Place::from_bits(self.places[slot.index()].load(Ordering::Acquire));
        (length > 0).then_some((place, length))
    }

    fn note(&self, slot: Slot, place: Place, length: usize) {
        self.places[slot.index()].store(place.bits(), Ordering::Release);
        // At most a record.
        let stored = u16::try_from(length).unwrap_or(u16::MAX);
        self.lengths[slot.index()].store(stored, Ordering::Release);
        self.stored.fetch_add(length as u64, Ordering::Relaxed);
    }

    fn forget(&self, slot: Slot) -> Option<(Place, usize)> {
        let found = self.find(slot)?;
        self.lengths[slot.index()].store(0, Ordering::Release);
        self.stored.fetch_sub(found.1 as u64, Ordering::Relaxed);
        Some(found)
    }
}

impl Scratch {
    fn new() -> Self {
        Self {
            table: CompressTable::small(),
            bytes: vec![0; MOST_OUTPUT].into_boxed_slice(),
        }
    }

    /// The record compressed; `None` if that is not worth its while.
    fn compress(&mut self, record: &Record) -> Option<&[u8]> {
        let length = compress_into_with_table(record, &mut self.bytes, &mut self.table).ok()?;
        (length <= WORTHWHILE).then(|| &self.bytes[..length])
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

fn is_zeros(record: &Record) -> bool {
    record.as_chunks::<64>().0.iter().all(|chunk| *chunk == [0; 64])
}
