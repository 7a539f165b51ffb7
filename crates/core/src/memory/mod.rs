//! The facade: every command, fact and getter of the core.
//!
//! Four kinds of methods, named by kind: commands are plain verbs ([`Memory::admit`], [`Memory::map`],
//! [`Memory::lock`]); facts are `handle_*` and take the time; [`Memory::poll_effect`] gives out what is to be done;
//! getters are nouns. After every command and every fact the engine drains `poll_effect` until it is empty, before the
//! next one. Time never runs backwards.

mod discard;
mod objects;
mod objects_remove;
mod tasks;
mod views;

use crate::fault::read_ahead::{ReadAhead, Reading};

use alloc::vec::Vec;

use crate::effect::{Effect, Holder, Scope, UnmapReason};
use crate::effect_queue::EffectQueue;
use crate::fact::PageRef;
use crate::frames::Frames;
use crate::frames::account::Account;
use crate::frames::holder::HolderPolicy;
use crate::frames::holder_queue::HolderQueue;
use crate::index::{EntryIndex, HolderIndex, PageNumber, TaskIndex};
use crate::limits::{Limits, Regime};
use crate::pages::entry::{Entries, Marks, Place};
use crate::pages::object::Object;
use crate::pages::page::{Page, PageMarks, Pages};
use crate::pinning::PinnedPools;
use crate::replacement::Refaults;
use crate::reservation::loans::AllLoans;
use crate::sharing::LockPace;
use crate::slots::Slots;
use crate::task::{Mapping, Task};
use crate::units::{Instant, PageIndex};
use crate::view::PageState;

/// Pages of a reservation evicted together by one fault, at most.
pub const EVICTION_BATCH: u32 = 16;
/// Pages of the pool evicted together by one fault of a task without a reservation, at most. Each batch disturbs every
/// CPU that runs a thread of the same address space, so whoever has no guarantee takes fewer, larger ones.
pub const POOL_EVICTION_BATCH: u32 = 64;
/// Pages demoted together by one fault, at most.
pub const DEMOTION_BATCH: u32 = 64;
/// Pages of one lock on their way in at a time, at most.
pub(crate) const LOCK_WINDOW: u32 = 8;
/// Reservation slots that a region under `none` can tell apart.
pub(crate) const COMPARED_SLOTS: u32 = 32;
/// Effects of one batch, at most: demotions (of the pool also of pinned pages) and evictions, and what is read ahead
/// beside the claim that is served then. An eviction may transfer, unmap and write back.
const BATCH_EFFECTS: usize = 2 * DEMOTION_BATCH as usize + 3 * POOL_EVICTION_BATCH as usize + ReadAhead::MOST as usize;

/// Frames of the pool, by number: see [`Account`] for where they are.
#[derive(Debug)]
pub(crate) struct PoolFrames {
    pub(crate) total: u32,
    /// Taken out of the pool for good: whoever has the token holds them.
    pub(crate) set_aside: u32,
    /// Locked pages that another locker pays, of all reservations.
    pub(crate) unpaid: u32,
    /// The most held at a time.
    pub(crate) peak: u32,
    /// Pages that were here before, and whose content is now in the store or the file only.
    pub(crate) away: u32,
    /// The most at a time.
    pub(crate) most_away: u32,
}

/// What the pool has lent, and what it owes.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(crate) loans: AllLoans,
    /// Reservations that the pool owes frames, oldest debt first.
    pub(crate) debtors: HolderQueue,
    /// Frames that the pool owes.
    pub(crate) owed: u32,
}

/// What is reclaimed for a reservation that is about to be admitted.
#[derive(Debug, Default)]
pub(crate) struct AdmissionReclaim {
    /// Its frames; 0 is none.
    pub(crate) frames: u32,
    /// Every page was tried for it, and stays: nothing more is tried until somebody asks again.
    pub(crate) in_vain: bool,
}

