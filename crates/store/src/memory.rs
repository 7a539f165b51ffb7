//! A store in locked memory, with emulated latency.
//!
//! The bytes are in a memfd of the store's own, reached with `pread` and `pwrite`: no pointers, and the kernel copies
//! straight between the memfd and the caller's page. A mapping of the memfd exists only to lock its frames.

use crate::channels::Channels;
use crate::error::{Damage, SetupError, StoreError};
use crate::faults::Faults;
use crate::slots::{Mark, Slot, SlotTable};
use crate::{RECORD_SIZE, Record, checksum};
use freehold_core::units::{Duration, FrameCount, Instant};
use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::{Errno, PageRange};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Shape of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Records it can hold, at least 1.
    pub slots: u32,
    /// How long each transfer takes, in either direction.
    pub latency: Duration,
    /// Transfers under way at a time, at least 1; later ones queue in order of arrival.
    pub parallel: u16,
}

/// Transfers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Records read back, without those that failed.
    pub reads: u64,
    /// Records written, without those that failed.
    pub writes: u64,
    /// Bytes read back.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Frames the store holds. They are never given back while it lives.
    pub frames: FrameCount,
}

/// Keeps evicted pages in locked memory of its own.
///
/// A slot gets its frame, for good, at its first write.
#[derive(Debug)]
pub struct MemoryStore {
    // Dropped first: the mapping of the memory below.
    lock: SharedMapping,
    memory: Memfd,
    slots: SlotTable,
    channels: Channels,
    latency: Duration,
    faults: Faults,
    reads: AtomicU64,
    writes: AtomicU64,
    failed_reads: AtomicU64,
    failed_writes: AtomicU64,
    frames: AtomicU32,
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
        let memory = Memfd::create(c"freehold-store", config.slots as usize)?;
        let mut lock = SharedMapping::of_whole(&memory, Access::ReadWrite)?;
        lock.lock_on_fault()?;
        Ok(Self {
            lock,
            memory,
            slots: SlotTable::new(config.slots),
            channels: Channels::new(config.latency, config.parallel),
            latency: config.latency,
            faults: Faults::default(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
            failed_writes: AtomicU64::new(0),
            frames: AtomicU32::new(0),
        })
    }

