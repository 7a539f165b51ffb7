//! The ends of transfers: pages written are dropped, pages read are complete.

use crate::config::Pace;
use crate::context::{Context, DUE_BATCH};
use crate::report::Broken;
use crate::shared::Shared;
use crate::transfer_table::{Moving, Transfer};
use freehold_core::Memory;
use freehold_core::fact::Request;
use freehold_core::units::Instant;
use freehold_driver::{End, HolderRow, WHEN_TOLD};
use freehold_store::{Due, Slot};
use std::sync::OnceLock;

impl Shared {
    /// Ends transfers of `holder` that were due at `now`, at most `most`. In manual pace the coordinator does.
    pub(crate) fn finish_due(&self, context: &mut Context, holder: HolderRow, most: usize, now: Instant) {
        let mut left = most;
        while left > 0 && self.pacing.pace == Pace::Clock && self.transfers.is_due(holder, now) {
            let _busy = self.busy(context);
            while context.due.len() < DUE_BATCH.min(left)
                && let Some(transfer) = self.transfers.take_due(holder, now)
            {
                self.sort_by_end(context, transfer, now);
            }
            if context.due.is_empty() {
                // Another thread was faster, or the store needs longer than it said.
                return;
            }
            left -= context.due.len();
            self.finish_taken(context, false);
        }
    }

    /// Ends the transfer of one page if it is due; whether it was.
    pub(crate) fn finish_page_due(&self, context: &mut Context, number: u32, now: Instant) -> bool {
        let _busy = self.busy(context);
        if let Some(transfer) = self.transfers.take_page_due(number, now) {
            self.sort_by_end(context, transfer, now);
        }
        let found = !context.due.is_empty();
        if found {
            self.finish_taken(context, false);
        }
        found
    }

    /// Ends the transfer of one page, due or not, waiting for the store if need be; false if it has none.
    pub(crate) fn finish_page(&self, context: &mut Context, number: u32, failed: bool) -> bool {
        let _busy = self.busy(context);
        let Some(transfer) = self.transfers.take_page(number) else {
            return false;
        };
        context.due.push(transfer);
        self.finish_taken(context, failed);
        true
    }

    /// A transfer that was due when it was entered goes to those to finish if that still holds: others may have
    /// overtaken it meanwhile. Else it is entered once more.
    fn sort_by_end(&self, context: &mut Context, transfer: Transfer, now: Instant) {
        let due = match self.store.due(now, Slot::new(transfer.record)) {
            _ if transfer.what.refused || transfer.what.cached => transfer.due,
            Due::At(due) => due,
            Due::WhenTold => WHEN_TOLD,
        };
        if due <= now {
            context.due.push(transfer);
        } else if !self.put_in_table(Transfer { due, ..transfer }) {
            // Its place in the table has been free since it was taken out.
            self.counters.note_broken(Broken::TransferRefused);
        }
    }

    /// Ends the transfers in `due`, and tells the core in order of due times.
    fn finish_taken(&self, context: &mut Context, failed: bool) {
        self.move_pages(context, failed);
        self.run(context);
    }

    /// Ends the transfers in `due` as far as pages are concerned: all of them, so that adjacent ones are dropped
    /// together. The core is yet to be told.
    pub(crate) fn move_pages(&self, context: &mut Context, failed: bool) {
        let mut taken = std::mem::take(&mut context.due);
        for transfer in &mut taken {
            let done = match transfer.what.kind {
                Request::Fill => self.finish_read(transfer, failed),
                Request::Evict => self.finish_write(context, transfer, failed),
            };
            transfer.what.refused = !done;
            if done && transfer.what.kind == Request::Evict {
                context.batch.has_left(transfer.what.page);
            }
        }
        self.with_batch(context, |batch, hands| batch.drop_left(hands));
        let now = context.time_to_record();
        for transfer in taken.drain(..) {
            let Moving {
                page, kind, refused, ..
            } = transfer.what;
            if let Some(recorder) = &mut context.recorder {
                recorder.transfer(page, kind, transfer.what.account, refused, now);
            }
            let end = if refused { End::Failed } else { End::Done };
            context.completions.end(page, kind, end);
        }
        // Handed back before anything can need it again: no buffer is ever allocated anew.
        context.due = taken;
    }

    fn finish_write(&self, context: &mut Context, transfer: &Transfer, failed: bool) -> bool {
        let slot = Slot::new(transfer.record);
        if !transfer.what.refused && failed {
            self.store.cancel(slot);
        }
        if transfer.what.refused || failed {
            return false;
        }
        let mut make_room = || self.make_room(context);
        // The page is the object's again: nothing of the loan outlives this line.
        self.store.finish_write_making_room(slot, &mut make_room).is_ok()
    }

    /// The store is full: gives up records of pages that are in frames; whether there were any. In manual pace there
    /// are none: the simulator's store keeps them. O(records).
    fn make_room(&self, context: &mut Context) -> bool {
        if self.pacing.pace == Pace::Manual {
            return false;
        }
        let reads = self.store.stats().reads;
        // Under the core's lock: no transfer begins meanwhile.
        self.hold_core(context, |shared, core, _, _| {
            let mut search = shared.transfers.record_search.lock();
            search.search(shared.room.pages, reads, |record| shared.give_up_record(core, record))
        })
    }

    fn give_up_record(&self, core: &mut Memory, record: u32) -> bool {
        let slot = Slot::new(record);
        let mut objects = self.objects.rows.iter().filter_map(OnceLock::get);
        let needless = self.store.takes_room(slot)
            && objects
                .find_map(|object| Some((object.id, object.page_at(record)?)))
                .is_some_and(|(object, page)| core.give_up_record(object, page));
        if needless {
            self.store.forget(slot);
        }
        needless
    }

    fn finish_read(&self, transfer: &Transfer, failed: bool) -> bool {
        if transfer.what.refused {
            // Its frame went back when it was refused.
            return false;
        }
        let slot = Slot::new(transfer.record);
        if failed && !transfer.what.cached {
            self.store.cancel(slot);
        }
        if failed || (!transfer.what.cached && self.store.finish_read(slot).is_err()) {
            self.take_frame_back(transfer.what.page);
            return false;
        }
        self.object_at(transfer.what.page.object().index()).note_filled();
        true
    }
}