/// The step that is under way, and what it leaves to be polled.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) clock: Instant,
    pub(crate) effects: EffectQueue,
    /// [`step_effects`](Memory::step_effects) of the limits.
    most: usize,
    /// Holders whose claims are to be looked at again.
    pub(crate) service: HolderQueue,
    /// The task whose fault is being handled, to which evictions are counted.
    pub(crate) acting: TaskIndex,
    /// In this step a page could not be written back.
    pub(crate) store_failed: bool,
    pub(crate) lock_pace: LockPace,
    #[cfg(feature = "canary")]
    pub(crate) planted: Option<crate::canary::Planted>,
}

/// What replacement remembers.
#[derive(Debug)]
pub(crate) struct Reclaim {
    pub(crate) refaults: Refaults,
    pub(crate) reading: Reading,
}

/// The policy of Freehold: all reservations, objects and pages of one pool of frames.
#[derive(Debug)]
pub struct Memory {
    pub(crate) limits: Limits,
    /// The pool's account first, then one for each reservation slot.
    pub(crate) accounts: Vec<Account>,
    pub(crate) reservations: Slots<()>,
    pub(crate) objects: Slots<Object>,
    pub(crate) tasks: Slots<Task>,
    pub(crate) mappings: Slots<Mapping>,
    pub(crate) pages: Pages,
    pub(crate) entries: Entries,
    /// Waiting tasks, chained by the page they wait for.
    pub(crate) waiters: Vec<TaskIndex>,
    pub(crate) frames: PoolFrames,
    pub(crate) credit: Credit,
    pub(crate) admission_reclaim: AdmissionReclaim,
    pub(crate) pinned: PinnedPools,
    pub(crate) reclaim: Reclaim,
    pub(crate) step: Step,
}

impl Memory {
    /// Allocates all tables; `None` where memory is not to be had.
    pub(crate) fn new(limits: Limits) -> Option<Self> {
        let holders = usize::from(limits.reservations) + 1;
        let mut accounts = Vec::new();
        accounts.try_reserve_exact(holders).ok()?;
        accounts.resize_with(holders, || Account::new(None, HolderPolicy::Hard, 0));
        accounts[0].policy = HolderPolicy::Pool;
        accounts[0].held.free = Frames::pool(limits.frames);
        let buckets = usize::from(limits.tasks).next_power_of_two();
        let mut waiters = Vec::new();
        waiters.try_reserve_exact(buckets).ok()?;
        waiters.resize(buckets, TaskIndex::NONE);
        Some(Self {
            limits,
            accounts,
            reservations: Slots::with_capacity(limits.reservations)?,
            objects: Slots::with_capacity(limits.objects)?,
            tasks: Slots::with_capacity(limits.tasks)?,
            mappings: Slots::with_capacity(limits.mappings)?,
            pages: Pages::with_capacity(limits.pages.get(), limits.compared_pages.get())?,
            entries: Self::make_entries(&limits)?,
            waiters,
            frames: PoolFrames {
                total: limits.frames.get(),
                set_aside: 0,
                unpaid: 0,
                peak: 0,
                away: 0,
                most_away: 0,
            },
            credit: Credit {
                loans: AllLoans::NONE,
                debtors: HolderQueue::with_capacity(holders)?,
                owed: 0,
            },
            admission_reclaim: AdmissionReclaim::default(),
            pinned: PinnedPools::with_limits(&limits)?,
            reclaim: Reclaim {
                refaults: Refaults::NEW,
                reading: Reading::default(),
            },
            step: Step {
                clock: Instant::ZERO,
                effects: EffectQueue::with_capacity(Self::effect_limit(&limits))?,
                most: Self::step_effects(&limits),
                service: HolderQueue::with_capacity(holders)?,
                acting: TaskIndex::NONE,
                store_failed: false,
                lock_pace: LockPace::UNLIMITED,
                #[cfg(feature = "canary")]
                planted: None,
            },
        })
    }

