//! Effects turned into system calls. Which when, and what together, is the driver's business
//! (`freehold_driver::Batch`); threads whose faults were answered are woken first of all.

use crate::backing::frames_to_back;
use crate::config::Pace;
use crate::context::{Context, DUE_BATCH};
use crate::file_cache::FileCache;
use crate::mailbox::Answer;
use crate::object::Object;
use crate::report::Broken;
use crate::shared::{LOCK_DONE, LOCK_FAILED, Shared, TaskRow};
use crate::transfer_table::{Account, Moving, Transfer};
use freehold_core::effect::{Effect, Holder, Scope, Source};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::TaskId;
use freehold_core::limits::ObjectKind;
use freehold_core::units::Instant;
use freehold_driver::{Backend, Batch, Completions, End, HolderRow, Run, WHEN_TOLD};
use freehold_linux::{Errno, PageRange};
use freehold_store::{Completion, Due, Slot, StoreError, Urgency};
use std::sync::atomic::Ordering;

/// What has ended is told to the core so many at a time.
const ENDS_IN_ONE_HOLD: usize = 16;

/// How a transfer began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begun {
    /// At the store.
    Stored(Due),
    /// The page came out of the cache of files, and is there.
    Cached,
}

impl Shared {
    /// Carries out all that is in the buffers, and tells the core what ended at once, until nothing is left to do.
    pub(crate) fn run(&self, context: &mut Context) {
        loop {
            self.trim_reserve(context);
            self.with_batch(context, |batch, hands| batch.carry_out(hands));
            if !context.due.is_empty() {
                self.move_pages(context, false);
            }
            if context.completions.is_empty() {
                return;
            }
            self.tell_ended(context);
        }
    }

