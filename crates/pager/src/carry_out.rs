//! Effects turned into system calls.
//!
//! The order within one batch: threads whose faults were answered are woken; all unmappings but demotions; then
//! requests in the order in which the core made them; then demotions. The core orders effects for each page only, and
//! for one page unmappings precede its eviction (a page demoted and evicted in one batch is unmapped for its eviction
//! too), so this is one of the orders it allows; it lets adjacent pages be unmapped and dropped together. One system
//! call for a run matters: with a sibling thread running on another CPU each call costs a TLB shoot-down, after which
//! the sibling has to find all its translations again. Demotions come last so that their shoot-down falls together
//! with that of the drops that follow: the sibling pays once for both.

use crate::config::Pace;
use crate::context::{Context, DUE_BATCH, Ended, Unmapping, Work};
use crate::object::{Object, Whose};
use crate::report::Broken;
use crate::request::{Account, Moving, Transfer};
use crate::shared::{Shared, TaskRow};
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::Instant;
use freehold_driver::{HolderRow, WHEN_TOLD};
use freehold_linux::{Errno, PageRange};
use freehold_store::{Completion, Due, Slot, StoreError, Urgency};
use std::sync::atomic::Ordering;

/// What has ended is told to the core so many at a time.
const ENDS_IN_ONE_HOLD: usize = 16;

impl Shared {
    /// Carries out all that is in the buffers, and tells the core what ended at once, until nothing is left to do.
    pub(crate) fn run(&self, context: &mut Context) {
        loop {
            self.trim_reserve(context);
            self.carry_out(context);
            if !context.due.is_empty() {
                self.move_pages(context, false);
            }
            if context.ended.is_empty() {
                return;
            }
            self.tell_ended(context);
        }
    }

    /// Tells the core what ended, several in one hold of its lock: each is short, and to lock takes longer than most.
    fn tell_ended(&self, context: &mut Context) {
        let refused = self.hold_core(context, |shared, core, context, now| {
            let mut refused = 0;
            for _ in 0..ENDS_IN_ONE_HOLD {
                let Some(Ended { page, kind, failed }) = context.ended.pop_front() else {
                    break;
                };
                let told = if failed {
                    core.handle_failed(now, page, kind)
                } else {
                    core.handle_done(now, page, kind)
                };
                refused += u32::from(told.is_err());
                shared.drain(core, context);
            }
            refused
        });
        for _ in 0..refused {
            self.counters.note_broken(Broken::CompletionRefused);
        }
    }

    /// Before more frames are taken from the machine: releases those that the reserve has too many of.
    fn trim_reserve(&self, context: &mut Context) {
        if self.reserve.must_trim() {
            let used = self.tell(context, |core, _| core.pool_view().memory_used);
            // A failure leaves frames too many in the reserve: the machine is poorer, nobody's pages are wrong.
            let _ = self.reserve.trim(used.get() as usize);
        }
    }

    /// Carries out what is in the buffers. Never takes the core's lock.
    pub(crate) fn carry_out(&self, context: &mut Context) {
        for task in context.wakes.drain(..) {
            let slot = usize::from(task);
            self.tasks[slot].mailbox.wake();
            if let Some(watch) = &self.watch {
                watch.answered(slot);
            }
        }
        #[cfg(feature = "canary")]
        let copied_early = self.copy_before_zapping(context);
        #[cfg(not(feature = "canary"))]
        let copied_early = false;
        self.unmap(&mut context.unmappings);
        let mut at = 0;
        let mut begun = false;
        while let Some(&work) = context.work.get(at) {
            at += 1;
            begun |= matches!(work, Work::FillStored(..) | Work::WriteBack(..));
            match work {
                Work::FillZero(page) => self.fill_zero(context, page),
                Work::FillStored(page, holder, task) => self.begin_read(context, page, holder, task),
                Work::WriteBack(page, holder) if copied_early => self.begin_copied(context, page, holder),
                Work::WriteBack(page, holder) => self.begin_write(context, page, holder),
                Work::Discard(_) => at = self.discard(context, at - 1),
                Work::Refuse(page, kind) => {
                    self.counters.note_broken(Broken::NotSupported);
                    end(context, page, kind, true);
                }
            }
        }
        context.work.clear();
        if begun {
            self.store.flush();
        }
        self.unmap(&mut context.demotions);
    }