    /// Entries ever needed at once: one for each frame (owned, in flight or conserved), one for each claim without a
    /// frame, one for each page that is locked and paid by another, all of them at hand; and one for each page mapped
    /// without a frame under `none`, whose memory is touched when they are needed: there may be thirty for each frame.
    fn make_entries(limits: &Limits) -> Option<Entries> {
        // A resident page under `none` is mapped without a frame by every holder but its owner. A firm reservation can
        // borrow the frame that such a mapping returned and map the next page with it, so frames are no bound here.
        let sharers = u32::from(limits.reservations).min(COMPARED_SLOTS) - 1;
        let resident = limits.compared_pages.get().min(limits.frames.get());
        let returned = resident.checked_mul(sharers)?;
        let ready = limits.frames.get().checked_add(u32::from(limits.tasks))?;
        let ready = ready.checked_add(limits.shared_locks.get())?;
        let fits = ready.checked_add(returned)? <= Page::ENTRIES;
        fits.then(|| Entries::with_capacity(ready, returned)).flatten()
    }

    fn effect_limit(limits: &Limits) -> usize {
        let holders = usize::from(limits.reservations).min(6) + 2;
        holders * BATCH_EFFECTS + 2 * Self::step_effects(limits) + usize::from(limits.tasks)
    }

    /// Effects of one step before batches are counted, at most: each task's fault ends once, each reservation fails a
    /// lock and passes a page on once; a page that has just gone is read back, and others ahead with it.
    fn step_effects(limits: &Limits) -> usize {
        usize::from(limits.tasks) + 2 * usize::from(limits.reservations) + 16 + ReadAhead::MOST as usize
    }

    /// Whether a fact can be taken in. It always can where the engine drains the effects of one before the next.
    pub(crate) fn room_for_fact(&self) -> bool {
        self.step.effects.room() >= self.step.most
    }

    /// Whether one more batch of evictions fits among the effects. Where it does not, whoever needs it is served
    /// once these are drained.
    pub(crate) fn room_for_batch(&self) -> bool {
        self.step.effects.room() >= BATCH_EFFECTS + self.step.most
    }

