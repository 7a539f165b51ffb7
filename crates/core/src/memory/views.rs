//! Getters.

use crate::effect::{Holder, Resolution};
use crate::fact::PageRef;
use crate::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use crate::index::{HolderIndex, PageNumber, TaskIndex};
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::units::{Duration, FrameCount, PageCount, PageIndex};
use crate::view::{PageState, PageView, PlaceView, PoolView, ReservationView, TaskCounts};

impl Memory {
    /// A reservation's lists and frames; `None` where it has ended.
    #[must_use]
    pub fn reservation(&self, id: ReservationId) -> Option<ReservationView> {
        self.reservations.get(id.index(), id.generation())?;
        Some(self.account_of(HolderIndex::reservation(id.index())).view())
    }

    /// The pool.
    #[must_use]
    pub fn pool_view(&self) -> PoolView {
        let pool = self.pool();
        let used = self.frames.total - pool.held.free.len();
        PoolView {
            total: FrameCount::new(self.frames.total),
            free: pool.held.free.count(),
            used: pool.held.owned.count(),
            in_flight: pool.held.in_flight.count(),
            outside: FrameCount::new(self.frames.set_aside),
            committed: FrameCount::new(self.committed()),
            memory_used: FrameCount::new(used),
            memory_peak: FrameCount::new(self.frames.peak.max(used)),
            away: PageCount::new(self.frames.away),
            away_peak: PageCount::new(self.frames.most_away),
        }
    }

    /// Frames that nobody holds, without the rest of [`pool_view`](Self::pool_view), which looks at every reservation.
    #[must_use]
    pub fn pool_free(&self) -> FrameCount {
        self.pool().held.free.count()
    }

