//! Carrying out what the core asks for, each effect checked before it is believed.

use freehold_core::effect::{Effect, Holder, Protection, Resolution, Scope, Source, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{MappingId, TaskId};
use freehold_core::units::Instant;
use freehold_driver::HolderRow;
use freehold_scenario::recording::TransferKind;

use super::{FaultEnd, Ticket, Urgency, Wake, World};
use crate::laws::Oracle;
use crate::physical::Wrong;
use crate::sequence::Change;
use crate::store::Submission;

impl World<'_> {
    /// Drains the core's effects, and answers what is to be answered at once, until both are empty.
    pub(super) fn carry_out(&mut self, now: u64) {
        self.facts += 1;
        loop {
            while let Some(effect) = self.memory.poll_effect() {
                self.apply(now, effect);
            }
            let Some(ticket) = self.answers.pop_front() else { break };
            self.answer(now, ticket, false);
        }
        if let Some((frames, pool)) = self.physical.overdrawn() {
            self.laws.report(now, Oracle::Frames, || {
                format!("{frames} frames in use, the pool has {pool}")
            });
        }
        if self.check_every != 0 && self.facts.is_multiple_of(self.check_every) {
            self.check_books(now);
            self.check_residency(now);
        }
    }

    /// Tells the core that a request has ended.
    pub(super) fn answer(&mut self, now: u64, ticket: Ticket, failed: bool) {
        let (region, page) = (ticket.region, ticket.page.page().get());
        match (ticket.request, failed) {
            (Request::Fill, false) => {
                let source = ticket.source.unwrap_or(Source::Zero);
                let from = match source {
                    Source::CopyOf(from) => Some((self.region_of(from), from.page().get())),
                    _ => None,
                };
                self.counts.reads += u64::from(matches!(source, Source::Store) && !ticket.cached);
                let wrong = self.physical.filled(region, page, source, from);
                self.blame(now, Oracle::Integrity, wrong, ticket.page);
            }
            (Request::Fill, true) => self.physical.not_filled(region, page),
            (Request::Evict, false) => {
                self.counts.writes += u64::from(ticket.written);
                self.physical.gone(region, page, ticket.written);
            }
            (Request::Evict, true) => self.physical.kept(region, page),
        }
        self.log.transferred(now, ticket.transfer, failed);
        let at = Instant::new(now);
        let told = if failed {
            self.memory.handle_failed(at, ticket.page, ticket.request)
        } else {
            self.memory.handle_done(at, ticket.page, ticket.request)
        };
        if let Err(error) = told {
            self.laws.report(now, Oracle::Effects, || {
                format!("the core refuses the end of its own request: {error}")
            });
        }
    }

    fn apply(&mut self, now: u64, effect: Effect) {
        self.log_eviction(now, &effect);
        match effect {
            Effect::Map {
                task,
                mapping,
                page,
                protection,
                resolution,
            } => {
                self.map(
                    now,
                    (task, mapping),
                    page,
                    protection == Protection::Writable,
                    resolution,
                );
            }
            Effect::Retry { task } => self.end_fault(now, task, FaultEnd::Retry),
            Effect::Fail { task, failure } => self.end_fault(now, task, FaultEnd::Failed(failure)),
            Effect::Unmap { page, from, reason } => self.unmap(page, from, reason),
            Effect::Fill { page, source, .. } => self.fill(now, page, source),
            Effect::WriteBack { page, holder } => self.evict(now, page, holder, true),
            Effect::Discard { page, holder } => self.evict(now, page, holder, false),
            Effect::Take { from, to } => self.take(now, from, to),
            // Nobody in this world has frames outside.
            Effect::Transfer { .. } | Effect::Locked { .. } | Effect::Recall { .. } => {}
            Effect::SetBudget { pool, budget } => {
                let task = self.names.pool_of.get(pool.index()).copied();
                self.budgets.extend(task.map(|task| (task, budget.get())));
            }
            Effect::LockFailed { .. } => self.lock_failed = true,
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
        let wanted = self.pending[owner].map(|pending| (pending.region, pending.page));
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
        let Some((task, pending)) = task.and_then(|task| Some((task, self.pending[task].take()?))) else {
            self.laws.report(now, Oracle::Faults, || {
                format!("{id:?} has no fault that could end with {end:?}")
            });
            return;
        };
        self.note_end(task, pending, end);
        self.log.fault_ended(now, task, (pending.region, pending.page), end);
        let (evictions, read_ahead) = self.evicted_and_read(task);
        self.wakes.push_back(Wake {
            task,
            end,
            evictions: evictions.saturating_sub(pending.evictions),
            read_ahead: read_ahead.saturating_sub(pending.read_ahead),
        });
    }

    fn unmap(&mut self, page: PageRef, from: Scope, reason: UnmapReason) {
        let (region, number) = (self.region_of(page), page.page().get());
        let holder = match from {
            Scope::Everyone => None,
            Scope::Of(holder) => Some(self.reservation_of(holder)),
        };
        let chosen = |table: &crate::page_table::Table| holder.is_none_or(|holder| table.reservation == holder);
        if self.tables.unmap(region, number, chosen) {
            self.physical.written_once_more(region, number);
        }
        if let (Some(Some(reservation)), UnmapReason::Eviction) = (holder, reason) {
            self.sequences.note(reservation, Change::Evicted, region, number);
        }
    }

    fn fill(&mut self, now: u64, page: PageRef, source: Source) {
        let region = self.region_of(page);
        let wrong = self.physical.fill(region, page.page().get(), source);
        self.blame(now, Oracle::Effects, wrong, page);
        let ticket = Ticket {
            page,
            region,
            request: Request::Fill,
            source: Some(source),
            written: false,
            transfer: None,
            cached: false,
        };
        if self.setting_up || !matches!(source, Source::Store) {
            self.answers.push_back(ticket);
        } else if !self.get_cached(now, ticket) {
            self.read(now, ticket);
        }
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

    fn evict(&mut self, now: u64, page: PageRef, holder: Holder, written: bool) {
        let (region, number) = (self.region_of(page), page.page().get());
        let wrong = match written {
            true => self.physical.write_back(region, number),
            false => self.physical.discard(region, number),
        };
        self.blame(now, Oracle::Integrity, wrong, page);
        let mapped = self
            .tables
            .mapper(region, number)
            .map(|_| "an eviction of a page that is still mapped");
        self.blame(now, Oracle::Effects, mapped, page);
        let reservation = self.reservation_of(holder);
        if let Some(reservation) = reservation {
            self.sequences.note(reservation, Change::Evicted, region, number);
        }
        let ticket = Ticket {
            page,
            region,
            request: Request::Evict,
            source: None,
            written,
            transfer: written
                .then(|| self.log.transfer(now, (region, number), TransferKind::Write))
                .flatten(),
            cached: false,
        };
        if self.setting_up || !written {
            if self.setting_up || !self.put_cached(now, ticket) {
                self.answers.push_back(ticket);
            }
        } else {
            let urgency = self.urgency_of_write_back(holder);
            self.submit(now, ticket, urgency, Some(HolderRow::from(holder)));
        }
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

    fn take(&mut self, now: u64, from: PageRef, to: PageRef) {
        let (source, target) = (
            (self.region_of(from), from.page().get()),
            (self.region_of(to), to.page().get()),
        );
        let mapped = self
            .tables
            .mapper(source.0, source.1)
            .map(|_| "a frame taken from a page that is still mapped");
        self.blame(now, Oracle::Effects, mapped, from);
        let wrong = self.physical.take(source, target);
        self.blame(now, Oracle::Integrity, wrong, from);
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
        if let Some(wrong) = wrong {
            let region = &self.scenario.regions[self.region_of(page)].name;
            self.laws.report(now, oracle, || {
                format!("{wrong}: page {} of {region}", page.page().get())
            });
        }
    }
}
