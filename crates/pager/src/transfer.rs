//! The ends of transfers: pages written are dropped, pages read are copied in.

use crate::carry_out::end;
use crate::context::{Context, DUE_BATCH};
use crate::object::Object;
use crate::request::{HolderRow, Transfer};
use crate::shared::Shared;
use freehold_core::fact::{PageRef, Request};
use freehold_linux::PageRange;

impl Shared {
    /// Ends every transfer of `holder` that is due.
    pub(crate) fn finish_due(&self, context: &mut Context, holder: HolderRow) {
        while self.transfers.is_due(holder, self.now()) {
            let _busy = self.busy(context);
            while context.due.len() < DUE_BATCH
                && let Some(transfer) = self.transfers.take_due(holder, self.now())
            {
                context.due.push(transfer);
            }
            if context.due.is_empty() {
                // Another thread was faster.
                return;
            }
            self.finish_taken(context, false);
        }
    }

    /// Ends the transfer of one page, due or not; false if it has none.
    pub(crate) fn finish_page(&self, context: &mut Context, number: u32, failed: bool) -> bool {
        let _busy = self.busy(context);
        let Some(transfer) = self.transfers.take_page(number) else {
            return false;
        };
        context.due.push(transfer);
        self.finish_taken(context, failed);
        true
    }

    /// Ends the transfers in `due`: all of them physically first, so that adjacent pages are dropped together, then
    /// the core is told in order of due times.
    fn finish_taken(&self, context: &mut Context, failed: bool) {
        let mut taken = std::mem::take(&mut context.due);
        for transfer in &mut taken {
            transfer.refused |= failed;
            match transfer.kind {
                Request::Fill => transfer.refused = !self.finish_read(transfer),
                Request::Evict => {
                    transfer.refused = !self.finish_write(transfer);
                    if !transfer.refused {
                        let page = transfer.page;
                        context.drops.push((page.object().index(), Object::page_of(page)));
                    }
                }
            }
        }
        self.drop_pages(context);
        let now = context.time_to_record();
        for transfer in taken.drain(..) {
            if let Some(recorder) = &mut context.recorder {
                recorder.transfer(transfer.page, transfer.kind, transfer.account, transfer.refused, now);
            }
            end(context, transfer.page, transfer.kind, transfer.refused);
        }
        // Handed back before anything can need it again: no buffer is ever allocated anew.
        context.due = taken;
        self.run(context);
    }

    fn finish_write(&self, transfer: &Transfer) -> bool {
        !transfer.refused && self.store.finish_write(self.slot(transfer.page)).is_ok()
    }

    fn finish_read(&self, transfer: &Transfer) -> bool {
        !transfer.refused && self.copy_in(transfer.page).is_some()
    }

    fn copy_in(&self, page: PageRef) -> Option<()> {
        self.give_frame(page).ok()?;
        let object = self.object_at(page.object().index());
        let at = Object::page_of(page);
        let read = object.with_record(at, |record| self.store.finish_read(self.slot(page), record));
        if matches!(read, Some(Ok(()))) {
            return Some(());
        }
        // The page stays where it was: in the store.
        if object.punch(PageRange::single(at)).is_ok() {
            self.reserve.note_dropped(1);
        }
        None
    }
}