    /// Does something with the thread's batch. What is begun or carried out in it finds an empty one in its place.
    pub(crate) fn with_batch<R>(&self, context: &mut Context, work: impl FnOnce(&mut Batch, &mut Hands<'_>) -> R) -> R {
        let mut batch = std::mem::take(&mut context.batch);
        let mut hands = Hands {
            shared: self,
            context,
            copied_early: false,
        };
        let result = work(&mut batch, &mut hands);
        // Handed back before anything can need it again: no buffer is ever allocated anew.
        context.batch = batch;
        result
    }

    /// Tells the core what ended, several in one hold of its lock: each is short, and to lock takes longer than most.
    fn tell_ended(&self, context: &mut Context) {
        let refused = self.hold_core(context, |shared, core, context, now| {
            let mut refused = 0;
            for _ in 0..ENDS_IN_ONE_HOLD {
                let Some(ended) = context.completions.next_end() else {
                    break;
                };
                refused += u32::from(ended.tell(core, now).is_err());
                shared.drain(core, context);
            }
            refused
        });
        for _ in 0..refused {
            self.counters.note_broken(Broken::CompletionRefused);
        }
    }

    /// Before more frames are taken from the machine: releases those that the backing has too many of.
    fn trim_reserve(&self, context: &mut Context) {
        if self.locked.must_trim() {
            let used = self.submit(context, |core, _| frames_to_back(core));
            // A failure leaves frames too many in the backing: the machine is poorer, nobody's pages are wrong.
            let _ = self.locked.trim(used);
        }
    }

    /// A page that stays mapped can be written after it was copied out. Nothing right can follow.
    fn not_unmapped(&self) -> ! {
        self.counters.note_broken(Broken::NotUnmapped);
        crate::handler::die(b"freehold: a page could not be unmapped: its content cannot be kept\n")
    }

    /// A locked frame of zeros for the page, from the headroom if the machine has none.
    pub(crate) fn give_frame(&self, page: PageRef) -> Result<(), Errno> {
        let object = self.object_at(page.object().index());
        let at = Object::page_of(page);
        match object.allocate(at) {
            Ok(()) => {}
            Err(_) if self.locked.release_headroom() => object.allocate(at)?,
            Err(errno) => return Err(errno),
        }
        self.locked.note_filled();
        Ok(())
    }

    fn begin_read(&self, context: &mut Context, page: PageRef, urgent: Option<TaskId>) -> Option<End> {
        let holder = urgent.map_or(HolderRow::POOL, |task| self.holder_of(task.index()));
        let task = urgent.and_then(|task| u16::try_from(task.index()).ok());
        let urgency = task.map_or(Urgency::BACKGROUND, |task| self.tasks[usize::from(task)].urgency());
        let begun = self.submit_read(page, urgency, self.lately(context));
        let account = context.account(holder, task);
        self.enter(context, page, Request::Fill, account, begun)
    }

    /// Gives the page its frame and has it filled, by the cache of files at once, or by the store.
    fn submit_read(&self, page: PageRef, urgency: Urgency, now: Instant) -> Result<Begun, StoreError> {
        let slot = self.slot(page);
        self.give_frame(page).map_err(|errno| StoreError::Io { slot, errno })?;
        let object = self.object_at(page.object().index());
        object.note_filling();
        let loan = object.lend(Object::page_of(page));
        let filled = loan.ok_or(StoreError::NoSuchSlot(slot)).and_then(|mut loan| {
            if self
                .files_of(page)
                .is_some_and(|files| files.get(page, loan.bytes_mut()))
            {
                return Ok(Begun::Cached);
            }
            self.store.submit_read(now, slot, urgency, loan).map(Begun::Stored)
        });
        filled.inspect_err(|_| self.take_frame_back(page))
    }

    /// The cache of files, for a page that is of one.
    fn files_of(&self, page: PageRef) -> Option<&dyn FileCache> {
        let files = self.objects.files.as_deref()?;
        (self.object_at(page.object().index()).kind == ObjectKind::File).then_some(files)
    }

    /// Drops the frame of a page that was not filled: it stays where it was, in the store.
    pub(crate) fn take_frame_back(&self, page: PageRef) {
        let object = self.object_at(page.object().index());
        object.note_filled();
        if object.punch(PageRange::single(Object::page_of(page))).is_ok() {
            self.locked.note_dropped(1);
        }
    }

    fn begin_write(&self, context: &mut Context, page: PageRef, holder: HolderRow) -> Option<End> {
        let slot = self.slot(page);
        let urgency = self.urgency_for(context, holder);
        let loan = self.object_at(page.object().index()).lend(Object::page_of(page));
        let begun = loan
            .ok_or(StoreError::NoSuchSlot(slot))
            .and_then(|loan| self.store.submit_write(self.lately(context), slot, urgency, loan));
        let account = context.account(holder, context.me);
        self.enter(context, page, Request::Evict, account, begun.map(Begun::Stored))
    }

    /// How urgent those are who wait for a frame of the holder's: the task whose thread this is, or others.
    fn urgency_for(&self, context: &Context, holder: HolderRow) -> Urgency {
        let mine = context.me.map(usize::from);
        let concerned = |(at, row): &(usize, &TaskRow)| {
            (Some(*at) == mine || row.waits.is_waiting()) && row.holder.load(Ordering::Acquire) == holder.get()
        };
        let urgencies = self.tasks.iter().enumerate().filter(concerned);
        urgencies.map(|(_, row)| row.urgency()).max().unwrap_or_default()
    }

    #[cfg(not(feature = "canary"))]
    fn begin_copied(&self, context: &mut Context, page: PageRef, holder: HolderRow) -> Option<End> {
        self.begin_write(context, page, holder)
    }

    /// Enters a transfer that has begun, or that could not. Where there is no room for it, it has failed.
    pub(crate) fn enter(
        &self,
        context: &mut Context,
        page: PageRef,
        kind: Request,
        account: Account,
        begun: Result<Begun, StoreError>,
    ) -> Option<End> {
        let transfer = Transfer {
            record: self.slot(page).get(),
            queue: account.holder.index(),
            due: match begun {
                Ok(Begun::Stored(Due::At(due))) => due,
                Ok(Begun::Stored(Due::WhenTold)) => WHEN_TOLD,
                Ok(Begun::Cached) | Err(_) => self.lately(context),
            },
            urgency: Urgency::BACKGROUND.get(),
            frees_for: None,
            what: Moving {
                page,
                kind,
                refused: begun.is_err(),
                cached: matches!(begun, Ok(Begun::Cached)),
                account,
            },
        };
        // What ends as it begins need not be found by anybody: whoever began it ends it, except for write-backs beyond
        // those that the store wants ended in passing.
        let ends_at_once = self.pacing.pace == Pace::Clock && transfer.due <= self.lately(context);
        let most = match kind {
            Request::Fill => DUE_BATCH,
            Request::Evict => DUE_BATCH.min(self.store.burst()),
        };
        if ends_at_once && context.due.len() < most {
            context.due.push(transfer);
        } else if !self.put_in_table(transfer) {
            self.counters.note_broken(Broken::TransferRefused);
            return Some(End::Failed);
        }
        None
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

    /// The place of a page in the store.
    pub(crate) fn slot(&self, page: PageRef) -> Slot {
        Slot::new(u32::try_from(self.number(page)).unwrap_or(u32::MAX))
    }
}

/// What one thread carries out with.
#[derive(Debug)]
pub(crate) struct Hands<'a> {
    shared: &'a Shared,
    context: &'a mut Context,
    /// The planted bug has struck.
    copied_early: bool,
}

impl Backend for Hands<'_> {
    fn completions(&mut self) -> &mut Completions {
        &mut self.context.completions
    }

