//! What can be wrong with a store and its transfers.

use crate::slots::Slot;
use freehold_linux::Errno;
use freehold_linux::memory::LockedError;

/// A store could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The caller's mistake: a store without slots.
    #[error("a store needs at least one slot")]
    NoSlots,
    /// The caller's mistake: a store that can do nothing at a time.
    #[error("a store needs at least one channel: set `parallel` to 1 or more")]
    NoChannels,
    /// Its memory could not be made, mapped or locked.
    #[error("the store's memory: {0}")]
    Memory(#[from] LockedError),
    /// No file can be made in the directory.
    #[error("no file can be made in the store's directory: {0}")]
    Directory(Errno),
    /// There is no room for every page.
    #[error("the store's file of {bytes} bytes does not fit the file system: {errno}")]
    NoRoom {
        /// Its length.
        bytes: u64,
        /// What the kernel said.
        errno: Errno,
    },
    /// The file could not be set up.
    #[error("the store's file: {0}")]
    File(Errno),
    /// Its threads could not be started.
    #[error("the store's threads: {0}")]
    Threads(Errno),
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing was ever written to the slot.
    Absent,
    /// The bytes are not those that were written.
    Checksum,
}

/// A transfer failed. The store's content is unchanged, except that a slot whose write failed must be written again
/// before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The caller's mistake: no such slot.
    #[error("{0} does not exist")]
    NoSuchSlot(Slot),
    /// The caller's mistake: the end of a transfer that was not begun.
    #[error("no transfer of {0} is under way")]
    NotUnderWay(Slot),
    /// The record cannot be trusted; it was not returned. A repetition does not help.
    #[error("the record of {slot} is damaged ({damage:?}) and was not returned")]
    Damaged {
        /// The slot.
        slot: Slot,
        /// What is wrong.
        damage: Damage,
    },
    /// There is no room for the record. Others can make room ([`Store::forget`](crate::Store::forget)).
    #[error("there is no room for the record of {0}")]
    Full(Slot),
    /// The device or the kernel failed. A repetition may help.
    #[error("input or output of {slot} failed: {errno}")]
    Io {
        /// The slot.
        slot: Slot,
        /// What the kernel said.
        errno: Errno,
    },
}
