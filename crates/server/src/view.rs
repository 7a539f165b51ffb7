//! Snapshots of the engine for documents: plain data, taken under its lock.

use crate::backing::BackingView;
use crate::engine::{ClientId, ClientRole, ObjectKey, TaskKey};
use freehold_core::id::{PinnedPoolId, ReservationId};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView, PinningSettings};
use freehold_core::units::PageCount;
use freehold_core::view::{PoolView, ReservationView, TaskCounts};
use freehold_report::pinning::{JudgedJobs, PinningStatus};
use freehold_report::status::{PagerStatus, PrivatePages, TimesStatus};
use freehold_store::{Description, StoreStats};
use std::ops::Range;
use std::time::Duration;

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct EngineView {
    /// The pool.
    pub pool: PoolView,
    /// Frames the kernel says are resident: objects, clients' private pages, transfer memory, backing.
    pub resident_measured: u64,
    /// What the tables had no room for, with what would have to give.
    pub shortages: Vec<String>,
    /// Frames that are free or conserved and backed by locked memory.
    pub backing: BackingView,
    /// Reservations, in order of admission slots.
    pub reservations: Vec<ReservationRow>,
    /// Pinned page pools, in order of their slots.
    pub pinned_pools: Vec<PinnedPoolRow>,
    /// Of all that there ever were.
    pub pinning: PinningStatus,
    /// Clients.
    pub clients: Vec<ClientView>,
    /// Shared objects; private memory is with its client.
    pub objects: Vec<ObjectView>,
    /// Transfers of the store.
    pub store: StoreStats,
    /// What the store is.
    pub store_description: Description,
    /// Orders under way.
    pub orders: OrdersView,
    /// The pager threads.
    pub pagers: Vec<PagerStatus>,
    /// How long the engine's steps took: so long at most a fault waits for somebody else's.
    pub steps: TimesStatus,
}

/// One reservation.
#[derive(Clone, Debug)]
pub struct ReservationRow {
    /// Its id.
    pub id: ReservationId,
    /// Its name.
    pub name: String,
    /// Hard or firm.
    pub kind: ReservationKind,
    /// Lists and frames.
    pub lists: ReservationView,
    /// Tasks in it.
    pub members: Vec<MemberView>,
}

/// A task of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its client.
    pub client: ClientId,
    /// Its process.
    pub pid: u32,
    /// The task.
    pub task: TaskKey,
    /// The task's name.
    pub name: String,
}

/// One pinned page pool.
#[derive(Clone, Debug)]
pub struct PinnedPoolRow {
    /// Its id.
    pub id: PinnedPoolId,
    /// Pages brought back so far.
    pub restored: u64,
    /// Its name.
    pub name: String,
    /// What it was opened with.
    pub settings: PinningSettings,
    /// Lists and budget.
    pub lists: PinnedPoolView,
    /// Jobs judged.
    pub counts: JudgedJobs,
    /// The last job, and what followed.
    pub last: Option<(JobReport, Judgement)>,
    /// The last job that missed its deadline.
    pub last_miss: Option<JobReport>,
    /// Tasks in it: process and name.
    pub members: Vec<(u32, String)>,
}

/// What followed from a job.
#[derive(Clone, Copy, Debug)]
pub struct JudgedJob {
    /// The core's word.
    pub judgement: Judgement,
    /// What the pool was opened with.
    pub settings: PinningSettings,
    /// Pages pinned now.
    pub pinned: PageCount,
    /// Pages brought back before releases so far.
    pub restored: u64,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientView {
    /// Its id.
    pub id: ClientId,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What it is called.
    pub name: String,
    /// Program or library.
    pub role: ClientRole,
    /// Its tasks.
    pub tasks: Vec<TaskView>,
    /// Its private pages.
    pub private: PrivatePages,
    /// Ranges kept where they are.
    pub kept: Vec<Range<u64>>,
    /// What is not managed, with the reason.
    pub unmanaged: Vec<String>,
    /// Fault messages read.
    pub faults: u64,
    /// Faults that the engine could not make sense of.
    pub strange_faults: u64,
    /// Orders under way to it.
    pub orders: u32,
    /// Between the reading of a fault message and its resolution, faults that waited for a store included.
    pub service: TimesStatus,
}

/// One task.
#[derive(Clone, Debug)]
pub struct TaskView {
    /// Its id.
    pub id: TaskKey,
    /// Its name.
    pub name: String,
    /// Its reservation.
    pub reservation: Option<ReservationId>,
    /// The pinned page pool that may pin its pages.
    pub pinned: Option<PinnedPoolId>,
    /// How urgent it is.
    pub urgency: u8,
    /// Counts, of all its wait slots.
    pub counts: TaskCounts,
    /// Jobs ended.
    pub jobs: u64,
    /// Jobs that missed their deadlines.
    pub misses: u64,
}

/// One shared object.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// Its id.
    pub id: ObjectKey,
    /// A path, or a region's name, with its user's number before it where that is neither root nor the server's.
    pub name: String,
    /// Of a file: device, inode, size and change time (seconds, nanoseconds).
    pub identity: Option<(u64, u64, u64, i64, u32)>,
    /// What it holds at first.
    pub kind: ObjectKind,
    /// How it is shared.
    pub regime: Regime,
    /// The user whose region it is.
    pub uid: u32,
    /// Its size in pages.
    pub pages: u32,
    /// Pages in frames.
    pub resident: u32,
    /// Who maps it.
    pub mappers: Vec<MapperView>,
    /// What each reservation has of it.
    pub shares: Vec<ShareView>,
    /// A file changed after it was opened here.
    pub changed: bool,
}

/// A client that maps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapperView {
    /// The client.
    pub client: ClientId,
    /// Its process.
    pub pid: u32,
    /// Where.
    pub address: u64,
    /// The first page there.
    pub first: u32,
    /// How many pages.
    pub pages: u32,
}

/// What one reservation has of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareView {
    /// The reservation; none for the pool.
    pub reservation: Option<ReservationId>,
    /// Pages that it owns.
    pub owned: u32,
    /// Pages on its lists.
    pub listed: u32,
    /// Distinct pages referenced while sampled: Max(S_i).
    pub sampled_max: u32,
    /// Mean pages referenced in a period while sampled: Avg(S_i).
    pub sampled_average: f64,
}

/// Orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersView {
    /// Under way.
    pub outstanding: u32,
    /// How long the oldest has been.
    pub oldest: Duration,
    /// Sent so far.
    pub sent: u64,
    /// Answered "the kernel holds the page".
    pub busy: u64,
    /// Clients stopped because they did not answer.
    pub stopped: u64,
    /// Transfers of the store that somebody more urgent has come to wait for.
    pub lifted: u64,
}
