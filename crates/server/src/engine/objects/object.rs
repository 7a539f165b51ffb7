//! An object: what it holds, and where it is mapped.

use crate::closing::LentFile;
use crate::engine::keys::ClientId;
use crate::engine::prefetch::StartupHistory;
use crate::engine::private_memory::Where;
use crate::engine::private_memory::booked::Booked;
use crate::victims::CachedFile;
use freehold_core::id::ObjectId;
use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::memory::PagedMemfd;
use std::sync::Arc;

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
        memory: Arc<PagedMemfd>,
        /// Others can open it by its name.
        named: bool,
    },
    /// A file's content.
    File {
        memory: PagedMemfd,
        /// None while nobody uses the object.
        file: Option<LentFile>,
        identity: Identity,
        /// It was seen with another size or change time.
        changed: bool,
        /// As what its pages are cached when they leave. All of them were read from this state of the file.
        cached: Option<CachedFile>,
        /// What programs have used of it.
        startup_history: StartupHistory,
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

impl Object {
    pub(crate) fn memory(&self) -> Option<&PagedMemfd> {
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

/// Where a segment of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentAt {
    pub(crate) client: ClientId,
    /// Its first address.
    pub(crate) start: u64,
    /// The object's page there.
    pub(crate) first: u32,
}
