//! The engine: the core, all page state, and everything that is known of clients.
//!
//! # A step
//! Somebody brings a message, an answer, an end of a transfer or a request. It becomes facts for the core. The core's
//! effects are carried out as every engine does it ([`effects`](transfers::effects)), and what ends at once is told to
//! the core in the same step. Two things take time: transfers, whose ends come back through
//! [`completion_queue`](transfers::completion_queue), and orders to clients, whose answers come back through
//! [`orders`]. A step waits for neither.
//!
//! # Modules
//! A fault goes through five of them. [`event_loop`] takes what is ready, the most urgent first, and [`faults`] asks
//! the core. [`spaces`] knows which object is at an address. [`transfers`] carries the effects out, and [`orders`] has
//! agents do their part.
//!
//! What there is: [`clients`], [`tasks`], [`reservations`]; [`objects`] (regions, files and their readers);
//! [`private_memory`]; [`backing`] (frames that are there). What goes on besides: [`forks`] gives children their
//! pages, [`prefetch`] brings neighbours along, [`pinning`] has the pinned page pools, and [`teardown`] ends things
//! piece by piece. [`affinity`] and [`pager_threads`] choose CPUs. [`journal`], [`recorder`] and [`snapshot`] tell of
//! it.

mod affinity;
mod backing;
mod clients;
mod duties;
mod event_loop;
mod faults;
mod forks;
mod journal;
mod keys;
mod laws;
mod lockstep;
mod objects;
mod orders;
mod pager_threads;
mod pinning;
mod prefetch;
mod private_memory;
mod recorder;
mod reservations;
mod snapshot;
mod spaces;
mod step;
mod table;
mod tasks;
mod teardown;
mod transfers;

pub(crate) use clients::client_pool::ClientChannels;
pub(crate) use clients::is_trusted;
pub(crate) use event_loop::ReadyEvent;
pub use journal::Notice;
pub use keys::{
    ClientId, ClientRole, Handover, MapKey, MapRequest, Membership, NewClient, ObjectKey, Opened, RegionRequest,
    TaskKey,
};
pub use lockstep::Standing;
pub use objects::source_file::SourceFile;
pub(crate) use recorder::{Events, SampleEvent};
pub use snapshot::Snapshot;

use crate::error::EngineError;
use crate::settings::Settings;
use backing::Backing;
use clients::Clients;
use forks::fork_copy::ForkChildren;
use freehold_core::Memory;
use freehold_core::limits::Limits;
use freehold_store::Store;
use journal::Journal;
pub(crate) use objects::Identity;
use objects::Objects;
use pager_threads::PagerThreads;
use pinning::PinnedRows;
use prefetch::Prefetcher;
use reservations::Reservations;
use std::sync::Arc;
use step::Step;
use tasks::Tasks;
use teardown::Teardown;
use transfers::Io;
use transfers::completion_queue::CompletionQueue;
use transfers::transfer_table::Transfers;

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
    prefetcher: Prefetcher,
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
        let completions = Arc::new(
            CompletionQueue::new(cpus.len(), pages)
                .map_err(EngineError::system("an event descriptor could not be made"))?,
        );
        let mut engine = Self {
            core: core(settings)?,
            clients: Clients::new(settings),
            tasks: Tasks::new(settings),
            objects: Objects::new(settings),
            reservations: Reservations::new(settings),
            pinned: PinnedRows::default(),
            transfers: Transfers::new(settings, cpus.len()),
            io: Io::new(settings, completions)?,
            prefetcher: Prefetcher::new(cpus.len()),
            fork_children: ForkChildren::default(),
            teardown: Teardown::default(),
            backing: Backing::new(settings)?,
            threads: PagerThreads::new(cpus, settings.priority)?,
            step: Step::default(),
            journal: Journal::new(settings),
        };
        engine.listen_to_completions()?;
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