    /// How long a transfer takes when no other is before it.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Failures to inject.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Begins to write `record` to `slot`, whose old record is gone from now on; returns when the write is due. The
    /// record has been copied when this returns.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`], or [`StoreError::Io`] if there is no frame for the slot.
    pub fn submit_write(&self, now: Instant, slot: Slot, record: &Record) -> Result<Instant, StoreError> {
        self.check(slot)?;
        self.slots.clear(slot, Mark::PRESENT);
        if let Err(errno) = self.back(slot).and_then(|()| self.transfer_out(slot, record)) {
            self.failed_writes.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Io { slot, errno });
        }
        self.slots.set_sum(slot, checksum::of(slot.get(), record));
        if self.faults.strike_write() {
            self.slots.set(slot, Mark::STRUCK);
        }
        Ok(self.channels.occupy(now))
    }

    /// Ends the write of `slot`: the record is there.
    ///
    /// # Errors
    /// [`StoreError::Io`]: it is not; write it again. [`StoreError::NoSuchSlot`].
    pub fn finish_write(&self, slot: Slot) -> Result<(), StoreError> {
        self.check(slot)?;
        if self.slots.clear(slot, Mark::STRUCK) {
            self.failed_writes.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Io { slot, errno: Errno::IO });
        }
        self.slots.set(slot, Mark::PRESENT);
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Begins to read `slot`; returns when the read is due.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`]; [`StoreError::Damaged`] if the slot has no record.
    pub fn submit_read(&self, now: Instant, slot: Slot) -> Result<Instant, StoreError> {
        self.check(slot)?;
        if !self.slots.has(slot, Mark::PRESENT) {
            return Err(self.damaged(slot, Damage::Absent));
        }
        if self.faults.strike_read() {
            self.slots.set(slot, Mark::STRUCK);
        }
        Ok(self.channels.occupy(now))
    }

    /// Ends the read of `slot`: its record is in `record`.
    ///
    /// # Errors
    /// See [`StoreError`]. `record` is all zeros then: a damaged record is never returned, not even in part.
    pub fn finish_read(&self, slot: Slot, record: &mut Record) -> Result<(), StoreError> {
        self.check(slot)?;
        let result = self.fetch(slot, record);
        let counter = if result.is_ok() {
            &self.reads
        } else {
            &self.failed_reads
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if result.is_err() {
            record.fill(0);
        }
        result
    }

    /// Gives `slot` a record without a transfer: `content`, or zeros, which take no frame. For set-up.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`], or [`StoreError::Io`] if there is no frame for the slot.
    pub fn seed(&self, slot: Slot, content: Option<&Record>) -> Result<(), StoreError> {
        self.check(slot)?;
        if let Some(record) = content {
            self.back(slot)
                .and_then(|()| self.transfer_out(slot, record))
                .map_err(|errno| StoreError::Io { slot, errno })?;
        } else if self.slots.has(slot, Mark::BACKED) {
            self.transfer_out(slot, &[0; RECORD_SIZE])
                .map_err(|errno| StoreError::Io { slot, errno })?;
        }
        let sum = checksum::of(slot.get(), content.unwrap_or(&[0; RECORD_SIZE]));
        self.slots.set_sum(slot, sum);
        self.slots.set(slot, Mark::PRESENT);
        Ok(())
    }

    /// Flips one bit of the record of `slot` behind the checksum's back, for tests.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`]; [`StoreError::Io`] if the slot has no record.
    pub fn damage(&self, slot: Slot) -> Result<(), StoreError> {
        self.check(slot)?;
        let mut record = [0; RECORD_SIZE];
        let io = |errno| StoreError::Io { slot, errno };
        self.transfer_in(slot, &mut record).map_err(io)?;
        record[RECORD_SIZE / 2] ^= 1;
        self.transfer_out(slot, &record).map_err(io)
    }

    /// Transfers so far.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let reads = self.reads.load(Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        StoreStats {
            reads,
            writes,
            read_bytes: reads * RECORD_SIZE as u64,
            written_bytes: writes * RECORD_SIZE as u64,
            failed_reads: self.failed_reads.load(Ordering::Relaxed),
            failed_writes: self.failed_writes.load(Ordering::Relaxed),
            frames: FrameCount::new(self.frames.load(Ordering::Relaxed)),
        }
    }

    fn check(&self, slot: Slot) -> Result<(), StoreError> {
        if self.slots.contains(slot) {
            Ok(())
        } else {
            Err(StoreError::NoSuchSlot(slot))
        }
    }

    fn damaged(&self, slot: Slot, damage: Damage) -> StoreError {
        StoreError::Damaged { slot, damage }
    }

    fn fetch(&self, slot: Slot, record: &mut Record) -> Result<(), StoreError> {
        if self.slots.clear(slot, Mark::STRUCK) {
            return Err(StoreError::Io { slot, errno: Errno::IO });
        }
        self.transfer_in(slot, record)
            .map_err(|errno| StoreError::Io { slot, errno })?;
        if checksum::of(slot.get(), record) != self.slots.sum(slot) {
            return Err(self.damaged(slot, Damage::Checksum));
        }
        Ok(())
    }

    /// Gives `slot` a locked frame, once.
    fn back(&self, slot: Slot) -> Result<(), Errno> {
        if !self.slots.has(slot, Mark::BACKED) {
            self.lock.populate(PageRange::single(slot.index()))?;
            self.slots.set(slot, Mark::BACKED);
            self.frames.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn transfer_out(&self, slot: Slot, record: &Record) -> Result<(), Errno> {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.memory, record, offset(slot)))?;
        if written == RECORD_SIZE { Ok(()) } else { Err(Errno::IO) }
    }

    fn transfer_in(&self, slot: Slot, record: &mut Record) -> Result<(), Errno> {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(&self.memory, &mut record[..], offset(slot)))?;
        if read == RECORD_SIZE { Ok(()) } else { Err(Errno::IO) }
    }
}

fn offset(slot: Slot) -> u64 {
    u64::from(slot.get()) * RECORD_SIZE as u64
}