    /// The next thing to do, in order; `None` when there is nothing left. O(1), but while a lock brings pages in this
    /// is also where it goes on, a page at a time.
    #[inline]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.step.effects.len() == 0 && (!self.step.service.is_empty() || self.locks_can_go_on()) {
            self.go_on();
        }
        self.step.effects.pop()
    }

    /// What waited for room among the effects.
    #[cold]
    fn go_on(&mut self) {
        if !self.step.service.is_empty() {
            self.end();
        }
        if self.locks_can_go_on() {
            self.continue_locks();
        }
    }

    /// The most effects that wait to be polled at a time. One fact, or one command other than a lock, leaves no more
    /// than this in all, unless it makes more than six holders evict: those are served while the effects are polled.
    #[must_use]
    pub const fn max_effects(&self) -> usize {
        self.step.effects.capacity()
    }

    /// Starts a step: a fact or a command that changes something.
    pub(crate) fn begin(&mut self, now: Option<Instant>) {
        if let Some(now) = now {
            debug_assert!(now >= self.step.clock, "time ran backwards");
            self.step.clock = self.step.clock.max(now);
        }
        self.step.acting = TaskIndex::NONE;
        self.step.store_failed = false;
    }

    /// Ends a step: serves whom it concerns, notes peaks, and in debug builds checks the counting laws.
    pub(crate) fn end(&mut self) {
        self.serve_all();
        self.step.acting = TaskIndex::NONE;
        let used = self.frames.total - self.pool().held.free.len();
        self.frames.peak = self.frames.peak.max(used);
        #[cfg(debug_assertions)]
        if let Err(violation) = self.check_counts() {
            panic!("{violation}");
        }
    }

    pub(crate) fn pool(&self) -> &Account {
        &self.accounts[0]
    }

    pub(crate) fn account(&mut self, holder: HolderIndex) -> &mut Account {
        &mut self.accounts[holder.slot()]
    }

    pub(crate) fn account_of(&self, holder: HolderIndex) -> &Account {
        &self.accounts[holder.slot()]
    }

    pub(crate) fn policy(&self, holder: HolderIndex) -> HolderPolicy {
        self.account_of(holder).policy
    }

    pub(crate) fn holder_name(&self, holder: HolderIndex) -> Holder {
        self.account_of(holder).id.map_or(Holder::Pool, Holder::Reservation)
    }

    pub(crate) fn object_of(&self, page: PageNumber) -> &Object {
        let object = self.pages[page].object;
        self.objects
            .at(usize::from(object))
            .expect("a page in use belongs to an object")
    }

    pub(crate) fn regime(&self, page: PageNumber) -> Regime {
        self.object_of(page).regime
    }

    pub(crate) fn page_ref(&self, page: PageNumber) -> PageRef {
        let slot = self.pages[page].object;
        let first = self.object_of(page).first;
        let object = crate::id::ObjectId::new(slot, self.objects.generation(usize::from(slot)));
        PageRef::new(object, PageIndex::new(page.0 - first))
    }

    /// Emits an order to unmap a page, and returns its name.
    pub(crate) fn emit_unmap(&mut self, page: PageNumber, from: Scope, reason: UnmapReason) -> PageRef {
        let page = self.page_ref(page);
        self.step.effects.push(Effect::Unmap { page, from, reason });
        page
    }

    /// Where a page is from now on.
    pub(crate) fn set_state(&mut self, page: PageNumber, state: PageState) {
        let before = core::mem::replace(&mut self.pages[page].state, state);
        let (was, is) = [before, state].map(|state| state == PageState::Stored).into();
        if was != is && self.pages[page].marks.has(PageMarks::SEEN) {
            self.frames.away = if is { self.frames.away + 1 } else { self.frames.away - 1 };
            self.frames.most_away = self.frames.most_away.max(self.frames.away);
        }
    }

    pub(crate) fn count_resident(&mut self, page: PageNumber, by: i32) {
        let slot = usize::from(self.pages[page].object);
        if let Some(object) = self.objects.at_mut(slot) {
            object.resident = object.resident.saturating_add_signed(by);
        }
    }

    /// Takes an entry off the list it is on.
    pub(crate) fn unlink(&mut self, index: EntryIndex) {
        let entry = self.entries[index];
        let account = &mut self.accounts[entry.holder.slot()];
        account.lists.unlink(&mut self.entries, index);
        match entry.place {
            Place::PinnedActive => self.unlink_pinned(index),
            Place::PinnedInactive => {
                self.unlink_pinned(index);
                self.entries[index].marks.clear(Marks::ODD_ROUND);
            }
            Place::Locked => {
                if !entry.is_shared_lock() {
                    account.locks.count_unlocked();
                }
                self.entries[index].marks.clear(Marks::SELF_PAID);
            }
            _ => {}
        }
    }

    /// Puts an entry, which is on no list, at the end of one.
    pub(crate) fn link(&mut self, index: EntryIndex, place: Place) {
        self.entries[index].place = place;
        if matches!(place, Place::PinnedActive | Place::PinnedInactive) {
            self.link_pinned(index);
        } else {
            let account = &mut self.accounts[self.entries[index].holder.slot()];
            account.lists.link(&mut self.entries, index);
        }
    }

    /// Puts an entry whose page is there, on no list, before all others of the active list.
    pub(crate) fn link_oldest(&mut self, index: EntryIndex) {
        let account = &mut self.accounts[self.entries[index].holder.slot()];
        account.lists.link_oldest(&mut self.entries, index);
    }

    /// Moves an entry whose page is there, but not mapped any more, to the front of the inactive list.
    pub(crate) fn make_next_victim(&mut self, index: EntryIndex) {
        self.unlink(index);
        let account = &mut self.accounts[self.entries[index].holder.slot()];
        account.lists.link_next_victim(&mut self.entries, index);
    }

    /// Moves an entry to the end of another list.
    pub(crate) fn relink(&mut self, index: EntryIndex, place: Place) {
        self.unlink(index);
        self.link(index, place);
    }
}
