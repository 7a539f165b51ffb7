//! The status document: what `status --json` prints. Counts are pages or frames of 4 KiB; times are nanoseconds.
//!
//! New fields may be added; those there are keep their meaning.

use crate::pinning::{PinnedPoolStatus, PinningStatus};
use crate::reservation::{ReservationCounts, ReservationFrames, ReservationLists};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusDocument {
    /// The server itself.
    pub server: ServerStatus,
    /// The pool.
    pub memory: MemoryStatus,
    /// Reservations.
    pub reservations: Vec<ReservationStatus>,
    /// Pinned page pools.
    #[serde(default)]
    pub pinned_pools: Vec<PinnedPoolStatus>,
    /// All pinned page pools since the server began.
    #[serde(default)]
    pub pinning: PinningStatus,
    /// Processes.
    pub clients: Vec<ClientStatus>,
    /// Programs that these have begun and that run unmanaged, by kind; the latest last.
    #[serde(default)]
    pub unmanaged: Vec<UnmanagedStatus>,
    /// Shared objects: regions, and contents of files.
    pub objects: Vec<ObjectStatus>,
    /// Where evicted pages go.
    pub store: StoreStatus,
    /// Orders to agents.
    pub orders: OrdersStatus,
    /// Pager threads.
    pub pagers: Vec<PagerStatus>,
    /// How long the engine's steps took, one of which at most a fault waits for.
    #[serde(default)]
    pub steps_ns: TimesStatus,
    /// The region that is set aside for devices, if there is one: see `docs/book/src/devices.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_cache: Option<Value>,
    /// Devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Value>,
    /// Only what is the asking user's own is shown; of other reservations only the sizes.
    pub partial: bool,
}

/// The server itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its release.
    pub version: String,
    /// The version of the protocol it speaks.
    pub protocol: u16,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// Where it listens.
    pub socket: String,
    /// How long it has run.
    pub uptime_ns: u64,
    /// What becomes of a client that does not answer: `kill` or `freeze`.
    pub unresponsive: String,
    /// After how long.
    pub unresponsive_ns: u64,
    /// What the server wanted and could not have.
    pub shortfalls: Vec<String>,
}

/// The pool, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// All frames.
    pub pool: u64,
    /// Sum of `held`, and pages of tasks without a reservation.
    pub used: u64,
    /// The largest `used` so far.
    pub peak: u64,
    /// What the kernel says is resident, never the server's own books.
    pub resident_measured: u64,
    /// Frames free or conserved that are to be backed by locked memory of the server's.
    #[serde(default)]
    pub reserve_due: u64,
    /// Of these, there, as the kernel counts them: fewer while a new reservation's are being taken.
    #[serde(default)]
    pub reserve: u64,
    /// Frames to be given up where the machine has none, as the kernel counts them.
    #[serde(default)]
    pub headroom: u64,
    /// Held by nobody.
    pub free: u64,
    /// Promised to reservations.
    pub committed: u64,
    /// Set aside for devices: promised to nobody else.
    #[serde(default)]
    pub outside: u64,
    /// Pages of tasks without a reservation, and of nobody.
    pub pool_pages: u64,
    /// Of these, being filled or written back.
    pub in_flight: u64,
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationStatus {
    /// Its name.
    pub name: String,
    /// `hard` or `firm`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What its tasks can use.
    #[serde(flatten)]
    pub lists: ReservationLists,
    /// What it holds frames for.
    #[serde(flatten)]
    pub frames: ReservationFrames,
    /// Pages evicted because borrowed frames were taken back.
    pub taken_back: u64,
    /// Tasks in it.
    pub members: Vec<MemberStatus>,
}

impl ReservationStatus {
    /// Its numbers.
    #[must_use]
    pub const fn counts(&self) -> ReservationCounts {
        ReservationCounts {
            lists: self.lists,
            frames: self.frames,
        }
    }
}

/// Programs of one name that run unmanaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmanagedStatus {
    /// What they are called.
    pub program: String,
    /// Why they are not managed, in words.
    pub why: String,
    /// How many were begun.
    pub begun: u64,
    /// The process that was begun last; null where it has no number here.
    pub pid: Option<u32>,
    /// The reservation of whoever has begun it, none of whose frames it uses.
    pub reservation: Option<String>,
}

/// A task of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub task: String,
}

