//! A store in locked memory, with emulated latency.
//!
//! The bytes are in [`LockedPages`]: copied by the processor, which takes a third of the time of a system call, or
//! written and seen where they are.

use crate::attempts::transfer;
use crate::channels::Channels;
use crate::description::{Backend, Description, Kind};
use crate::error::{SetupError, StoreError};
use crate::faults::{Faults, torn};
use crate::slots::{Mark, Slot, SlotTable};
use crate::store::{Due, Store, Urgency};
use crate::tally::{StoreStats, Tally};
use crate::{RECORD_SIZE, Record, checksum};
use freehold_core::units::{Duration, FrameCount, Instant};
use freehold_linux::Errno;
use freehold_linux::memory::{LockedPages, PageLease};

/// Shape of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Records it can hold, at least 1.
    pub slots: u32,
    /// How long each transfer takes, in either direction.
    pub latency: Duration,
    /// Transfers under way at a time, at least 1; later ones wait, the most urgent in front.
    pub parallel: u16,
}

/// Keeps evicted pages in locked memory of its own.
///
/// A slot gets its frame, for good, at its first write. A write takes its copy of the page when it is submitted, a read
/// fills the page when it is finished.
#[derive(Debug)]
pub struct MemoryStore {
    records: LockedPages,
    slots: SlotTable,
    channels: Channels,
    latency: Duration,
    faults: Faults,
    tally: Tally,
}

impl MemoryStore {
    /// Makes a store. All its tables are allocated here; its memory is reserved as address space.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new(config: StoreConfig) -> Result<Self, SetupError> {
        if config.slots == 0 {
            return Err(SetupError::NoSlots);
        }
        if config.parallel == 0 {
            return Err(SetupError::NoChannels);
        }
        Ok(Self {
            records: LockedPages::create(c"freehold-store", config.slots as usize)?,
            slots: SlotTable::new(config.slots),
            channels: Channels::new(config.latency, config.parallel, config.slots),
            latency: config.latency,
            faults: Faults::default(),
            tally: Tally::default(),
        })
    }

    fn begin(&self, now: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Due {
        self.slots.keep(slot, page);
        let standing = self.channels.occupy(now, slot, urgency);
        if standing.queued {
            self.slots.set(slot, Mark::QUEUED);
        }
        Due::At(standing.due)
    }

    /// Takes the page of a transfer out, and with it everything that is known of the transfer but its strike.
    fn end(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let page = self.slots.take(slot)?;
        if self.slots.clear(slot, Mark::QUEUED) {
            self.channels.forget(slot);
        }
        Ok(page)
    }

    fn strike(&self, slot: Slot) -> Result<(), StoreError> {
        if self.slots.clear(slot, Mark::STRUCK) {
            return Err(StoreError::Io { slot, errno: Errno::IO });
        }
        Ok(())
    }

    fn fetch(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let mut page = self.end(slot)?;
        self.strike(slot)?;
        self.copy_in(slot, page.bytes_mut())
            .map_err(|errno| StoreError::Io { slot, errno })?;
        self.slots.verify(slot, page.bytes())?;
        Ok(page)
    }

    fn show(&self, slot: Slot, see: &mut dyn FnMut(&Record)) -> Result<PageLease, StoreError> {
        let page = self.end(slot)?;
        self.strike(slot)?;
        let io = |errno| StoreError::Io { slot, errno };
        // What is not copied is not cut short either, unless somebody wants to see what happens then.
        transfer(&self.faults, &self.tally, Ok).map_err(io)?;
        let checked = self.records.look(slot.index(), |record| {
            self.slots.verify(slot, record)?;
            see(record);
            Ok(page)
        });
        checked.map_err(io)?
    }

    fn copy_out(&self, slot: Slot, record: &Record) -> Result<(), Errno> {
        if self.faults.tear() {
            return self.records.write(slot.index(), &torn(record));
        }
        transfer(&self.faults, &self.tally, |length| {
            self.records.write(slot.index(), &record[..length]).map(|()| length)
        })
    }

    fn copy_in(&self, slot: Slot, record: &mut Record) -> Result<(), Errno> {
        transfer(&self.faults, &self.tally, |length| {
            self.records.read(slot.index(), &mut record[..length]).map(|()| length)
        })
    }
}

