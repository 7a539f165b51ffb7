//! Taking up neighbours of a page that was faulted on, so that they need no fault of their own.
//!
//! Only frames that the holder has free are used: what is evicted, and when, is not changed by who else is there (law
//! 0). Guesses never use its last quarter. What a stream goes on to may use a part of that, but none of the frames that
//! the end of a write-back may still have to bring.

use crate::effect::{Effect, Protection, Resolution};
use crate::error::FaultError;
use crate::id::MappingId;
use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::limits::{ObjectKind, PageRange, Regime};
use crate::memory::{EVICTION_BATCH, Memory};
use crate::pages::entry::{Marks, Place};
use crate::pages::object::Object;
use crate::pages::page::PageMarks;
use crate::task::Mapping;
use crate::units::{Instant, PageCount, PageIndex};
use crate::view::PageState;

/// Holders keep one in so many of their frames for faults.
const KEPT_SHARE: u32 = 4;
/// Of these, one in so many is for what a stream goes on to.
const STREAM_SHARE: u32 = 4;
/// Frames that may be about to come free count as free, so many are left alone.
const MAY_BE_LEAVING: u32 = 2 * EVICTION_BATCH;

/// Why pages are expected to be touched next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// They are near.
    Guess,
    /// A stream goes on to them: what is before them was touched in order.
    Stream,
}

impl Memory {
    /// Takes up pages of `range`, in order, as if the mapping's task had faulted on them, but from frames that its
    /// holder has free: until only a quarter of its capacity is. Of a reservation's last quarter a stream gets a part.
    /// Pages that it has already, that are on their way, or that would have to be read back from the store are passed
    /// over. For each page that is absent a `Fill` comes out, for which nobody waits; one that is resident is the
    /// holder's at once. Returns how many were taken up; to have one mapped, [`map_ahead`](Self::map_ahead) it when it
    /// is there. O(pages of the range × sharers).
    ///
    /// # Errors
    /// [`FaultError::Stale`], [`FaultError::OutOfRange`], [`FaultError::Undrained`].
    pub fn fill_ahead(
        &mut self,
        now: Instant,
        mapping: MappingId,
        range: PageRange,
        which: Foresight,
    ) -> Result<PageCount, FaultError> {
        let (found, object) = self.look_up(mapping)?;
        let pages = Self::numbers(&object, range).ok_or(FaultError::OutOfRange)?;
        if !self.room_for_fact() {
            return Err(FaultError::Undrained);
        }
        let holder = self.task_holder(found.task);
        if object.base.is_some() || object.regime == Regime::Unmanaged {
            return Ok(PageCount::ZERO);
        }
        self.begin(Some(now));
        let few = match which {
            Foresight::Guess => 0,
            Foresight::Stream => self.left_for_streams(holder),
        };
        let mut taken = 0;
        for page in pages.map(PageNumber) {
            let spared = self.has_to_spare(holder) || taken < few && self.has_idle_frame(holder);
            if !spared || !self.room_for_fact() {
                break;
            }
            taken += u32::from(self.take_up(holder, &object, page));
        }
        if few > 0 {
            self.step.acting = found.task;
            self.make_room_to_go_on(holder);
        }
        self.end();
        Ok(PageCount::new(taken))
    }

    fn has_to_spare(&self, holder: HolderIndex) -> bool {
        let account = self.account_of(holder);
        let whole = if account.policy.is_promised() {
            account.capacity
        } else {
            self.frames.total
        };
        let wanted_elsewhere = account.policy.is_reclaimed() && self.pool_is_short();
        account.claims.is_empty()
            && !wanted_elsewhere
            && !account.has_ended()
            && account.held.free.len() > whole / KEPT_SHARE
    }

    /// How many of a reservation's last frames are for what a stream goes on to. By frames that are free or coming
    /// free, so that it is the same whenever write-backs end.
    fn left_for_streams(&self, holder: HolderIndex) -> u32 {
        let account = self.account_of(holder);
        if !account.policy.is_promised() || !account.claims.is_empty() {
            return 0;
        }
        if self.reads_on() {
            return Self::most_read_on();
        }
        let supply = u32::try_from(account.uncommitted_supply()).unwrap_or(0);
        supply.saturating_sub(MAY_BE_LEAVING) / STREAM_SHARE
    }