    fn decided(&mut self, effect: &Effect) {
        let (shared, context) = (self.shared, &mut *self.context);
        if let Some(recorder) = &mut context.recorder {
            recorder.decided(effect);
        }
        match *effect {
            Effect::Map {
                task,
                page,
                protection,
                resolution,
                ..
            } => {
                let answer = Answer::Map {
                    epoch: shared.objects.epochs.sample(shared.number(page)),
                    protection,
                    resolution,
                };
                shared.post(task.index(), answer, context);
            }
            Effect::Retry { task } => shared.post(task.index(), Answer::Retry, context),
            Effect::Fail { task, failure } => shared.post(task.index(), Answer::Fail(failure), context),
            // Whoever reported the job carries it out.
            Effect::Locked { reservation } => shared.locks[reservation.index()].store(LOCK_DONE, Ordering::Release),
            Effect::LockFailed { reservation } => {
                shared.locks[reservation.index()].store(LOCK_FAILED, Ordering::Release);
            }
            // Carried out with the batch, or the core's own book-keeping.
            Effect::Unmap { .. }
            | Effect::Fill { .. }
            | Effect::WriteBack { .. }
            | Effect::Discard { .. }
            | Effect::Take { .. }
            | Effect::Transfer { .. }
            | Effect::Recall { .. } => {}
        }
    }

    fn has_room(&self) -> bool {
        self.context.wakes.len() < self.context.wakes.capacity()
    }

    /// Only a lock of very many pages leaves so much. It is carried out under the core's lock.
    fn overflow(&mut self) {
        self.shared.counters.overlong_drains.add(1);
    }

    fn begin(&mut self, _writes: &mut dyn Iterator<Item = PageRef>) {
        for task in self.context.wakes.drain(..) {
            let slot = usize::from(task);
            self.shared.tasks[slot].mailbox.wake();
            if let Some(watch) = &self.shared.pacing.watch {
                watch.answered(slot);
            }
        }
        #[cfg(feature = "canary")]
        {
            self.copied_early = self.shared.copy_before_zapping(_writes);
        }
    }

    /// Advances the epochs of the pages, then zaps them.
    fn unmap(&mut self, run: Run, from: Scope) {
        let shared = self.shared;
        let object = shared.object_at(run.first.object().index());
        let pages = range(run);
        for page in pages.first()..pages.first() + pages.count() {
            shared.objects.epochs.advance(object.number(page));
        }
        match object.zap(pages, from) {
            Ok(calls) => shared.counters.zap_calls.add(u64::from(calls)),
            Err(_) => shared.not_unmapped(),
        }
        shared.counters.pages_zapped.add(run.count as u64);
    }

    fn fill(&mut self, page: PageRef, source: Source, urgent: Option<TaskId>) -> Option<End> {
        match source {
            Source::Zero => Some(match self.shared.give_frame(page) {
                Ok(()) => End::Done,
                Err(_) => End::Failed,
            }),
            Source::Store => self.shared.begin_read(self.context, page, urgent),
            Source::CopyOf(_) => {
                self.shared.counters.note_broken(Broken::NotSupported);
                Some(End::Failed)
            }
        }
    }

    fn write(&mut self, page: PageRef, holder: Holder) -> Option<End> {
        let holder = HolderRow::from(holder);
        if self.copied_early {
            return self.shared.begin_copied(self.context, page, holder);
        }
        self.shared.begin_write(self.context, page, holder)
    }

    /// A page of a file is kept elsewhere, while it is in its frame and mapped for nobody.
    fn offer(&mut self, page: PageRef) -> bool {
        if let Some(files) = self.shared.files_of(page)
            && let Some(loan) = self.shared.object_at(page.object().index()).lend(Object::page_of(page))
        {
            files.put(page, loan.bytes());
        }
        false
    }

    fn drop_run(&mut self, run: Run) {
        let shared = self.shared;
        let dropped = shared.object_at(run.first.object().index()).punch(range(run));
        if dropped.is_err() {
            // The frames are still there, and the core will hand them out again.
            crate::handler::die(b"freehold: pages could not be dropped: their frames cannot be given on\n");
        }
        shared.locked.note_dropped(run.count);
        shared.counters.punch_calls.add(1);
        shared.counters.pages_punched.add(run.count as u64);
    }

    fn take(&mut self, _from: PageRef, _to: PageRef) {
        self.shared.counters.note_broken(Broken::NotSupported);
    }

    fn flush(&mut self) {
        self.shared.store.flush();
    }
}

fn range(run: Run) -> PageRange {
    PageRange::new(Object::page_of(run.first), run.count)
}
