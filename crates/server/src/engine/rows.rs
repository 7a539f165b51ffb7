//! What the engine knows of each client, task, object and reservation.

use crate::closing::{Lent, LentFile};
use crate::engine::ahead::{Brought, Streams, Used};
use crate::engine::booked::Booked;
use crate::engine::booking::Bookings;
use crate::engine::deferred::Deferred;
use crate::engine::fault_queue::FaultQueue;
use crate::engine::forks::Family;
use crate::engine::keys::{ClientId, ClientRole, MapKey, Membership, TaskKey};
use crate::engine::lending::LentPages;
use crate::engine::near::Affinity;
use crate::engine::outbox::Outbox;
use crate::engine::program_locks::ProgramLocks;
use crate::engine::slots::Slots;
use crate::times::Times;
use crate::victims::CachedFile;
use freehold_core::effect::Protection;
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{Instant, PageIndex};
use freehold_linux::memory::Backed;
use freehold_linux::userfault::Userfault;
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which userfaultfd of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Shared,
    Private,
}

/// A thread of a client waits for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) client: ClientId,
    pub(crate) which: Which,
    pub(crate) address: u64,
    pub(crate) write: bool,
    /// The page was there, write-protected.
    pub(crate) protected: bool,
    pub(crate) thread: u32,
    /// When the message was read.
    pub(crate) since: Instant,
}

/// A task of the core that waits for a client's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) core: TaskId,
    pub(crate) pending: Option<Pending>,
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) claim: Claim,
    pub(crate) object: ObjectId,
    pub(crate) page: PageIndex,
    /// The core has decided; what the page is to be mapped with once it is back from the client.
    pub(crate) mapped: Option<Protection>,
}

/// Where a lane of the core belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneName {
    pub(crate) task: TaskKey,
    pub(crate) lane: u8,
}

/// A task of a client.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) client: ClientId,
    pub(crate) name: String,
    pub(crate) reservation: Option<ReservationId>,
    /// The pinned page pool that may pin its pages, where it has no reservation.
    pub(crate) pinned: Option<PinnedPoolId>,
    pub(crate) urgency: u8,
    /// The first has the mappings.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) mappings: BTreeMap<ObjectId, Mapped>,
    /// Faults that found every lane waiting.
    pub(crate) queued: FaultQueue,
    /// It is to go, and cannot be used any more.
    pub(crate) ending: bool,
    pub(crate) jobs: u64,
    pub(crate) misses: u64,
}

impl Task {
    /// What it is in.
    pub(crate) fn membership(&self) -> Option<Membership> {
        let reservation = self.reservation.map(Membership::Reservation);
        reservation.or_else(|| self.pinned.map(Membership::Pinned))
    }
}

/// A task's use of an object, by so many segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) mapping: MappingId,
    pub(crate) segments: u32,
}

/// A part of a client's address space that the engine knows, by its first address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The first address past it.
    pub(crate) end: u64,
    pub(crate) object: ObjectId,
    /// The object's page at the first address.
    pub(crate) first: u32,
    pub(crate) task: TaskKey,
    pub(crate) mapping: MappingId,
    pub(crate) kind: SegmentKind,
}

/// What kind of memory a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// A shared object's.
    Shared { key: MapKey, writable: bool },
    /// Private memory.
    Private,
}

impl Segment {
    /// The object's page at an address of it, which begins at `start`.
    pub(crate) fn page_at(&self, start: u64, address: u64) -> u32 {
        self.first + u32::try_from((address - start) / crate::PAGE).unwrap_or(u32::MAX)
    }
}

/// The process that a client is, by the kernel's word, and what it calls itself.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: ClientRole,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// None of a forked child that has not connected.
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) name: String,
    pub(crate) agent_thread: u32,
}

impl Process {
    /// A process of a user's that has not connected.
    pub(crate) fn unknown(role: ClientRole, uid: u32, name: String) -> Self {
        Self {
            role,
            pid: 0,
            uid,
            pidfd: None,
            name,
            agent_thread: 0,
        }
    }

    /// Sends it a signal, if it is known.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pidfd) = &self.pidfd {
            // It may have gone already.
            let _ = rustix::process::pidfd_send_signal(pidfd, signal);
        }
    }
}

/// A client's userfaultfds.
#[derive(Debug, Default)]
pub(crate) struct Userfaults {
    pub(crate) shared: Option<Lent<Userfault>>,
    pub(crate) private: Option<Lent<Userfault>>,
}

/// Faults of a client that wait outside of the core.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// At addresses that nothing is known about yet: a mapping may be announced later.
    pub(crate) parked: Vec<Claim>,
    /// To look at again when the client's events have been read.
    pub(crate) deferred: Deferred<Claim>,
}

/// What is counted of a client's faults.
#[derive(Debug)]
pub(crate) struct FaultCounts {
    pub(crate) faults: u64,
    pub(crate) strange: u64,
    pub(crate) times: Times,
}

/// A client's private memory.
#[derive(Debug, Default)]
pub(crate) struct PrivateMemory {
    /// Ranges that stay where they are: start and end.
    pub(crate) kept: Vec<(u64, u64)>,
    /// Pages in its page table.
    pub(crate) resident: u64,
    /// Pages of zeros that have a frame by the books, and are in none.
    pub(crate) blank: u64,
    /// What it takes of the tables.
    pub(crate) bookings: Bookings,
    /// What its program has locked.
    pub(crate) program_locks: ProgramLocks,
    /// What it has beyond its reservation.
    pub(crate) lent: LentPages,
}

