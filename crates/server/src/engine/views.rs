//! Pictures of the engine.

use crate::engine::Engine;
use crate::engine::rows::{Client, Content, Object, Where};
use crate::error::EngineError;
use crate::view::{
    ClientView, EngineView, KeptView, MapperView, MemberView, ObjectView, OrdersView, PagerView, ReservationRow,
    ShareView, TaskView,
};
use freehold_core::id::ReservationId;
use freehold_core::units::PageIndex;
use std::collections::BTreeMap;
use std::time::Duration;

impl Engine {
    /// Everything at this moment. O(everything): not for the fault path.
    ///
    /// # Errors
    /// [`EngineError::System`] where the kernel does not count resident pages.
    pub fn view(&self) -> Result<EngineView, EngineError> {
        Ok(EngineView {
            pool: self.core.pool_view(),
            resident_measured: self.resident_measured()?,
            reserve: self.reserve.view(self.reserve_due()),
            reservations: self.reservation_rows(),
            pinned_pools: self.pinned_rows(),
            pinning: self.pinning_totals(),
            clients: self
                .clients
                .iter()
                .map(|(_, client)| self.client_view(client))
                .collect(),
            objects: self.shared_objects().map(|object| self.object_view(object)).collect(),
            store: self.store.stats(),
            store_description: self.store.describe(),
            orders: self.orders_view(),
            pagers: self.pager_views(),
        })
    }

    fn shared_objects(&self) -> impl Iterator<Item = &Object> {
        let objects = self.objects.iter().flatten();
        objects.filter(|object| !matches!(object.content, Content::Private { .. }))
    }

    /// Frames that the kernel says are resident in objects and transfer memory, and the pages that clients have.
    ///
    /// # Errors
    /// [`EngineError::System`].
    pub fn resident_measured(&self) -> Result<u64, EngineError> {
        let mut sum = self
            .reserve
            .resident()
            .map_err(EngineError::system("the reserve could not be counted"))?;
        let objects = self.shared_objects().filter_map(Object::memory);
        let transfers = self.clients.iter().map(|(_, client)| client.slots.memory());
        for memory in objects.chain(transfers) {
            let found = memory.resident().map_err(|_| EngineError::System {
                what: "resident pages could not be counted",
                errno: freehold_linux::Errno::NOSYS,
            })?;
            sum += found.pages as u64;
        }
        Ok(sum + self.clients.iter().map(|(_, client)| client.resident).sum::<u64>())
    }

    fn reservation_rows(&self) -> Vec<ReservationRow> {
        let rows = self.reservations.iter().flatten();
        rows.filter_map(|row| {
            let tasks = self.tasks.iter().filter(|(_, task)| task.reservation == Some(row.id));
            let members = tasks.filter_map(|(index, task)| {
                let client = self.client(task.client)?;
                Some(MemberView {
                    client: task.client,
                    pid: client.pid,
                    task: *client.tasks.iter().find(|key| key.index() == index)?,
                    name: task.name.clone(),
                })
            });
            Some(ReservationRow {
                id: row.id,
                name: row.name.clone(),
                kind: row.kind,
                lists: self.core.reservation(row.id)?,
                members: members.collect(),
            })
        })
        .collect()
    }

    fn client_view(&self, client: &Client) -> ClientView {
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
        let kept = client.kept.iter().map(|(start, end)| KeptView {
            start: *start,
            length: end - start,
        });
        ClientView {
            id: client.id,
            pid: client.pid,
            uid: client.uid,
            name: client.name.clone(),
            role: client.role,
            tasks: tasks.collect(),
            private_resident: client.resident,
            private_slots: u64::from(client.slots.taken()),
            private_stored: self.private_stored(client),
            inherited: client.family.filled,
            kept: kept.collect(),
            unmanaged: Vec::new(),
            faults: client.faults,
            strange_faults: client.strange,
            orders: u32::try_from(client.outbox.outstanding().count()).unwrap_or(u32::MAX),
            service: client.times.view(),
        }
    }

    fn private_stored(&self, client: &Client) -> u64 {
        let mut stored = 0;
        for object in self.objects.iter().flatten() {
            if let Content::Private { client: owner, pages } = &object.content
                && *owner == client.id
            {
                let absent = (0..object.pages)
                    .zip(pages)
                    .filter(|(_, place)| **place == Where::Nowhere);
                let state = |page: u32| self.core.page(object.id, PageIndex::new(page)).map(|page| page.state);
                let in_store = absent.filter(|(page, _)| state(*page) == Some(freehold_core::view::PageState::Stored));
                stored += in_store.count() as u64;
            }
        }
        stored
    }

    fn object_view(&self, object: &Object) -> ObjectView {
        let (identity, changed) = match &object.content {
            Content::File { identity, changed, .. } => {
                let found = identity;
                let key = (found.device, found.inode, found.size, found.changed.0, found.changed.1);
                (Some(key), *changed)
            }
            _ => (None, false),
        };
        let mappers = object.segments.iter().filter_map(|&(id, start)| {
            let client = self.client(id)?;
            let segment = client.space.get(&start)?;
            Some(MapperView {
                client: id,
                pid: client.pid,
                address: start,
                first: segment.first,
                pages: u32::try_from((segment.end - start) / crate::PAGE).ok()?,
            })
        });
        ObjectView {
            id: object.id,
            name: object.name.clone(),
            identity,
            kind: object.kind(),
            regime: object.regime,
            uid: object.uid,
            pages: object.pages,
            resident: self.core.resident(object.id).map_or(0, |count| count.get()),
            mappers: mappers.collect(),
            shares: self.shares(object),
            changed,
        }
    }

    /// Pages of an object that each reservation owns.
    fn shares(&self, object: &Object) -> Vec<ShareView> {
        let mut owned: BTreeMap<Option<ReservationId>, u32> = BTreeMap::new();
        for page in 0..object.pages {
            if let Some(view) = self.core.page(object.id, PageIndex::new(page))
                && view.state == freehold_core::view::PageState::Resident
            {
                *owned.entry(view.owner).or_default() += 1;
            }
        }
        let share = |(reservation, owned)| {
            let (sampled_max, sampled_average) = self.sampled(object.id, reservation);
            ShareView {
                reservation,
                owned,
                listed: owned,
                sampled_max,
                sampled_average,
            }
        };
        owned.into_iter().map(share).collect()
    }

    fn orders_view(&self) -> OrdersView {
        let orders = || self.clients.iter().flat_map(|(_, client)| client.outbox.outstanding());
        let oldest = orders().map(|order| order.since).min();
        let now = freehold_linux::clock::now().as_nanos();
        OrdersView {
            outstanding: u32::try_from(orders().count()).unwrap_or(u32::MAX),
            oldest: oldest.map_or(Duration::ZERO, |since| {
                Duration::from_nanos(now.saturating_sub(since.get()))
            }),
            sent: self.clients.iter().map(|(_, client)| client.outbox.sent).sum(),
            busy: self.tally.busy,
            stopped: self.tally.stopped,
            lifted: self.tally.lifted,
        }
    }

    fn pager_views(&self) -> Vec<PagerView> {
        let served = |pager| self.clients.iter().filter(|(_, client)| client.pager == pager).count();
        let cpus = self.cpus.iter().zip(&self.pagers).enumerate();
        cpus.map(|(pager, (cpu, row))| PagerView {
            cpu: *cpu,
            real_time: row.real_time.clone(),
            clients: u32::try_from(served(pager)).unwrap_or(u32::MAX),
            messages: row.rounds,
        })
        .collect()
    }
}
