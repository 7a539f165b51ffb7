//! What a pager tells about itself and its tasks.

use freehold_core::id::ObjectId;
use freehold_core::units::{Duration, FrameCount, PageCount};
use freehold_store::StoreStats;

/// Where one task's time in the pager went, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// Faults that reached the pager, spurious ones included.
    pub faults: u64,
    /// Time in the fault handler, without the waits below.
    pub fault_service: Duration,
    /// The longest one fault was served, without the waits.
    pub longest_service: Duration,
    /// Asleep, waiting for a transfer: not charged as CPU time.
    pub store_slept: Duration,
    /// Spinning, waiting for a transfer: charged as CPU time.
    pub store_spun: Duration,
    /// Without a CPU when a wait for the store was over: the time until the task ran again.
    pub resumed_late: Duration,
    /// Waiting for the core's lock.
    pub lock_wait: Duration,
    /// Mappings not made because the page was unmapped meanwhile (see the module `epoch`); the access faulted again.
    pub epoch_retries: u64,
    /// Mappings found made already.
    pub mapped_already: u64,
    /// Faults that ended with an error.
    pub failures: u64,
    /// Waits that found no transfer to drive, only another thread at work.
    pub unattributed: u64,
    /// Pages read back from the store for it. This and the next two are of tasks with a pinned page pool only.
    pub swap_ins: u64,
    /// CPU time in the fault handler for that, spinning and reclamation included; the kernel's part of a fault is not.
    pub swap_cpu: Duration,
    /// Time in the fault handler for that, asleep or not.
    pub swap_elapsed: Duration,
}

/// A disagreement between the kernel's state and the books: a law is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A page that is resident by the books was in no frame (law 5).
    PageAbsent,
    /// A page could not be unmapped.
    NotUnmapped,
    /// The core refused a fault of a mapping that exists.
    FaultRefused,
    /// The core refused the end of a transfer that it had asked for.
    CompletionRefused,
    /// The table of transfers was full, or had the page already.
    TransferRefused,
    /// The core asked for something that is not possible here, such as a copy-on-write page.
    NotSupported,
    /// The core reported a broken law; see [`Pager::check_laws`](crate::Pager::check_laws).
    MappingRefused,
}

impl Broken {
    const ALL: [Self; 7] = [
        Self::PageAbsent,
        Self::NotUnmapped,
        Self::FaultRefused,
        Self::CompletionRefused,
        Self::TransferRefused,
        Self::NotSupported,
        Self::MappingRefused,
    ];

    pub(crate) fn code(self) -> u8 {
        let at = Self::ALL.iter().position(|&other| other == self).unwrap_or(0);
        u8::try_from(at + 1).unwrap_or(u8::MAX)
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// One object at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// The object.
    pub object: ObjectId,
    /// Pages in frames by the core's books.
    pub resident: PageCount,
    /// Pages in frames as the kernel counts them.
    pub resident_measured: PageCount,
    /// Of these, pages that have a frame already and whose content is still on its way.
    pub filling: PageCount,
}

/// Frames that are there for pages to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingReport {
    /// Frames of the backing.
    pub frames: FrameCount,
    /// The farthest that fills ran ahead of the release of its frames.
    pub most_behind: FrameCount,
    /// Frames of the headroom.
    pub headroom: FrameCount,
    /// How often the headroom had to give a frame.
    pub headroom_used: u64,
}

/// Holds of the core's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockReport {
    /// How often it was taken for a fact or command.
    pub holds: u64,
    /// The longest it was held.
    pub longest_hold: Duration,
    /// The longest anybody waited for it.
    pub longest_wait: Duration,
}

/// System calls on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsReport {
    /// Those that unmapped pages.
    pub zaps: u64,
    /// The pages they were made for, counted once for each effect.
    pub pages_zapped: u64,
    /// Those that dropped pages.
    pub punches: u64,
    /// Pages dropped.
    pub pages_punched: u64,
}

/// The pager at one moment. Books and measurement agree only while no task runs and after
/// [`settle`](crate::Pager::settle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Frames in use by the core's books: the contract's `memory.used`.
    pub memory_used: FrameCount,
    /// Frames of objects and backing, as the kernel counts them: the contract's `memory.resident_measured`.
    pub resident_measured: FrameCount,
    /// Of these, frames of the backing, and of the headroom beside it.
    pub backing: BackingReport,
    /// Every object.
    pub objects: Vec<ObjectReport>,
    /// The store.
    pub store: StoreStats,
    /// Transfers under way now.
    pub transfers: usize,
    /// The most transfers ever under way at a time.
    pub most_transfers: usize,
    /// The core's lock.
    pub lock: LockReport,
    /// System calls on pages.
    pub calls: CallsReport,
    /// Decisions so long that a part was carried out under the core's lock.
    pub overlong_drains: u64,
    /// Waits for another thread at work that were ended by the clock, for lack of a wake-up.
    pub unattributed_timeouts: u64,
    /// Broken laws, and the first of them.
    pub broken: u64,
    /// What the first one was.
    pub first_broken: Option<Broken>,
}
