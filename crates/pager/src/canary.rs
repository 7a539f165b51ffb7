//! A planted bug, so that the stress test can prove that it finds such bugs: pages are copied out *before* they are
//! unmapped. A write in between is lost (law 5). Deliberately wrong, and a data race besides.

use crate::context::Context;
use crate::object::Object;
use crate::pager::Pager;
use crate::shared::Shared;
use freehold_core::fact::{PageRef, Request};
use freehold_driver::{End, HolderRow};
use freehold_linux::clock;
use freehold_store::{Due, Urgency};
use std::sync::atomic::Ordering;
use std::time::Duration;

const WINDOW: Duration = Duration::from_micros(50);

impl Pager {
    /// Plants or removes the bug.
    #[doc(hidden)]
    pub fn plant_copy_before_zap(&self, planted: bool) {
        self.shared()
            .objects
            .copies_before_zapping
            .store(planted, Ordering::Release);
    }
}

impl Shared {
    /// If the bug is planted: copies out what is to be written back, too early. True if it did.
    pub(crate) fn copy_before_zapping(&self, writes: &mut dyn Iterator<Item = PageRef>) -> bool {
        if !self.objects.copies_before_zapping.load(Ordering::Acquire) {
            return false;
        }
        for page in writes {
            let object = self.object_at(page.object().index());
            if let Some(loan) = object.lend(Object::page_of(page)) {
                let _ = self
                    .store
                    .submit_write(self.now(), self.slot(page), Urgency::BACKGROUND, loan);
            }
        }
        // The window is small: leave it open long enough to be hit.
        clock::sleep_until(clock::now().saturating_add(WINDOW));
        true
    }

    /// Enters the write of a page that was copied too early.
    pub(crate) fn begin_copied(&self, context: &mut Context, page: PageRef, holder: HolderRow) -> Option<End> {
        let account = context.account(holder, context.me);
        self.enter(
            context,
            page,
            Request::Evict,
            account,
            Ok(Begun::Stored(Due::At(self.now()))),
        )
    }
}
