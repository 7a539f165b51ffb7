//! The engine: the core, all page state, and everything that is known of clients.
//!
//! # A step
//! Somebody brings a message, an answer, an end of a transfer or a request. It becomes facts for the core; its effects
//! are carried out as every engine does it ([`effects`]); what ends at once is told to the core in the same step. Only
//! two things take time: transfers, whose ends come back through [`ends`], and orders to clients, whose answers come
//! back through [`outbox`]. A step waits for neither.

mod ahead;
mod booked;
mod booking;
mod bound;
mod claims;
mod client_pool;
mod clients;
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
mod keep;
mod keys;
mod laws;
mod leaving;
mod legacy;
mod lending;
mod near;
mod objects;
mod outbox;
mod pace;
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
mod stores;
mod table;
mod tasks;
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
pub use keys::{
    ClientId, ClientRole, Handover, MapKey, MapRequest, Membership, NewClient, ObjectKey, Opened, RegionRequest,
    TaskKey,
};
pub use picture::Picture;
pub(crate) use recorder::{Events, SampleEvent};
pub use source_file::SourceFile;
pub(crate) use turns::Turn;

use crate::error::EngineError;
use crate::reserve::Reserve;
use crate::settings::{Settings, Unresponsive};
use crate::times::Times;
use ahead::Along;
use deferred_free::DeferredFrees;
use ends::Ends;
use extents::Extents;
use fork_copy::ForkChildren;
use freehold_core::Memory;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::limits::Limits;
use freehold_core::units::{Instant, PageCount};
use freehold_driver::{Batch, Completions, End, Ended};
use freehold_linux::clock;
use freehold_protocol::channel::Shortage;
use freehold_store::{PageLease, Store};
use holes::Holes;
use idle_files::IdleFiles;
use keep::HeldThread;
use leaving::Leaving;
use lending::Lending;
use pace::Pace;
use pager_threads::PagerThreads;
use pinned::PinnedRows;
use readers::Readers;
use recorder::Recorder;
use retire::Retiring;
pub(crate) use rows::Identity;
use rows::{Claim, Client, LaneName, Object, Reservation, Task};
use sampling::Samples;
use shares::Shares;
use sources::Sources;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use table::Table;
use under_way::Transfers;
use vacate::Vacating;

/// What the engine has done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    busy: u64,
    stopped: u64,
    /// Transfers that somebody more urgent has come to wait for.
    lifted: u64,
    /// How often there was no room for what, by number.
    shortages: [u64; Shortage::ALL.len()],
}

/// The server's one state machine. Every method is a short step that waits for nobody.
#[derive(Debug)]
pub struct Engine {
    core: Memory,
    store: Box<dyn Store>,
    ends: Arc<Ends>,
    readers: Readers,
    clients: Table<Client>,
    tasks: Table<Task>,
    /// By the core's task slots.
    lanes: Vec<Option<LaneName>>,
    /// By the core's object slots.
    objects: Vec<Option<Object>>,
    /// By the core's reservation slots.
    reservations: Vec<Option<Reservation>>,
    pinned: PinnedRows,
    records: Extents,
    regions: BTreeMap<(u32, String), ObjectId>,
    files: BTreeMap<Identity, ObjectId>,
    transfers: Transfers,
    /// Records whose transfers have ended.
    ready: VecDeque<u32>,
    /// What the core wants done, drained and not carried out yet.
    batch: Batch,
    completions: Completions,
    /// Pages that cannot leave, of which the core has not been told.
    immovable: VecDeque<PageRef>,
    /// Faults to be looked at again in this step.
    again: VecDeque<Claim>,
    /// Tasks with faults that found every lane waiting.
    crowded: Vec<TaskKey>,
    shares: Shares,
    leaving: Leaving,
    lending: Lending,
    along: Along,
    samples: Samples,
    loans: Vec<PageLease>,
    sources: Sources,
    holes: Holes,
    reserve: Arc<Reserve>,
    spare: frames::Spare,
    /// Memory of objects that are gone.
    deferred_free: DeferredFrees,
    /// Clients that have ended, to be dropped by another thread.
    remains: Vec<Client>,
    /// Pages that have come or gone in this step.
    moved: usize,
    /// Files that nobody uses.
    idle_files: IdleFiles,
    /// What is taken back piece by piece.
    vacating: Vacating,
    /// What the core would not end yet.
    retiring: Retiring,
    /// Clients with faults to look at again soon.
    deferred: Vec<ClientId>,
    /// Clients whose agents may have to be woken.
    announce: Vec<ClientId>,
    submitted: bool,
    threads: PagerThreads,
    /// The pager thread whose step this is; of the control thread, the first.
    pager: usize,
    /// A pager thread has the engine, not the control thread.
    in_round: bool,
    /// The thread whose fault is being served, held where it is.
    held: Option<HeldThread>,
    now: Instant,
    next_key: u32,
    client_pool: client_pool::ClientPool,
    unresponsive: Unresponsive,
    /// When to look for clients that do not answer.
    watch_at: Option<u64>,
    /// Somebody waits for frames to be admitted.
    gathering: bool,
    pace: Pace,
    /// Children that are being given their pages.
    fork_children: ForkChildren,
    recorder: Option<Box<Recorder>>,
    notices: Vec<String>,
    tally: Tally,
    /// How long steps took.
    steps: Times,
}

