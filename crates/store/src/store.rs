//! What every store offers.

use crate::error::StoreError;
use crate::faults::Faults;
use crate::slots::Slot;
use crate::tally::StoreStats;
use crate::{Description, Record};
use freehold_core::units::{Duration, Instant};
use freehold_linux::Errno;
use freehold_linux::memory::PageLease;
use std::fmt;

/// How much somebody hurries: requests that wait for the device are served in this order, and in order of arrival
/// where it is equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Urgency(u8);

impl Urgency {
    /// Nobody waits.
    pub const BACKGROUND: Self = Self(0);
    /// Nothing overtakes it.
    pub const HIGHEST: Self = Self(u8::MAX);

    /// From 0, background, to 255.
    #[must_use]
    pub const fn new(level: u8) -> Self {
        Self(level)
    }

    /// The level.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time, unless more urgent requests overtake it meanwhile: then [`Store::due`] says a later one.
    At(Instant),
    /// Nobody knows; the store tells its [`Completion`].
    WhenTold,
}

impl Due {
    /// Whether the transfer has ended by `now`.
    #[must_use]
    pub fn has_come(self, now: Instant) -> bool {
        matches!(self, Self::At(due) if due <= now)
    }
}

/// Is told of transfers that have ended, if their end was [`Due::WhenTold`].
pub trait Completion: Send + Sync + fmt::Debug {
    /// The transfer of `slot` has ended and can be finished. Called by a thread of the store, perhaps before the thread
    /// that submitted it knows that it has begun.
    fn ended(&self, slot: Slot);
}

/// Where evicted pages go. See the crate's documentation for the three moments of a transfer.
///
/// At most one transfer of a slot is under way at a time, whose calls are made by one thread at a time. None of the
/// calls from `submit_write` to `cancel` allocates or reads a clock, and only the last three may wait, for a transfer
/// that has not ended: all of them may be made in a signal handler.
pub trait Store: Send + Sync + fmt::Debug {
    /// Begins to write `page` to `slot`, whose old record is gone from now on. [`Store::flush`] must follow.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`], or [`StoreError::Io`] where the store knows at once; nothing is under way then.
    fn submit_write(&self, now: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError>;

    /// As [`submit_write`](Store::submit_write) of a page whose content `copy` brings, to where the record will be: in
    /// `page`, or in the store itself where that keeps records as they are, which saves a copy.
    ///
    /// # Errors
    /// As [`submit_write`](Store::submit_write); [`StoreError::Io`] with what `copy` says.
    fn submit_copy(
        &self,
        now: Instant,
        slot: Slot,
        urgency: Urgency,
        mut page: PageLease,
        copy: &mut dyn FnMut(&mut Record) -> Result<(), Errno>,
    ) -> Result<Due, StoreError> {
        copy(page.bytes_mut()).map_err(|errno| StoreError::Io { slot, errno })?;
        self.submit_write(now, slot, urgency, page)
    }

    /// Begins to read `slot` into `page`, whose content is undefined until the transfer is finished. [`Store::flush`]
    /// must follow.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`]; [`StoreError::Damaged`] if the slot has no record; nothing is under way then.
    fn submit_read(&self, now: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError>;

    /// Nothing more is submitted for the moment: what waits for company goes to the device.
    fn flush(&self) {}

    /// When the transfer of `slot` ends, as far as is known now; a time that has passed if it has ended.
    fn due(&self, now: Instant, slot: Slot) -> Due;

    /// Somebody more urgent waits for the transfer of `slot`. Its new end, where that is known and has changed.
    fn raise(&self, now: Instant, slot: Slot, urgency: Urgency) -> Option<Instant>;

    /// Ends the write of `slot`: the record is there, and the page is given back.
    ///
    /// # Errors
    /// [`StoreError::Full`] or [`StoreError::Io`]: it is not there; write it again. [`StoreError::NoSuchSlot`]. The
    /// page's loan has ended.
    fn finish_write(&self, slot: Slot) -> Result<PageLease, StoreError>;

    /// As [`finish_write`](Store::finish_write). Where there is no room, `make_room` is asked to
    /// [forget](Store::forget) other records, again and again, until there is, or it says that it cannot.
    ///
    /// # Errors
    /// As [`finish_write`](Store::finish_write).
    fn finish_write_making_room(
        &self,
        slot: Slot,
        _make_room: &mut dyn FnMut() -> bool,
    ) -> Result<PageLease, StoreError> {
        self.finish_write(slot)
    }

    /// Ends the read of `slot`: its record is in the page given back.
    ///
    /// # Errors
    /// See [`StoreError`]. The page's loan has ended, and its content must not be used: a damaged record is never
    /// returned, not even in part.
    fn finish_read(&self, slot: Slot) -> Result<PageLease, StoreError>;

    /// As [`finish_read`](Store::finish_read), but `see` is shown the record, where the store has it: the content of
    /// the page given back is undefined.
    ///
    /// # Errors
    /// As [`finish_read`](Store::finish_read); then `see` has been shown nothing.
    fn finish_look(&self, slot: Slot, see: &mut dyn FnMut(&Record)) -> Result<PageLease, StoreError> {
        self.finish_read(slot).inspect(|page| see(page.bytes()))
    }

    /// Ends the transfer of `slot` without a result. Its record is then that of the transfer or none. Not counted.
    fn cancel(&self, slot: Slot);

    /// Whether the record of `slot` takes room that others could have: only where a store may get full.
    fn takes_room(&self, _slot: Slot) -> bool {
        false
    }

    /// Gives up the record of `slot`, of which no transfer is under way. It is not read again before it is written.
    fn forget(&self, _slot: Slot) {}

    /// Gives `slot` a record without a transfer: `content`, or zeros, which take no room. For set-up; may wait.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`], or [`StoreError::Full`].
    fn seed(&self, slot: Slot, content: Option<&Record>) -> Result<(), StoreError>;

    /// Flips one bit of the record of `slot` behind the checksum's back, for tests; may wait.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSlot`]; [`StoreError::Io`] if the slot has no record that could be damaged.
    fn damage(&self, slot: Slot) -> Result<(), StoreError>;

    /// How long a transfer takes when no other is before it; `None` where the device decides.
    fn latency(&self) -> Option<Duration>;

    /// The most transfers that are to be finished in passing by somebody who does not wait for them: few, where
    /// finishing one takes much work.
    fn burst(&self) -> usize {
        usize::MAX
    }

    /// Failures to inject.
    fn faults(&self) -> &Faults;

    /// Transfers so far, and memory held.
    fn stats(&self) -> StoreStats;

    /// What the store is and what it had to do without.
    fn describe(&self) -> Description;
}