/// Private pages of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivatePages {
    /// In its page table.
    #[serde(rename = "private_resident")]
    pub resident: u64,
    /// In frames outside its page table, demoted, or on their way: those are counted in its page table too.
    #[serde(rename = "private_slots")]
    pub slots: u64,
    /// In the store only.
    #[serde(rename = "private_stored")]
    pub stored: u64,
    /// Of those in its page table, pages beyond its reservation, because all of it is kept by input and output.
    #[serde(default)]
    pub lent: u64,
    /// How many ever were.
    #[serde(default)]
    pub lent_total: u64,
    /// Inherited at a fork: not managed.
    pub inherited: u64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// What the server calls it.
    pub client: u32,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// What it calls itself.
    pub name: String,
    /// `program` or `library`.
    pub role: String,
    /// Its tasks.
    pub tasks: Vec<TaskStatus>,
    /// Its private pages.
    #[serde(flatten)]
    pub private: PrivatePages,
    /// Ranges kept where they are.
    pub kept: Vec<RangeStatus>,
    /// What is not managed, and why.
    pub unmanaged: Vec<String>,
    /// Faults served.
    pub faults: u64,
    /// Faults that made no sense.
    pub strange_faults: u64,
    /// Orders it has not answered yet.
    pub orders: u64,
    /// From a fault's message to its resolution.
    pub service_ns: TimesStatus,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Its name.
    pub name: String,
    /// Its reservation; null is the pool.
    pub reservation: Option<String>,
    /// The pinned page pool that may pin its pages.
    #[serde(default)]
    pub pinned_pool: Option<String>,
    /// 0 background to 255.
    pub urgency: u8,
    /// Faults on resident pages.
    pub soft_faults: u64,
    /// First touches.
    pub zero_fills: u64,
    /// Pages read back from the store.
    pub swap_ins: u64,
    /// Of these, pages that another's eviction took.
    pub shared_swap_ins: u64,
    /// Pages read from files.
    pub file_reads: u64,
    /// Write-permission faults.
    pub write_faults: u64,
    /// Pages read back beside one that was faulted on.
    pub read_ahead: u64,
    /// Pages taken from its own lists.
    pub evictions: u64,
    /// Between fault and resolution, all together.
    pub waited_ns: u64,
    /// Jobs ended.
    pub jobs: u64,
    /// Jobs that missed their deadlines.
    pub misses: u64,
}

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeStatus {
    /// Where it begins, `0x…`.
    pub address: String,
    /// Its length.
    pub bytes: u64,
}

/// Times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimesStatus {
    /// How many.
    pub count: u64,
    /// Half took at most this long.
    pub p50: u64,
    /// 99 of 100 took at most this long.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// One shared object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectStatus {
    /// A region's name, with `UID:` before it where it is neither root's nor the asking or the server's own user's; or
    /// a file's path as the server finds it.
    pub name: String,
    /// `region`, `private region` or `file`.
    pub kind: String,
    /// Of a file.
    pub identity: Option<IdentityStatus>,
    /// `spc` (and `spel` where pages are locked) or `none`.
    pub sharing: String,
    /// Whose region it is; of a file, who opened it first.
    pub user: u32,
    /// Its size.
    pub pages: u64,
    /// Pages in frames.
    pub resident: u64,
    /// Who maps it.
    pub mappers: Vec<MapperStatus>,
    /// What each reservation has of it.
    pub shares: Vec<ShareStatus>,
    /// The file has changed since.
    pub changed: bool,
}

/// What makes a file this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityStatus {
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it last changed: seconds.
    pub changed_s: i64,
    /// And nanoseconds.
    pub changed_ns: u32,
}

/// A mapping of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapperStatus {
    /// The process.
    pub pid: u32,
    /// Where, `0x…`.
    pub address: String,
    /// The object's first page there.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
}

/// What a reservation has of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// The reservation; null is the pool.
    pub reservation: Option<String>,
    /// Pages it owns: whose frames it pays.
    pub owned: u64,
    /// Pages on its lists.
    pub listed: u64,
    /// Max(S): distinct pages referenced while sampled.
    pub max_use: u64,
    /// Avg(S): mean pages referenced in a period while sampled.
    pub avg_use: f64,
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// `memory`, `file` or `compressed`.
    pub kind: String,
    /// How bytes are moved.
    pub backend: String,
    /// Past the page cache.
    pub direct: bool,
    /// Records read back.
    pub reads: u64,
    /// Records written.
    pub writes: u64,
    /// Bytes read back.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Attempts repeated.
    pub retried: u64,
    /// Pages that were in frames before, and are now in the store or their file only.
    #[serde(default)]
    pub pages: u64,
    /// The most of them at a time.
    #[serde(default)]
    pub pages_peak: u64,
    /// Frames of the store's own, outside the pool.
    pub frames: u64,
    /// Bytes of compressed records.
    pub stored_bytes: u64,
    /// What it had to do without.
    pub shortfalls: Vec<String>,
}

/// Orders to agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrdersStatus {
    /// Under way.
    pub outstanding: u64,
    /// How long the oldest has been.
    pub oldest_ns: u64,
    /// Sent so far.
    pub sent: u64,
    /// Answered "the kernel holds the page".
    pub busy: u64,
    /// Clients stopped because they did not answer.
    pub stopped: u64,
}

/// One pager thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagerStatus {
    /// Its CPU.
    pub cpu: u64,
    /// Its real-time priority; null where it was refused.
    pub priority: Option<u32>,
    /// Why it was refused.
    pub refused: Option<String>,
    /// Clients that it serves.
    pub clients: u64,
    /// Fault messages it has read.
    pub messages: u64,
}
/// A count of a row that is kept as the document has it; 0 where it has none.
#[must_use]
pub fn count_in(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}
