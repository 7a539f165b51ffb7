//! What happened, event by event, for pictures and traces. Times are the driver's.

use freehold_core::effect::{Effect, Holder, Resolution, Scope, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Duration, Instant, PageIndex};

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEnd {
    /// The page was mapped, and the core counted it so.
    Resolved(Resolution),
    /// The access was let go to fault afresh; the next fault of the task is the same access again.
    Again,
    /// The access ended with an error.
    Failed,
}

/// A fault served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// The task's slot; none where nobody's thread faulted.
    pub task: Option<u16>,
    /// When it began.
    pub from: Instant,
    /// When it was served.
    pub to: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// How it ended.
    pub end: FaultEnd,
}

/// A wait for the store, in the course of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEvent {
    /// From when.
    pub from: Instant,
    /// Until when: the transfer was due, or the task was told of something else.
    pub to: Instant,
    /// When the task ran again: in between it was ready, and had no CPU.
    pub resumed: Instant,
    /// Whether the task kept its CPU.
    pub spun: bool,
}

impl WaitEvent {
    /// A wait from `from` on that ended at `now` and was to end at `due`, if nothing came before. Nanoseconds.
    #[must_use]
    pub fn new(from: u64, now: u64, due: Instant, spun: bool) -> Self {
        Self {
            from: Instant::new(from),
            to: Instant::new(now.min(due.get().max(from))),
            resumed: Instant::new(now),
            spun,
        }
    }
}

/// A page taken from its holder's lists; demotions are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionEvent {
    /// When that was decided.
    pub at: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// Whose it was.
    pub holder: Holder,
    /// Why.
    pub reason: UnmapReason,
    /// Whether its content goes to the store.
    pub write_back: bool,
}

/// A page on its way from or to the store, or from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferEvent {
    /// When the core asked for it.
    pub from: Instant,
    /// When it was ended. It may have been due before: where tasks drive, nobody ends it before somebody needs it.
    pub to: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// Which way.
    pub kind: Request,
    /// Whether it failed.
    pub failed: bool,
    /// The slot of the task that waited for the page, or whose thread was told to write it back; none for others.
    pub task: Option<u16>,
}

/// A hold of the core's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHoldEvent {
    /// When it was taken.
    pub from: Instant,
    /// When it was given back.
    pub to: Instant,
    /// The wait for it before.
    pub waited: Duration,
    /// The slot of the task; none for commands, and where threads are nobody's.
    pub task: Option<u16>,
}

/// Which effects mean that a page has been evicted.
///
/// A page that is unmapped from one holder's tasks has gone from its lists, save where it was only demoted. One that
/// leaves memory is unmapped from everybody by the effect before the one that lets it leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evictions {
    unmapped: Option<(PageRef, UnmapReason)>,
}

impl Evictions {
    /// What an effect says; to be told of every effect, in order.
    pub fn told(&mut self, at: Instant, effect: &Effect) -> Option<EvictionEvent> {
        let (page, holder, reason, write_back) = match *effect {
            Effect::Unmap { page, from, reason } => {
                self.unmapped = Some((page, reason));
                match from {
                    Scope::Of(holder) if reason != UnmapReason::Demotion => (page, holder, reason, false),
                    Scope::Of(_) | Scope::Everyone => return None,
                }
            }
            Effect::WriteBack { page, holder } => (page, holder, self.reason(page), true),
            Effect::Discard { page, holder } => (page, holder, self.reason(page), false),
            _ => return None,
        };
        Some(EvictionEvent {
            at,
            object: object_slot(page),
            page: page.page(),
            holder,
            reason,
            write_back,
        })
    }

    fn reason(&self, page: PageRef) -> UnmapReason {
        let last = self.unmapped.filter(|(last, _)| *last == page);
        last.map_or(UnmapReason::Eviction, |(_, reason)| reason)
    }
}

/// The slot of a page's object: the core's tables of objects are shorter than 2^16.
pub(crate) fn object_slot(page: PageRef) -> u16 {
    u16::try_from(page.object().index()).unwrap_or(u16::MAX)
}