    /// Advances the epochs of all pages to unmap, then zaps them in runs.
    fn unmap(&self, unmappings: &mut Vec<Unmapping>) {
        if unmappings.is_empty() {
            return;
        }
        unmappings.sort_unstable_by_key(|unmapping| {
            let whose = match unmapping.whose {
                Whose::Everyones => u32::MAX,
                Whose::Of(row) => row.get(),
            };
            (unmapping.object, whose, unmapping.page)
        });
        for unmapping in unmappings.iter() {
            let object = self.object_at(unmapping.object);
            self.epochs.advance(object.number(unmapping.page));
        }
        let mut rest = &unmappings[..];
        while let Some((first, run)) = unmapping_run(rest) {
            let pages = PageRange::new(first.page, run);
            match self.object_at(first.object).zap(pages, first.whose) {
                Ok(calls) => self.counters.zap_calls.add(u64::from(calls)),
                Err(_) => self.not_unmapped(),
            }
            self.counters.pages_zapped.add(run as u64);
            rest = &rest[unmapping_entries(rest, first, run)..];
        }
        unmappings.clear();
    }

    /// A page that stays mapped can be written after it was copied out. Nothing right can follow.
    fn not_unmapped(&self) -> ! {
        self.counters.note_broken(Broken::NotUnmapped);
        crate::handler::die(b"freehold: a page could not be unmapped: its content cannot be kept\n")
    }

    fn fill_zero(&self, context: &mut Context, page: PageRef) {
        let filled = self.give_frame(page);
        end(context, page, Request::Fill, filled.is_err());
    }

    /// A locked frame of zeros for the page, from the headroom if the machine has none.
    pub(crate) fn give_frame(&self, page: PageRef) -> Result<(), Errno> {
        let object = self.object_at(page.object().index());
        let at = Object::page_of(page);
        match object.allocate(at) {
            Ok(()) => {}
            Err(_) if self.reserve.release_headroom() => object.allocate(at)?,
            Err(errno) => return Err(errno),
        }
        self.reserve.note_filled();
        Ok(())
    }

    fn begin_read(&self, context: &mut Context, page: PageRef, holder: HolderRow, task: Option<u16>) {
        let urgency = task.map_or(Urgency::BACKGROUND, |task| self.tasks[usize::from(task)].urgency());
        let begun = self.submit_read(page, urgency, self.lately(context));
        let account = context.account(holder, task);
        self.enter(context, page, Request::Fill, account, begun);
    }

    /// Gives the page its frame and has it filled.
    fn submit_read(&self, page: PageRef, urgency: Urgency, now: Instant) -> Result<Due, StoreError> {
        let slot = self.slot(page);
        self.give_frame(page).map_err(|errno| StoreError::Io { slot, errno })?;
        let object = self.object_at(page.object().index());
        object.note_filling();
        object
            .lend(Object::page_of(page))
            .ok_or(StoreError::NoSuchSlot(slot))
            .and_then(|loan| self.store.submit_read(now, slot, urgency, loan))
            .inspect_err(|_| self.take_frame_back(page))
    }

    /// Drops the frame of a page that was not filled: it stays where it was, in the store.
    pub(crate) fn take_frame_back(&self, page: PageRef) {
        let object = self.object_at(page.object().index());
        object.note_filled();
        if object.punch(PageRange::single(Object::page_of(page))).is_ok() {
            self.reserve.note_dropped(1);
        }
    }

    fn begin_write(&self, context: &mut Context, page: PageRef, holder: HolderRow) {
        let slot = self.slot(page);
        let urgency = self.urgency_for(context, holder);
        let loan = self.object_at(page.object().index()).lend(Object::page_of(page));
        let begun = loan
            .ok_or(StoreError::NoSuchSlot(slot))
            .and_then(|loan| self.store.submit_write(self.lately(context), slot, urgency, loan));
        let account = context.account(holder, context.me);
        self.enter(context, page, Request::Evict, account, begun);
    }

    /// How much those hurry who wait for a frame of the holder's: the task whose thread this is, or others.
    fn urgency_for(&self, context: &Context, holder: HolderRow) -> Urgency {
        let mine = context.me.map(usize::from);
        let concerned = |(at, row): &(usize, &TaskRow)| {
            (Some(*at) == mine || row.waits.is_waiting()) && row.holder.load(Ordering::Acquire) == holder.get()
        };
        let urgencies = self.tasks.iter().enumerate().filter(concerned);
        urgencies.map(|(_, row)| row.urgency()).max().unwrap_or_default()
    }

    #[cfg(not(feature = "canary"))]
    fn begin_copied(&self, context: &mut Context, page: PageRef, holder: HolderRow) {
        self.begin_write(context, page, holder);
    }