    /// What happened to a task so far.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<TaskCounts> {
        Some(self.tasks.get(id.index(), id.generation())?.counts)
    }

    /// Whose frames a task uses.
    #[must_use]
    pub fn holder(&self, id: TaskId) -> Option<Holder> {
        Some(self.holder_name(self.tasks.get(id.index(), id.generation())?.holder))
    }

    /// The task and the object of a mapping.
    #[must_use]
    pub fn mapping(&self, id: MappingId) -> Option<(TaskId, ObjectId)> {
        let mapping = self.mappings.get(id.index(), id.generation())?;
        let generation = self.objects.generation(usize::from(mapping.object));
        Some((self.task_id(mapping.task), ObjectId::new(mapping.object, generation)))
    }

    /// Pages of an object that are in frames.
    #[must_use]
    pub fn resident(&self, id: ObjectId) -> Option<PageCount> {
        Some(PageCount::new(self.objects.get(id.index(), id.generation())?.resident))
    }

    /// Whether a page of an object is in a frame. O(1).
    #[must_use]
    pub fn is_resident(&self, object: ObjectId, page: PageIndex) -> bool {
        let found = self.objects.get(object.index(), object.generation());
        let inside = found.filter(|found| page.get() < found.pages);
        inside.is_some_and(|found| self.pages[PageNumber(found.first + page.get())].state == PageState::Resident)
    }

    /// One page of an object; of a view, its own page, which is empty as long as it has not been written.
    #[must_use]
    pub fn page(&self, object: ObjectId, page: PageIndex) -> Option<PageView> {
        let found = self.objects.get(object.index(), object.generation())?;
        if page.get() >= found.pages {
            return None;
        }
        let number = PageNumber(found.first + page.get());
        let settled = |index: &_| self.entries[*index].marks.has(Marks::SETTLED);
        let state = self.pages[number].state;
        let owner = (state == PageState::Resident).then(|| self.entries[self.owner(number)].holder);
        let locked = |index: &_| settled(index) && self.entries[*index].place == Place::Locked;
        let reserved = |index: &_| settled(index) && self.policy(self.entries[*index].holder).is_promised();
        Some(PageView {
            state,
            dirty: self.pages[number].marks.has(PageMarks::DIRTY),
            owner: owner.and_then(|holder| self.account_of(holder).id),
            sharers: u32::try_from(self.sharers(number).filter(reserved).count()).unwrap_or(u32::MAX),
            lockers: u32::try_from(self.sharers(number).filter(locked).count()).unwrap_or(u32::MAX),
        })
    }

    /// The pages of a reservation in the order in which they would be evicted if none were touched any more: those
    /// inactive, then those active. Locked ones are not among them.
    pub fn next_victims(&self, id: ReservationId) -> impl Iterator<Item = PageRef> + '_ {
        self.pages_of(id)
            .filter(|(_, place)| matches!(place, PlaceView::Inactive | PlaceView::Active))
            .map(|(page, _)| page)
    }

    /// Every page on a reservation's lists that is there, the next victim first, the locked ones last.
    pub fn pages_of(&self, id: ReservationId) -> impl Iterator<Item = (PageRef, PlaceView)> + '_ {
        let known = self.reservations.get(id.index(), id.generation());
        let account = known.map(|()| self.account_of(HolderIndex::reservation(id.index())));
        let lists = account.map(|account| {
            [
                (account.lists.inactive(), PlaceView::Inactive),
                (account.lists.active(), PlaceView::Active),
                (account.lists.locked(), PlaceView::Locked),
            ]
        });
        lists.into_iter().flatten().flat_map(move |(list, place)| {
            let mut next = list.first();
            core::iter::from_fn(move || {
                let index = next?;
                next = self.entries[index].next.some();
                Some(index)
            })
            .filter(|&index| self.entries[index].marks.has(Marks::SETTLED))
            .map(move |index| (self.page_ref(self.entries[index].page), place))
        })
    }

    /// Every page that a pinned page pool pins, the next to be looked at first, the inactive ones first.
    pub fn pages_pinned_by(&self, id: PinnedPoolId) -> impl Iterator<Item = (PageRef, PlaceView)> + '_ {
        let pool = self.pinned.slots.get(id.index(), id.generation());
        let lists = pool.map(|pool| [(pool.inactive, PlaceView::Inactive), (pool.active, PlaceView::Active)]);
        lists.into_iter().flatten().flat_map(move |(list, place)| {
            let mut next = list.first();
            core::iter::from_fn(move || {
                let index = next?;
                next = self.entries[index].next.some();
                Some((self.page_ref(self.entries[index].page), place))
            })
        })
    }

    /// Bytes of all tables: what the core itself costs, fixed since it was made.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        size_of::<Self>()
            + self.accounts.capacity() * size_of::<crate::frames::account::Account>()
            + self.reservations.bytes()
            + self.objects.bytes()
            + self.tasks.bytes()
            + self.mappings.bytes()
            + self.pinned.slots.bytes()
            + self.pages.bytes()
            + self.entries.bytes()
            + self.pages.taken.capacity() * size_of::<u32>()
            + self.waiters.capacity() * size_of::<TaskIndex>()
            + self.step.service.bytes()
            + self.credit.debtors.bytes()
            + self.step.effects.capacity() * size_of::<Option<crate::effect::Effect>>()
    }

    pub(crate) fn task_id(&self, task: TaskIndex) -> TaskId {
        TaskId::new(task.0, self.tasks.generation(task.slot()))
    }

    pub(crate) fn mapping_id(&self, mapping: u16) -> MappingId {
        MappingId::new(mapping, self.mappings.generation(usize::from(mapping)))
    }
}

impl TaskCounts {
    /// Counts one resolved fault.
    pub(crate) fn add(&mut self, resolution: Resolution, waited: Duration) {
        self.waited = self.waited.saturating_add(waited);
        let count = match resolution {
            Resolution::Soft => &mut self.soft_faults,
            Resolution::ZeroFill => &mut self.zero_fills,
            Resolution::SwapIn { shared } => {
                self.shared_swap_ins += u64::from(shared);
                &mut self.swap_ins
            }
            Resolution::FileRead => &mut self.file_reads,
            Resolution::Copy => &mut self.copies,
            Resolution::Upgrade => &mut self.write_faults,
            Resolution::Ahead => &mut self.ahead,
        };
        *count += 1;
    }
}
