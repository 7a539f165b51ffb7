//! The engine: the core, all page state, and everything that is known of clients.
//!
//! # A step
//! Somebody brings a message, an answer, an end of a transfer or a request. It becomes facts for the core; its effects
//! are carried out as every engine does it ([`effects`]); what ends at once is told to the core in the same step. Only
//! two things take time: transfers, whose ends come back through [`ends`], and orders to clients, whose answers come
//! back through [`outbox`]. A step waits for neither.

mod ahead;
mod apart;
mod booked;
mod booking;
mod bound;
mod claims;
mod client_pool;
mod clients;
mod deferred;
mod deferred_free;
mod departures;
mod effects;
mod ends;
mod extents;
mod fault_queue;
mod faults;
mod file_reads;
mod fork_copy;
mod fork_unconnected;
mod forks;
mod forsaken;
mod frames;
mod holes;
mod idle_files;
mod journal;
mod keep;
mod keys;
mod laws;
mod leaving;
mod legacy;
mod lending;
mod lockstep;
mod near;
mod objects;
mod outbox;
mod pager_threads;
mod picture;
mod pinned;
mod private;
mod program_locks;
mod readers;
mod recorder;
mod relinquish;
mod reservations;
mod restore;
mod retire;
mod rows;
mod sampling;
mod shares;
mod shortages;
mod slots;
mod source_file;
mod sources;
mod space;
mod step;
mod stores;
mod table;
mod tasks;
mod teardown;
mod transfers;
mod turns;
mod under_way;
mod urgency;
mod vacate;
mod victim_pages;
mod views;
mod withheld;
mod written;
mod zaps;

pub(crate) use client_pool::ClientChannels;
pub(crate) use clients::is_trusted;
pub use journal::Notice;
pub use keys::{
    ClientId, ClientRole, Handover, MapKey, MapRequest, Membership, NewClient, ObjectKey, Opened, RegionRequest,
    TaskKey,
};
pub use lockstep::Standing;
pub use picture::Picture;
pub(crate) use recorder::{Events, SampleEvent};
pub use source_file::SourceFile;
pub(crate) use turns::Turn;

use crate::error::EngineError;
use crate::settings::Settings;
use ahead::Along;
use clients::Clients;
use ends::Ends;
use fork_copy::ForkChildren;
use frames::Backing;
use freehold_core::Memory;
use freehold_core::limits::Limits;
use freehold_store::Store;
use journal::Journal;
use objects::Objects;
use pager_threads::PagerThreads;
use pinned::PinnedRows;
use reservations::Reservations;
pub(crate) use rows::Identity;
use std::sync::Arc;
use step::Step;
use tasks::Tasks;
use teardown::Teardown;
use transfers::Io;
use under_way::Transfers;

/// Lets an owner of rows be asked as the rows themselves.
macro_rules! rows_of {
    ($owner:ident { $field:ident: $rows:ty }) => {
        impl std::ops::Deref for $owner {
            type Target = $rows;

            fn deref(&self) -> &$rows {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $owner {
            fn deref_mut(&mut self) -> &mut $rows {
                &mut self.$field
            }
        }
    };
}
use rows_of;

/// The server's one state machine. Every method is a short step that waits for nobody.
#[derive(Debug)]
pub struct Engine {
    core: Memory,
    clients: Clients,
    tasks: Tasks,
    objects: Objects,
    reservations: Reservations,
    pinned: PinnedRows,
    transfers: Transfers,
    io: Io,
    along: Along,
    /// Children that are being given their pages.
    fork_children: ForkChildren,
    teardown: Teardown,
    backing: Backing,
    threads: PagerThreads,
    step: Step,
    journal: Journal,
}

impl Engine {
    /// Makes all tables, the store and what the pager threads wait on.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(settings: &Settings) -> Result<Self, EngineError> {
        let (cpus, pages) = (cpus(settings), settings.pages.get());
        let ends = Arc::new(Ends::new(cpus.len(), pages).map_err(EngineError::system("a bell could not be made"))?);
        let mut engine = Self {
            core: core(settings)?,
            clients: Clients::new(settings),
            tasks: Tasks::new(settings),
            objects: Objects::new(settings),
            reservations: Reservations::new(settings),
            pinned: PinnedRows::default(),
            transfers: Transfers::new(settings, cpus.len()),
            io: Io::new(settings, ends)?,
            along: Along::new(cpus.len()),
            fork_children: ForkChildren::default(),
            teardown: Teardown::default(),
            backing: Backing::new(settings)?,
            threads: PagerThreads::new(cpus, settings.priority)?,
            step: Step::default(),
            journal: Journal::new(settings),
        };
        engine.listen_to_bells()?;
        if let Some(shortfall) = engine.backing.sources.shortfall.take() {
            engine.notice(shortfall);
        }
        Ok(engine)
    }

    /// The core, for questions that the view does not answer.
    #[must_use]
    pub fn core(&self) -> &Memory {
        &self.core
    }

    /// The store, for its statistics and, in tests, its faults.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.io.store.as_ref()
    }
}

fn cpus(settings: &Settings) -> Vec<usize> {
    match settings.cpus.as_slice() {
        [] => freehold_linux::sched::allowed_cpus().unwrap_or_else(|_| vec![0]),
        cpus => cpus.to_vec(),
    }
}

fn core(settings: &Settings) -> Result<Memory, EngineError> {
    let mut core = limits(settings).seal()?;
    core.set_read_ahead(settings.read_ahead);
    core.set_reads_on(settings.reads_on);
    Ok(core)
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        frames: settings.frames,
        pages: settings.pages,
        reservations: settings.tables.reservations,
        objects: settings.tables.objects,
        tasks: settings.tables.tasks,
        mappings: settings.tables.mappings,
        // There cannot be more of them than pages.
        compared_pages: settings.tables.compared_pages.min(settings.pages),
        shared_locks: settings.tables.shared_locks,
    }
}