impl Store for MemoryStore {
    fn submit_write(&self, now: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError> {
        self.slots.check(slot)?;
        self.slots.clear(slot, Mark::PRESENT);
        if let Err(errno) = self.copy_out(slot, page.bytes()) {
            return self.tally.write(Err(StoreError::Io { slot, errno }));
        }
        self.slots.set_sum(slot, checksum::of(slot.get(), page.bytes()));
        if self.faults.strike_write() {
            self.slots.set(slot, Mark::STRUCK);
        }
        Ok(self.begin(now, slot, urgency, page))
    }

    fn submit_copy(
        &self,
        now: Instant,
        slot: Slot,
        urgency: Urgency,
        mut page: PageLease,
        copy: &mut dyn FnMut(&mut Record) -> Result<(), Errno>,
    ) -> Result<Due, StoreError> {
        if !self.faults.spare_writes() {
            copy(page.bytes_mut()).map_err(|errno| StoreError::Io { slot, errno })?;
            return self.submit_write(now, slot, urgency, page);
        }
        self.slots.check(slot)?;
        self.slots.clear(slot, Mark::PRESENT);
        let copied = self.records.change(slot.index(), |record| {
            copy(record).map(|()| checksum::of(slot.get(), record))
        });
        match copied.and_then(|copied| copied) {
            Ok(sum) => self.slots.set_sum(slot, sum),
            Err(errno) => return self.tally.write(Err(StoreError::Io { slot, errno })),
        }
        Ok(self.begin(now, slot, urgency, page))
    }

    fn submit_read(&self, now: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError> {
        self.slots.require(slot)?;
        if self.faults.strike_read() {
            self.slots.set(slot, Mark::STRUCK);
        }
        Ok(self.begin(now, slot, urgency, page))
    }

    fn due(&self, now: Instant, slot: Slot) -> Due {
        if !self.slots.has(slot, Mark::QUEUED) {
            // What was said at submission holds.
            return Due::At(Instant::ZERO);
        }
        Due::At(self.channels.standing(now, slot).due)
    }

    fn raise(&self, now: Instant, slot: Slot, urgency: Urgency) -> Option<Instant> {
        if !self.slots.has(slot, Mark::QUEUED) {
            return None;
        }
        self.channels.raise(now, slot, urgency).map(|standing| standing.due)
    }

    fn finish_write(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let ended = self
            .end(slot)
            .and_then(|page| self.strike(slot).map(|()| page))
            .inspect(|_| self.slots.set(slot, Mark::PRESENT));
        self.tally.write(ended)
    }

    fn finish_read(&self, slot: Slot) -> Result<PageLease, StoreError> {
        self.tally.read(self.fetch(slot))
    }

    fn finish_look(&self, slot: Slot, see: &mut dyn FnMut(&Record)) -> Result<PageLease, StoreError> {
        self.tally.read(self.show(slot, see))
    }

    fn cancel(&self, slot: Slot) {
        if self.end(slot).is_ok() {
            self.slots.clear(slot, Mark::STRUCK);
        }
    }

    fn seed(&self, slot: Slot, content: Option<&Record>) -> Result<(), StoreError> {
        self.slots.check(slot)?;
        let io = |errno| StoreError::Io { slot, errno };
        let record = content.unwrap_or(&[0; RECORD_SIZE]);
        // What was never written reads as zeros.
        if content.is_some() || self.records.is_backed(slot.index()) {
            self.records.write(slot.index(), record).map_err(io)?;
        }
        self.slots.set_sum(slot, checksum::of(slot.get(), record));
        self.slots.set(slot, Mark::PRESENT);
        Ok(())
    }

    fn damage(&self, slot: Slot) -> Result<(), StoreError> {
        self.slots.check(slot)?;
        let mut record = [0; RECORD_SIZE];
        let io = |errno| StoreError::Io { slot, errno };
        self.records.read(slot.index(), &mut record).map_err(io)?;
        record[RECORD_SIZE / 2] ^= 1;
        self.records.write(slot.index(), &record).map_err(io)
    }

    fn latency(&self) -> Option<Duration> {
        Some(self.latency)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            frames: FrameCount::new(self.records.frames()),
            ..self.tally.stats()
        }
    }

    fn describe(&self) -> Description {
        Description {
            kind: Kind::Memory,
            backend: Backend::Inline,
            direct: false,
            shortfalls: Vec::new(),
        }
    }
}