    /// Whether the task of a mapping is in a reservation that has no frame to spare for guesses.
    #[must_use]
    pub fn is_short(&self, mapping: MappingId) -> bool {
        let Ok((found, _)) = self.look_up(mapping) else {
            return false;
        };
        let holder = self.task_holder(found.task);
        self.policy(holder).is_promised() && !self.has_to_spare(holder)
    }

    fn take_up(&mut self, holder: HolderIndex, object: &Object, page: PageNumber) -> bool {
        let wanted = match self.pages[page].state {
            PageState::Empty => true,
            PageState::Stored => object.kind == ObjectKind::File && !self.pages[page].marks.has(PageMarks::DIRTY),
            PageState::Resident => self.policy(holder).is_promised(),
            PageState::Filling | PageState::Leaving => false,
        };
        wanted && self.find_entry(holder, page).is_none() && self.enter_ahead(holder, page)
    }

    /// Enters a page on the holder's lists for which nobody waits, and sets one of its free frames aside for it.
    /// Whether there was an entry for it.
    pub(crate) fn enter_ahead(&mut self, holder: HolderIndex, page: PageNumber) -> bool {
        let Some(index) = self.entries.make(holder, page) else {
            return false;
        };
        let place = self.first_place(holder, page);
        self.append_sharer(index);
        self.link(index, place);
        self.give_frame(index);
        true
    }

    /// Maps a page for which no fault came, if the mapping's holder has it, active and there: then a `Map` comes out
    /// whose task waits for nothing. An inactive page of a reservation with frames to spare counts, and becomes active:
    /// such are the pages that a program left which ran under the reservation before. `write`: it is mapped for writing
    /// and counts as written. Returns whether it is mapped. O(sharers).
    ///
    /// # Errors
    /// [`FaultError::Stale`], [`FaultError::OutOfRange`], [`FaultError::Undrained`]; [`FaultError::Frozen`] for a write
    /// to a base of copy-on-write views.
    pub fn map_ahead(
        &mut self,
        now: Instant,
        mapping: MappingId,
        page: PageIndex,
        write: bool,
    ) -> Result<bool, FaultError> {
        let (found, object) = self.look_up(mapping)?;
        if page.get() >= object.pages {
            return Err(FaultError::OutOfRange);
        }
        if object.views > 0 && write {
            return Err(FaultError::Frozen);
        }
        if !self.room_for_fact() {
            return Err(FaultError::Undrained);
        }
        let number = PageNumber(object.first + page.get());
        let holder = self.task_holder(found.task);
        let index = match self.find_entry(holder, number) {
            Some(index) if self.is_there(index) => index,
            _ => return Ok(false),
        };
        self.begin(Some(now));
        if self.entries[index].place == Place::Inactive {
            self.reference(index);
        }
        if write {
            self.pages[number].marks.set(PageMarks::DIRTY);
        }
        let writable = self.pages[number].marks.has(PageMarks::DIRTY) && object.views == 0;
        if let Some(task) = self.tasks.at_mut(found.task.slot()) {
            task.counts.add(Resolution::Ahead, crate::units::Duration::ZERO);
        }
        self.step.effects.push(Effect::Map {
            task: self.task_id(found.task),
            mapping,
            page: self.page_ref(number),
            protection: if writable {
                Protection::Writable
            } else {
                Protection::ReadOnly
            },
            resolution: Resolution::Ahead,
        });
        self.end();
        Ok(true)
    }

    fn is_there(&self, index: EntryIndex) -> bool {
        let entry = &self.entries[index];
        let left_behind = entry.place == Place::Inactive && self.policy(entry.holder).is_promised();
        entry.marks.has(Marks::SETTLED) && (entry.is_mapped_place() || left_behind && self.has_to_spare(entry.holder))
    }

    pub(crate) fn look_up(&self, mapping: MappingId) -> Result<(Mapping, Object), FaultError> {
        let found = *self
            .mappings
            .get(mapping.index(), mapping.generation())
            .ok_or(FaultError::Stale)?;
        let object = *self.objects.at(usize::from(found.object)).ok_or(FaultError::Stale)?;
        Ok((found, object))
    }
}
