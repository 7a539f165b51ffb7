//! Snapshots of the engine: see [`snapshot`](crate::engine::snapshot) for how they are taken.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::snapshot::Snapshot;
use crate::error::EngineError;
use crate::view::{ClientView, EngineView, OrdersView, TaskView};
use freehold_report::status::{PagerStatus, PrivatePages};
use std::sync::Arc;

impl Engine {
    /// Everything at this moment, in one hold. O(everything): for tests, and before there are clients. Else
    /// [`Shared::view`](crate::Shared::view).
    ///
    /// # Errors
    /// [`EngineError::System`] where the kernel does not count resident pages.
    pub fn view(&self) -> Result<EngineView, EngineError> {
        let mut snapshot = self.begin_snapshot();
        while !snapshot.is_complete() {
            self.advance(&mut snapshot)?;
            snapshot.count()?;
        }
        Ok(snapshot.into_view())
    }

    /// Begins a snapshot; the rows come by [`advance`](Self::advance). O(reservations + clients + transfers), a few
    /// steps for each.
    #[must_use]
    pub fn begin_snapshot(&self) -> Snapshot {
        let view = EngineView {
            pool: self.core.pool_view(),
            resident_measured: 0,
            shortages: self.shortages(),
            backing: self.backing.locked.view(self.backing_due()),
            reservations: Vec::new(),
            pinned_pools: self.pinned_rows(),
            pinning: self.pinning_totals(),
            clients: Vec::new(),
            objects: Vec::new(),
            store: self.io.store.stats(),
            store_description: self.io.store.describe(),
            orders: OrdersView {
                busy: self.journal.tally.busy,
                stopped: self.journal.tally.stopped,
                lifted: self.journal.tally.lifted,
                ..OrdersView::default()
            },
            pagers: self.pager_views(),
            steps: self.journal.steps.view(),
        };
        Snapshot::new(view, Arc::clone(&self.backing.locked))
    }

    /// All that is known of a client but its pages in the store.
    pub(super) fn client_view(&self, client: &Client) -> ClientView {
        let tasks = client.tasks.iter().filter_map(|key| {
            let task = self.tasks.at(key.index())?;
            Some(TaskView {
                id: *key,
                name: task.name.clone(),
                reservation: task.reservation,
                pinned: task.pinned,
                urgency: task.urgency,
                counts: self.sum(task),
                jobs: task.jobs,
                misses: task.misses,
            })
        });
        let kept = client.memory.kept.iter().map(|(start, end)| *start..*end);
        ClientView {
            id: client.id,
            pid: client.process.pid,
            uid: client.process.uid,
            name: client.process.name.clone(),
            role: client.process.role,
            tasks: tasks.collect(),
            private: PrivatePages {
                resident: client.memory.resident,
                slots: u64::from(client.slots.taken()),
                stored: 0,
                lent: client.memory.lent.count(),
                lent_total: client.memory.lent.total(),
                inherited: client.family.filled,
            },
            kept: kept.collect(),
            unmanaged: client.family.relinquished.reasons(),
            faults: client.counts.faults,
            strange_faults: client.counts.strange,
            orders: client.outbox.count(),
            service: client.counts.times.view(),
        }
    }

    /// The pager threads; their clients are counted with the clients.
    fn pager_views(&self) -> Vec<PagerStatus> {
        let threads = self.threads.iter().map(|(cpu, real_time, rounds)| PagerStatus {
            cpu: cpu as u64,
            priority: real_time.as_ref().ok().copied(),
            refused: real_time.as_ref().err().cloned(),
            clients: 0,
            messages: rounds,
        });
        threads.collect()
    }
}
