//! Where the pager is, as far as the conductor has to do with it.

use freehold_core::fact::Request;
use freehold_core::pinning::JobReport;
use freehold_core::units::PageIndex;
use freehold_scenario::{RegionIndex, Scenario, TaskIndex};

use crate::error::LiveError;
use crate::lockstep::turn::Turns;
use crate::placement::embedded::Machine;
use crate::placement::server::Openings;
use crate::result::{Counts, DeviceCounts};

/// A transfer that ends now.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedTransfer {
    pub(super) region: RegionIndex,
    pub(super) page: PageIndex,
    pub(super) request: Request,
    pub(super) failed: bool,
    /// The page came out of device memory.
    pub(super) cached: bool,
}

/// A placement of the pager. Threads are known by their slots among the turns.
pub(super) trait LockstepPlacement {
    /// Waits until a thread's state is one of `wanted`; `None` where it does not come to that.
    fn wait_for(&self, slot: usize, wanted: &[u32]) -> Option<u32>;

    /// Lets a thread go on whose fault was answered.
    fn let_go(&self, slot: usize) -> Result<(), String>;

    /// Ends a transfer of a page. What is decided with it has happened then.
    fn end_transfer(&self, transfer: EndedTransfer) -> Result<(), String>;

    /// Waits until what was decided so far has happened to every page table.
    fn await_orders(&self) -> Result<(), String>;

    /// Tells the core of a job what the simulator saw of it.
    fn report(&self, task: TaskIndex, report: &JobReport) -> Result<(), String>;

    /// The counts of now.
    fn counts(&self) -> Result<Counts, LiveError>;

    /// Those of device memory, of which its clients have found this.
    fn device_counts(&self, found: &[Openings]) -> Result<DeviceCounts, LiveError>;

    /// The schedule is over: nothing waits for a word any more.
    fn release(&self);

    /// Ends what is under way.
    fn end_all_transfers(&self);
}

/// A pager in this process.
pub(super) struct Embedded<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) machine: &'a Machine,
    pub(super) turns: &'a Turns,
}

impl LockstepPlacement for Embedded<'_> {
    fn wait_for(&self, slot: usize, wanted: &[u32]) -> Option<u32> {
        self.turns.wait_for(slot, wanted)
    }

    /// It waits for its turn.
    fn let_go(&self, _slot: usize) -> Result<(), String> {
        Ok(())
    }

    fn end_transfer(&self, transfer: EndedTransfer) -> Result<(), String> {
        let EndedTransfer {
            region,
            page,
            request,
            failed,
            ..
        } = transfer;
        let object = self.machine.objects[region.get()];
        let pager = &self.machine.pager;
        let found = pager.outstanding_of(object, page);
        let (page, request) = found
            .filter(|(_, kind)| *kind == request)
            .ok_or("no such request is under way")?;
        if pager.complete(page, request, failed) {
            Ok(())
        } else {
            Err("the request cannot be ended".to_owned())
        }
    }

    /// The pager unmaps as it decides.
    fn await_orders(&self) -> Result<(), String> {
        Ok(())
    }

    fn report(&self, task: TaskIndex, report: &JobReport) -> Result<(), String> {
        let pool = self.machine.pools[task.get()].ok_or("the task has no pinned page pool")?;
        let told = self.machine.pager.report_job(pool, report);
        told.map(|_| ()).map_err(|reason| reason.to_string())
    }

    fn counts(&self) -> Result<Counts, LiveError> {
        self.machine.pager.settle()?;
        Counts::take(self.scenario, self.machine, false)
    }

    fn device_counts(&self, found: &[Openings]) -> Result<DeviceCounts, LiveError> {
        Ok(self.machine.device_results(self.scenario, found).0)
    }

    /// Threads wait for their turns only.
    fn release(&self) {}

    fn end_all_transfers(&self) {
        for (page, request) in self.machine.pager.outstanding() {
            self.machine.pager.complete(page, request, false);
        }
    }
}
