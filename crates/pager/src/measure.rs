//! Books and measurement side by side.

use crate::error::MeasureError;
use crate::pager::Pager;
use crate::report::{BackingReport, CallsReport, LockReport, ObjectReport, Report};
use freehold_core::units::{Duration, FrameCount, PageCount};

impl Pager {
    /// The pager at this moment. Allocates and makes system calls: not for the fault path.
    ///
    /// # Errors
    /// Resident pages cannot be counted on this kernel.
    pub fn report(&self) -> Result<Report, MeasureError> {
        let shared = self.shared();
        let mut objects = Vec::new();
        for object in shared.objects.rows.iter().filter_map(|object| object.get()) {
            let all = freehold_linux::PageRange::new(0, object.pages());
            objects.push(ObjectReport {
                object: object.id,
                resident: self.inspect(|core| core.resident(object.id)).unwrap_or_default(),
                resident_measured: PageCount::new(count(object.memfd.resident(all)?.pages)),
                filling: PageCount::new(count(object.filling())),
            });
        }
        let backing = frames(shared.locked.resident().map_err(MeasureError::System)?);
        let in_objects = objects.iter().fold(FrameCount::ZERO, |sum, object| {
            sum.saturating_add(object.resident_measured.to_frames())
        });
        let (transfers, most_transfers) = shared.transfers.counts();
        let counters = &shared.counters;
        let (broken, first_broken) = counters.broken();
        Ok(Report {
            memory_used: self.inspect(|core| core.pool_view().memory_used),
            resident_measured: in_objects.saturating_add(backing),
            backing: BackingReport {
                frames: backing,
                most_behind: frames(shared.locked.most_behind()),
                headroom: frames(shared.locked.headroom_resident().map_err(MeasureError::System)?),
                headroom_used: shared.locked.headroom_used(),
            },
            objects,
            store: shared.store.stats(),
            transfers,
            most_transfers,
            lock: LockReport {
                holds: counters.core_locks.get(),
                longest_hold: Duration::new(counters.longest_hold.get()),
                longest_wait: Duration::new(counters.longest_wait.get()),
            },
            calls: CallsReport {
                zaps: counters.zap_calls.get(),
                pages_zapped: counters.pages_zapped.get(),
                punches: counters.punch_calls.get(),
                pages_punched: counters.pages_punched.get(),
            },
            overlong_drains: counters.overlong_drains.get(),
            unattributed_timeouts: counters.unattributed_timeouts.get(),
            broken,
            first_broken,
        })
    }
}

fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

fn frames(pages: usize) -> FrameCount {
    FrameCount::new(count(pages))
}
