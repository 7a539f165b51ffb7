//! Names of things, and the shapes of what is put in and given out.

use freehold_core::id::{ObjectId, PinnedPoolId, ReservationId};
use freehold_core::limits::{PageRange, Regime};
use freehold_linux::charge::ChargeLimits;
use rustix::fd::OwnedFd;

macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            index: u32,
            generation: u32,
        }

        impl $name {
            #[allow(dead_code, reason = "made by the engine's tables")]
            pub(crate) const fn new(index: u32, generation: u32) -> Self {
                Self { index, generation }
            }

            /// The row in the engine's table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.index as usize
            }

            #[allow(dead_code, reason = "compared by the engine's tables")]
            pub(crate) const fn generation(self) -> u32 {
                self.generation
            }
        }
    };
}

key! {
    /// A client, until it is gone.
    ClientId
}
key! {
    /// A task of a client.
    TaskKey
}
key! {
    /// A range of a client's address space where an object is mapped.
    MapKey
}

/// What a task is in: frames of its own, or pages of the pool that may be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A reservation.
    Reservation(ReservationId),
    /// A pinned page pool.
    Pinned(PinnedPoolId),
}

/// A shared object.
pub type ObjectKey = ObjectId;

/// What kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientRole {
    /// Unmodified, with the agent.
    Program,
    /// Cooperating, with the library.
    Library,
}

/// A process to take in. What it says of itself is a claim; `pid`, `uid` and `pidfd` are the kernel's word.
#[derive(Debug)]
pub struct NewClient {
    /// What kind.
    pub role: ClientRole,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its process, for good.
    pub pidfd: OwnedFd,
    /// What it is called.
    pub name: String,
    /// The thread that answers the channel.
    pub agent_thread: u32,
    /// What its memory cgroups allow it.
    pub limits: ChargeLimits,
    /// The userfaultfd of its private memory; programs only.
    pub private: Option<OwnedFd>,
    /// The userfaultfd of shared objects.
    pub shared: Option<OwnedFd>,
}

/// What a client gets.
#[derive(Debug)]
pub struct Handover {
    /// The channel.
    pub channel: OwnedFd,
    /// The transfer memory.
    pub transfer: OwnedFd,
    /// Written to by the agent after answers.
    pub event: OwnedFd,
    /// Pages of the transfer memory.
    pub transfer_pages: u32,
}

/// A region to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRequest<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether others can open it by name.
    pub shared: bool,
    /// Its size.
    pub pages: u32,
    /// How it is shared.
    pub regime: Regime,
    /// Whose it is.
    pub uid: u32,
}

/// An object, opened once more: close it as often.
#[derive(Debug)]
pub struct Opened {
    /// The object.
    pub object: ObjectKey,
    /// Its size.
    pub pages: u32,
    /// A descriptor for the client.
    pub descriptor: OwnedFd,
}

/// A mapping to take note of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// The task.
    pub task: TaskKey,
    /// The object.
    pub object: ObjectKey,
    /// The first address.
    pub address: u64,
    /// The pages of the object there.
    pub range: PageRange,
    /// Whether writes change the object.
    pub writable: bool,
}
