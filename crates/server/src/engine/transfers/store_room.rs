//! Room in a store that is full: records that nobody needs are given up.

use freehold_core::Memory;
use freehold_core::limits::ObjectKind;
use freehold_core::units::PageIndex;
use freehold_store::{PageLease, Slot, StoreError};

use crate::engine::Engine;
use crate::engine::objects::Objects;
use crate::engine::transfers::Io;

impl Engine {
    /// Ends a write to the store. Where that is full, records go of pages that are in frames, and of pages that are no
    /// more. In lockstep none does: the simulator's store keeps them. O(records).
    pub(super) fn finish_write(&mut self, slot: Slot) -> Result<PageLease, StoreError> {
        let Self {
            io,
            objects,
            transfers,
            core,
            ..
        } = self;
        let Io {
            store,
            record_search,
            lockstep,
            ..
        } = io;
        let mut give_up = |record| {
            let slot = Slot::new(record);
            let needless = store.takes_room(slot) && !transfers.contains(record) && may_go(core, objects, record);
            if needless {
                store.forget(slot);
            }
            needless
        };
        let records = objects.records();
        store.finish_write_making_room(slot, &mut || {
            let changes = store.stats().reads + records.given_back();
            !lockstep.is_held() && record_search.search(records.count(), changes, &mut give_up)
        })
    }
}

/// Whether nobody needs what the store has in a record. What a file's pages have there is from before they were made.
fn may_go(core: &mut Memory, objects: &Objects, record: u32) -> bool {
    match objects.with_record(record) {
        Some((object, page)) if object.kind() != ObjectKind::File => {
            core.give_up_record(object.id, PageIndex::new(page))
        }
        _ => true,
    }
}