    /// Enters a transfer that has begun, or that could not.
    pub(crate) fn enter(
        &self,
        context: &mut Context,
        page: PageRef,
        kind: Request,
        account: Account,
        begun: Result<Due, StoreError>,
    ) {
        let transfer = Transfer {
            record: self.slot(page).get(),
            queue: account.holder.index(),
            due: match begun {
                Ok(Due::At(due)) => due,
                Ok(Due::WhenTold) => WHEN_TOLD,
                Err(_) => self.lately(context),
            },
            urgency: Urgency::BACKGROUND.get(),
            frees_for: None,
            what: Moving {
                page,
                kind,
                refused: begun.is_err(),
                account,
            },
        };
        // What ends as it begins need not be found by anybody: whoever began it ends it, except for write-backs beyond
        // those that the store wants ended in passing.
        let ends_at_once = self.pace == Pace::Clock && transfer.due <= self.lately(context);
        let most = match kind {
            Request::Fill => DUE_BATCH,
            Request::Evict => DUE_BATCH.min(self.store.burst()),
        };
        if ends_at_once && context.due.len() < most {
            context.due.push(transfer);
        } else if !self.put_in_table(transfer) {
            self.counters.note_broken(Broken::TransferRefused);
            end(context, page, kind, true);
        }
    }

    /// Enters a transfer, and tells whom that concerns. False if there is no room, which the core's books exclude.
    pub(crate) fn put_in_table(&self, transfer: Transfer) -> bool {
        match self.transfers.insert(transfer) {
            Some(false) => {}
            Some(true) => self.nudge_all(),
            None => return false,
        }
        let slot = Slot::new(transfer.record);
        if transfer.due == WHEN_TOLD && self.store.due(self.now(), slot).has_come(self.now()) {
            // It was told before there was anything to tell of.
            self.ends.ended(slot);
        }
        true
    }

    /// Tells every waiting task to look again at what it may drive.
    fn nudge_all(&self) {
        for task in self.tasks.iter() {
            task.mailbox.nudge();
        }
    }

    /// Drops the pages of all discards that follow each other from `first` on; returns where other work begins. The
    /// core is told in its own order.
    fn discard(&self, context: &mut Context, first: usize) -> usize {
        let discards = |work: &&Work| matches!(work, Work::Discard(_));
        let count = context.work[first..].iter().take_while(discards).count();
        let end_at = first + count;
        for at in first..end_at {
            if let Work::Discard(page) = context.work[at] {
                context.drops.push((page.object().index(), Object::page_of(page)));
            }
        }
        self.drop_pages(context);
        for at in first..end_at {
            if let Work::Discard(page) = context.work[at] {
                end(context, page, Request::Evict, false);
            }
        }
        end_at
    }

    /// Drops the frames of all pages in `drops`, run by run, and empties it.
    pub(crate) fn drop_pages(&self, context: &mut Context) {
        context.drops.sort_unstable();
        let mut rest = &context.drops[..];
        while let Some(&(object, page)) = rest.first() {
            let run = (1..rest.len())
                .find(|&next| rest[next] != (object, page + next))
                .unwrap_or(rest.len());
            let dropped = self.object_at(object).punch(PageRange::new(page, run));
            if dropped.is_err() {
                // The frames are still there, and the core will hand them out again.
                crate::handler::die(b"freehold: pages could not be dropped: their frames cannot be given on\n");
            }
            self.reserve.note_dropped(run);
            self.counters.punch_calls.add(1);
            self.counters.pages_punched.add(run as u64);
            rest = &rest[run..];
        }
        context.drops.clear();
    }

    /// The place of a page in the store.
    pub(crate) fn slot(&self, page: PageRef) -> Slot {
        Slot::new(u32::try_from(self.number(page)).unwrap_or(u32::MAX))
    }
}

/// Notes that a request has ended.
pub(crate) fn end(context: &mut Context, page: PageRef, kind: Request, failed: bool) {
    debug_assert!(
        context.ended.len() < context.ended.capacity(),
        "more ends than the stated bound"
    );
    context.ended.push_back(Ended { page, kind, failed });
}

/// The first unmapping of a sorted slice, and how many adjacent pages of the same mappings begin with it.
fn unmapping_run(sorted: &[Unmapping]) -> Option<(Unmapping, usize)> {
    let first = *sorted.first()?;
    let mut run = 1;
    for next in &sorted[1..] {
        let alike = next.object == first.object && next.whose == first.whose;
        if !alike || next.page > first.page + run {
            break;
        }
        // A page may be there twice.
        run = next.page - first.page + 1;
    }
    Some((first, run))
}

/// How many entries of a sorted slice the run that begins it takes up.
fn unmapping_entries(sorted: &[Unmapping], first: Unmapping, run: usize) -> usize {
    let in_run =
        |next: &&Unmapping| next.object == first.object && next.whose == first.whose && next.page < first.page + run;
    sorted.iter().take_while(in_run).count()
}