/// How a client answers orders.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Since when it has answered every order to give up a page with a refusal, in nanoseconds; 0 if it has not.
    pub(crate) refusing: u64,
    /// It was stopped for good.
    pub(crate) frozen: bool,
}

/// What is known of the pages that a client will want.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// The object of the first file that it announced: the program that it runs.
    pub(crate) program: Option<ObjectId>,
    /// Pieces of files that came along with its faults.
    pub(crate) brought: Brought,
    /// The address from which its files have not been looked through for such pieces.
    pub(crate) beyond: u64,
    /// What it faults on in order of private memory.
    pub(crate) streams: Streams,
    /// The same of files.
    pub(crate) text: Streams,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) process: Process,
    pub(crate) userfaults: Userfaults,
    pub(crate) outbox: Outbox,
    pub(crate) slots: Slots,
    pub(crate) space: BTreeMap<u64, Segment>,
    pub(crate) tasks: Vec<TaskKey>,
    /// The highest of its tasks.
    pub(crate) urgency: u8,
    pub(crate) waiting: Waiting,
    pub(crate) affinity: Affinity,
    pub(crate) counts: FaultCounts,
    pub(crate) memory: PrivateMemory,
    pub(crate) standing: Standing,
    pub(crate) prefetch: Prefetch,
    pub(crate) family: Family,
}

impl Client {
    pub(crate) fn userfault(&self, which: Which) -> Option<&Userfault> {
        match which {
            Which::Shared => self.userfaults.shared.as_deref(),
            Which::Private => self.userfaults.private.as_deref(),
        }
    }

    /// Whether somebody carries out orders for it: not for a child that has not connected, nor where it has ended or
    /// was stopped.
    pub(crate) fn has_agent(&self) -> bool {
        self.family.parent.is_none() && !self.family.gone && !self.standing.frozen
    }

    /// The segment that an address lies in, and where it begins.
    pub(crate) fn segment(&self, address: u64) -> Option<(u64, Segment)> {
        let (&start, &segment) = self.space.range(..=address).next_back()?;
        (address < segment.end).then_some((start, segment))
    }
}

/// Where a private page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In no frame: never touched, forgotten, or in the store.
    Nowhere,
    /// In the client's page table.
    Client,
    /// The same, and in no frame by the books: it is lent.
    Lent,
    /// In the transfer memory.
    Slot(u32),
    /// In a frame by the books, all zeros, and in none really.
    Blank,
    /// An order is under way that takes it out of the client's page table.
    Leaving,
}

/// Which file, so that a changed one is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) changed: (i64, u32),
}

/// What an object holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// Memory to share or not.
    Region {
        memory: Arc<Backed>,
        /// Others can open it by its name.
        named: bool,
    },
    /// A file's content.
    File {
        memory: Backed,
        /// None while nobody uses the object.
        file: Option<LentFile>,
        identity: Identity,
        /// It was seen with another size or change time.
        changed: bool,
        /// As what its pages are cached when they leave. All of them were read from this state of the file.
        cached: Option<CachedFile>,
        /// What programs have used of it.
        used: Used,
    },
    /// Private memory of one client.
    Private {
        client: ClientId,
        pages: Vec<Where>,
        /// Which pages are anybody's.
        booked: Booked,
    },
}

/// An object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    pub(crate) uid: u32,
    /// The user in whose part of the tables it is: root for what is kept for whoever comes.
    pub(crate) payer: u32,
    pub(crate) regime: Regime,
    pub(crate) pages: u32,
    /// Its first record in the store.
    pub(crate) record: u32,
    pub(crate) content: Content,
    /// How often clients have it open.
    pub(crate) openings: u32,
    /// Its turn among those that nobody uses.
    pub(crate) idle: Option<u64>,
    /// It goes as soon as that can be; its frames when that was decided.
    pub(crate) doomed: Option<u32>,
    /// Where it is mapped.
    pub(crate) segments: Vec<SegmentAt>,
}

/// Where a segment of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentAt {
    pub(crate) client: ClientId,
    /// Its first address.
    pub(crate) start: u64,
    /// The object's page there.
    pub(crate) first: u32,
}

impl Object {
    pub(crate) fn memory(&self) -> Option<&Backed> {
        match &self.content {
            Content::Region { memory, .. } => Some(memory),
            Content::File { memory, .. } => Some(memory),
            Content::Private { .. } => None,
        }
    }

    /// What it is called for others than its user: a region of neither root's nor the server's user with that before
    /// it.
    pub(crate) fn shown(&self) -> String {
        let foreign = self.uid != 0 && self.uid != freehold_linux::process::effective_user();
        match self.content {
            Content::Region { named: true, .. } if foreign => format!("{}:{}", self.uid, self.name),
            _ => self.name.clone(),
        }
    }

    /// Whose private memory it is.
    pub(crate) fn private_client(&self) -> Option<ClientId> {
        match self.content {
            Content::Private { client, .. } => Some(client),
            _ => None,
        }
    }

    pub(crate) fn booked(&self) -> Option<&Booked> {
        match &self.content {
            Content::Private { booked, .. } => Some(booked),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> ObjectKind {
        match &self.content {
            Content::Region { .. } => ObjectKind::Shared,
            Content::File { .. } => ObjectKind::File,
            Content::Private { .. } => ObjectKind::Private,
        }
    }
}

/// How a reservation's lock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    Idle,
    UnderWay,
    Failed,
}

/// A reservation.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) id: ReservationId,
    pub(crate) name: String,
    pub(crate) kind: ReservationKind,
    /// Tasks in it.
    pub(crate) tasks: u32,
    /// Nobody holds it any more: it ends with its last task.
    pub(crate) released: bool,
    pub(crate) locking: Locking,
}