impl Engine {
    /// Makes all tables, the store and what the pager threads wait on.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(settings: &Settings) -> Result<Self, EngineError> {
        let (cpus, pages) = (cpus(settings), settings.pages.get());
        let ends = Arc::new(Ends::new(cpus.len(), pages).map_err(EngineError::system("a bell could not be made"))?);
        let mut engine = Self::make(settings, cpus, ends)?;
        engine.listen_to_bells()?;
        if let Some(shortfall) = engine.sources.shortfall.take() {
            engine.notice(shortfall);
        }
        Ok(engine)
    }

    fn make(settings: &Settings, cpus: Vec<usize>, ends: Arc<Ends>) -> Result<Self, EngineError> {
        Ok(Self {
            core: core(settings)?,
            store: stores::make(settings, &ends)?,
            readers: Readers::start(&ends, settings.priority, settings.declared_latency())?,
            ends,
            clients: Table::new(usize::from(settings.clients)),
            tasks: Table::new(usize::from(settings.tasks)),
            lanes: (0..settings.tasks).map(|_| None).collect(),
            objects: (0..settings.objects).map(|_| None).collect(),
            reservations: (0..settings.reservations).map(|_| None).collect(),
            pinned: PinnedRows::default(),
            records: Extents::new(settings.pages.get()),
            regions: BTreeMap::new(),
            files: BTreeMap::new(),
            transfers: Transfers::new(settings, cpus.len()),
            ready: VecDeque::new(),
            batch: Batch::default(),
            completions: Completions::default(),
            immovable: VecDeque::new(),
            again: VecDeque::new(),
            crowded: Vec::new(),
            shares: Shares::new(settings),
            leaving: Leaving::default(),
            lending: Lending::default(),
            along: Along::new(cpus.len()),
            samples: Samples::default(),
            loans: Vec::new(),
            sources: Sources::new(settings.priority)?,
            holes: Holes::default(),
            reserve: frames::make(settings)?,
            spare: frames::Spare::default(),
            deferred_free: DeferredFrees::default(),
            remains: Vec::with_capacity(clients::REMAINS),
            moved: 0,
            idle_files: IdleFiles::new(settings.pages.get()),
            retiring: Retiring::default(),
            vacating: Vacating::default(),
            deferred: Vec::new(),
            announce: Vec::new(),
            submitted: false,
            threads: PagerThreads::new(cpus, settings.priority)?,
            pager: 0,
            in_round: false,
            held: None,
            now: Instant::ZERO,
            next_key: 1,
            client_pool: client_pool::ClientPool::new(settings.frames.get().saturating_add(256)),
            unresponsive: settings.unresponsive,
            watch_at: None,
            gathering: false,
            pace: Pace::new(settings.paced),
            fork_children: ForkChildren::default(),
            recorder: Recorder::new(settings),
            notices: Vec::new(),
            tally: Tally::default(),
            steps: Times::new(),
        })
    }

    /// Begins a step: reads the clock once.
    fn begin(&mut self) {
        self.now = Instant::new(clock::now().as_nanos());
        self.vacating.begin();
        self.core.allow_locking(PageCount::ZERO);
    }

    /// Carries out everything that follows from what was told to the core, until nothing is left to do at once.
    fn settle(&mut self) {
        self.vacate_first();
        loop {
            self.drain();
            if let Some((record, what)) = self.transfers.next_ended() {
                self.finish_as(record, what);
            } else if let Some(record) = self.ready.pop_front() {
                self.finish(record);
            } else if let Some(ended) = self.completions.next_end() {
                self.tell(ended);
            } else if self.leaving.has_holes() {
                self.drop_left();
            } else if let Some(claim) = self.again.pop_front() {
                self.fault(claim);
            } else if let Some(claim) = self.next_queued() {
                self.fault(claim);
            } else if let Some(near) = self.along.neighbours.pop() {
                self.take_neighbours(near);
            } else if let Some(id) = self.fork_children.departed.pop() {
                self.end_client(id);
            } else if !self.retire() && self.completions.is_empty() {
                break;
            }
        }
        self.drop_left();
        if self.holes.is_hot() {
            self.cool_hot();
        }
        self.send_zaps();
        self.record_sample();
        self.wake_those_that_go();
        self.tell_reserve();
        if !self.vacating.is_empty() || self.core.wants_locking() {
            self.reserve.ring();
        }
        if std::mem::take(&mut self.submitted) {
            self.store.flush();
        }
        debug_assert_eq!(self.holes.check(), Ok(()), "who waits for a hole is woken");
        if !self.in_round {
            self.end_step();
        }
        while let Some(id) = self.announce.pop() {
            if let Some(client) = self.clients.get_mut(id.index(), id.generation()) {
                client.outbox.announce();
            }
        }
    }

    /// Notes how long the step took.
    fn end_step(&mut self) {
        let took = clock::now().as_nanos().saturating_sub(self.now.get());
        self.steps.record(took);
    }

    fn tell(&mut self, ended: Ended) {
        self.moved += 1;
        self.record_end(ended);
        let Ended { page, request, end } = ended;
        if ended.tell(&mut self.core, self.now).is_err() {
            self.notice("the core refused the end of a request");
        }
        if request == Request::Fill {
            self.drop_if_forgotten(page);
            self.note_taken_in(page);
        }
        if end == End::Kept {
            self.lock_arrived(page.object(), page.page().get());
        }
    }

    /// Notes something for the log.
    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        // Whoever should read them may not: a client must not fill memory by misbehaving.
        if self.notices.len() < 1_000 {
            self.notices.push(text.into());
        }
    }

    /// What is to be logged since this was last asked.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The core, for questions that the view does not answer.
    #[must_use]
    pub fn core(&self) -> &Memory {
        &self.core
    }

    /// The store, for its statistics and, in tests, its faults.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
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
        reservations: settings.reservations,
        objects: settings.objects,
        tasks: settings.tasks,
        mappings: settings.mappings,
        // There cannot be more of them than pages.
        compared_pages: settings.compared_pages.min(settings.pages),
        shared_locks: settings.shared_locks,
    }
}
