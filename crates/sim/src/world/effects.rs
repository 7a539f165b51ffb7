//! Carrying out what the core asks for, each effect checked before it is believed.

use freehold_core::effect::{Effect, Holder, Protection, Resolution, Scope, Source, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{MappingId, TaskId};
use freehold_core::units::Instant;
use freehold_driver::{Backend, Completions, End, Ended, HolderRow, Run};
use freehold_scenario::recording::TransferKind;

use super::{FaultEnd, Ticket, Urgency, Wake, World};
use crate::laws::Oracle;
use crate::physical::Wrong;
use crate::sequence::Change;
use crate::store::Submission;

const STILL_MAPPED: &str = "an eviction of a page that is still mapped";

impl World<'_> {
    /// Drains the core's effects, and tells it of what has ended at once, until both are empty.
    pub(super) fn carry_out(&mut self, now: u64) {
        self.told.facts += 1;
        self.told.now = now;
        let mut batch = std::mem::take(&mut self.work.batch);
        loop {
            batch.drain(self, |world| world.memory.poll_effect());
            batch.carry_out(self);
            let Some(ended) = self.work.completions.next_end() else {
                break;
            };
            self.tell(ended);
        }
        self.work.batch = batch;
        if let Some((frames, pool)) = self.physical.overdrawn() {
            self.laws.report(now, Oracle::Frames, || {
                format!("{frames} frames in use, the pool has {pool}")
            });
        }
        if self.told.check_every != 0 && self.told.facts.is_multiple_of(self.told.check_every) {
            self.check_books(now);
            self.check_residency(now);
        }
    }

    fn tell(&mut self, ended: Ended) {
        if let Err(error) = ended.tell(&mut self.memory, Instant::new(self.told.now)) {
            self.laws.report(self.told.now, Oracle::Effects, || {
                format!("the core refuses the end of its own request: {error}")
            });
        }
    }

    /// A request has ended: pages and contents move, and the core is told with the next effects.
    pub(super) fn end(&mut self, now: u64, ticket: Ticket, failed: bool) {
        self.told.now = now;
        let (region, page) = (ticket.region, ticket.page.page().get());
        match (ticket.request, failed) {
            (Request::Fill, false) => self.filled(ticket.page, ticket.source, ticket.cached),
            (Request::Fill, true) => self.physical.not_filled(region, page),
            (Request::Evict, false) => {
                self.counts.writes += u64::from(ticket.written);
                self.physical.gone(region, page, ticket.written);
            }
            (Request::Evict, true) => self.physical.kept(region, page),
        }
        self.log.transferred(now, ticket.transfer, failed);
        let end = if failed { End::Failed } else { End::Done };
        self.tell(Ended {
            page: ticket.page,
            request: ticket.request,
            end,
        });
    }

    fn filled(&mut self, page: PageRef, source: Source, cached: bool) {
        let from = match source {
            Source::CopyOf(from) => Some((self.region_of(from), from.page().get())),
            _ => None,
        };
        self.counts.reads += u64::from(matches!(source, Source::Store) && !cached);
        let wrong = self
            .physical
            .filled(self.region_of(page), page.page().get(), source, from);
        self.blame(self.told.now, Oracle::Integrity, wrong, page);
    }

    fn note_decision(&mut self, effect: &Effect) {
        match *effect {
            Effect::Map {
                task,
                mapping,
                page,
                protection,
                resolution,
            } => {
                let writable = protection == Protection::Writable;
                self.map(self.told.now, (task, mapping), page, writable, resolution);
            }
            Effect::Retry { task } => self.end_fault(self.told.now, task, FaultEnd::Retry),
            Effect::Fail { task, failure } => self.end_fault(self.told.now, task, FaultEnd::Failed(failure)),
            Effect::LockFailed { .. } => self.told.lock_failed = true,
            Effect::Unmap {
                page,
                from: Scope::Of(holder),
                reason: UnmapReason::Eviction,
            } => self.note_evicted(holder, page),
            Effect::WriteBack { page, holder } | Effect::Discard { page, holder } => self.note_evicted(holder, page),
            // Carried out with the batch, or the core's own book-keeping.
            Effect::Unmap { .. }
            | Effect::Fill { .. }
            | Effect::Take { .. }
            | Effect::Transfer { .. }
            | Effect::Recall { .. }
            | Effect::Locked { .. } => {}
        }
    }

    fn note_evicted(&mut self, holder: Holder, page: PageRef) {
        if let Some(reservation) = self.reservation_of(holder) {
            let region = self.region_of(page);
            self.sequences
                .note(reservation, Change::Evicted, region, page.page().get());
        }
    }

    fn log_eviction(&mut self, now: u64, effect: &Effect) {
        if let Some(event) = self.log.decided(now, effect) {
            let region = self.names.region_of.get(usize::from(event.object)).copied();
            let reservation = self.reservation_of(event.holder);
            self.log.evicted(&event, region.unwrap_or_default(), reservation);
        }
    }

    fn map(&mut self, now: u64, who: (TaskId, MappingId), page: PageRef, writable: bool, resolution: Resolution) {
        let mapped_by = self.names.mapped_by.get(who.1.index()).copied().flatten();
        let task = self.names.task_of.get(who.0.index()).copied().flatten();
        let (region, number) = (self.region_of(page), page.page().get());
        let Some((owner, mapped)) = mapped_by.filter(|(owner, _)| Some(*owner) == task) else {
            self.blame(now, Oracle::Effects, Some("a mapping that is not the task's"), page);
            return;
        };
        let of_base = mapped != region;
        let base = self.scenario.regions[mapped]
            .copy_of
            .map(freehold_scenario::RegionIndex::get);
        let wanted = self.faults.pending[owner].map(|pending| (pending.region, pending.page));
        let wrong = if !self.physical.is_resident(region, number) {
            Some("a mapping of a page that is not resident")
        } else if wanted != Some((mapped, number)) {
            Some("a mapping that nobody waits for")
        } else if of_base && (base != Some(region) || writable) {
            Some("a mapping of another object's page")
        } else {
            None
        };
        self.blame(now, Oracle::Effects, wrong, page);
        if let Some(table) = self.tables.table_mut(owner, mapped) {
            table.map(number, writable, of_base);
            if writable {
                self.physical
                    .written(region, number, table.writes.then_some(table.reservation));
            }
        }
        self.end_fault(now, who.0, FaultEnd::Mapped(resolution));
    }

    fn end_fault(&mut self, now: u64, id: TaskId, end: FaultEnd) {
        let task = self.names.task_of.get(id.index()).copied().flatten();
        let Some((task, pending)) = task.and_then(|task| Some((task, self.faults.pending[task].take()?))) else {
            self.laws.report(now, Oracle::Faults, || {
                format!("{id:?} has no fault that could end with {end:?}")
            });
            return;
        };
        self.note_end(task, pending, end);
        self.log.fault_ended(now, task, (pending.region, pending.page), end);
        let (evictions, read_ahead) = self.evicted_and_read(task);
        self.work.wakes.push_back(Wake {
            task,
            end,
            evictions: evictions.saturating_sub(pending.evictions),
            read_ahead: read_ahead.saturating_sub(pending.read_ahead),
        });
    }

    /// Reads a page from its store.
    pub(super) fn read(&mut self, now: u64, ticket: Ticket) {
        let number = ticket.page.page().get();
        let transfer = self.log.transfer(now, (ticket.region, number), TransferKind::Read);
        let urgency = self.urgency_of_fill(ticket.page);
        let ticket = Ticket {
            transfer,
            cached: false,
            ..ticket
        };
        self.submit(now, ticket, urgency, None);
    }

    fn submit(&mut self, now: u64, ticket: Ticket, urgency: Urgency, frees_for: Option<HolderRow>) {
        let submission = Submission {
            ticket,
            urgency,
            record: self.physical.number(ticket.region, ticket.page.page().get()),
            frees_for,
        };
        if !self.store.submit(now, submission) {
            self.blame(now, Oracle::Effects, Some("two requests at once"), ticket.page);
        }
    }

    /// A page leaves memory: its mappings must be gone.
    fn check_unmapped(&mut self, page: PageRef, what: &'static str) {
        let mapped = self.tables.mapper(self.region_of(page), page.page().get());
        self.blame(self.told.now, Oracle::Effects, mapped.map(|_| what), page);
    }

    fn unmap_page(&mut self, region: usize, page: u32, from: Scope) {
        let holder = match from {
            Scope::Everyone => None,
            Scope::Of(holder) => Some(self.reservation_of(holder)),
        };
        let chosen = |table: &crate::page_table::Table| holder.is_none_or(|holder| table.reservation == holder);
        if self.tables.unmap(region, page, chosen) {
            self.physical.written_once_more(region, page);
        }
    }

    fn check_discard(&mut self, region: usize, page: u32) {
        let wrong = self.physical.discard(region, page);
        self.blame_in(self.told.now, Oracle::Integrity, wrong, (region, page));
        let mapped = self.tables.mapper(region, page).map(|_| STILL_MAPPED);
        self.blame_in(self.told.now, Oracle::Effects, mapped, (region, page));
    }

    pub(super) fn region_of(&self, page: PageRef) -> usize {
        self.names
            .region_of
            .get(page.object().index())
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn reservation_of(&self, holder: Holder) -> Option<usize> {
        match holder {
            Holder::Reservation(id) => self.names.reservation_of.get(id.index()).copied(),
            Holder::Pool => None,
        }
    }

    fn blame(&mut self, now: u64, oracle: Oracle, wrong: Wrong, page: PageRef) {
        self.blame_in(now, oracle, wrong, (self.region_of(page), page.page().get()));
    }

    fn blame_in(&mut self, now: u64, oracle: Oracle, wrong: Wrong, (region, page): (usize, u32)) {
        if let Some(wrong) = wrong {
            let region = &self.scenario.regions[region].name;
            self.laws
                .report(now, oracle, || format!("{wrong}: page {page} of {region}"));
        }
    }
}

impl Backend for World<'_> {
    fn completions(&mut self) -> &mut Completions {
        &mut self.work.completions
    }

    fn decided(&mut self, effect: &Effect) {
        self.log_eviction(self.told.now, effect);
        self.note_decision(effect);
    }

    fn unmap(&mut self, run: Run, from: Scope) {
        let region = self.region_of(run.first);
        for page in pages(run) {
            self.unmap_page(region, page, from);
        }
    }

    fn fill(&mut self, page: PageRef, source: Source, _urgent: Option<TaskId>) -> Option<End> {
        let (now, region) = (self.told.now, self.region_of(page));
        let wrong = self.physical.fill(region, page.page().get(), source);
        self.blame(now, Oracle::Effects, wrong, page);
        if self.told.setting_up || !matches!(source, Source::Store) {
            self.filled(page, source, false);
            return Some(End::Done);
        }
        let ticket = Ticket {
            page,
            region,
            request: Request::Fill,
            source,
            written: false,
            transfer: None,
            cached: false,
        };
        if !self.get_cached(now, ticket) {
            self.read(now, ticket);
        }
        None
    }

    fn write(&mut self, page: PageRef, holder: Holder) -> Option<End> {
        let (now, region, number) = (self.told.now, self.region_of(page), page.page().get());
        let wrong = self.physical.write_back(region, number);
        self.blame(now, Oracle::Integrity, wrong, page);
        self.check_unmapped(page, STILL_MAPPED);
        if self.told.setting_up {
            self.physical.gone(region, number, true);
            return Some(End::Done);
        }
        let ticket = Ticket {
            page,
            region,
            request: Request::Evict,
            source: Source::Store,
            written: true,
            transfer: self.log.transfer(now, (region, number), TransferKind::Write),
            cached: false,
        };
        let urgency = self.urgency_of_write_back(holder);
        self.submit(now, ticket, urgency, Some(HolderRow::from(holder)));
        None
    }

    fn offer(&mut self, page: PageRef) -> bool {
        let (region, number) = (self.region_of(page), page.page().get());
        let ticket = Ticket {
            page,
            region,
            request: Request::Evict,
            source: Source::Store,
            written: false,
            transfer: None,
            cached: false,
        };
        let taken = !self.told.setting_up && self.put_cached(self.told.now, ticket);
        if taken {
            self.check_discard(region, number);
        }
        taken
    }

    fn drop_run(&mut self, run: Run) {
        let region = self.region_of(run.first);
        for page in pages(run) {
            self.check_discard(region, page);
            self.physical.gone(region, page, false);
        }
    }

    fn take(&mut self, from: PageRef, to: PageRef) {
        let place = |page: PageRef| (self.region_of(page), page.page().get());
        let (source, target) = (place(from), place(to));
        self.check_unmapped(from, "a frame taken from a page that is still mapped");
        let wrong = self.physical.take(source, target);
        self.blame(self.told.now, Oracle::Integrity, wrong, from);
    }
}

fn pages(run: Run) -> impl Iterator<Item = u32> {
    (run.first.page().get()..).take(run.count)
}
