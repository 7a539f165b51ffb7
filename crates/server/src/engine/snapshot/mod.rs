//! Snapshots of the engine, taken in steps.
//!
//! Faults wait while somebody holds the engine, so a snapshot of everything is taken in holds that look at so many
//! pages and rows and no more, however many there are. Every row is as it was at one moment, but not all at the same;
//! what has gone meanwhile is left out. What the kernel has to count is counted between the holds.

pub(super) mod views;

use crate::backing::LockedBacking;
use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::ClientId;
use crate::engine::objects::{Content, Object, SegmentAt};
use crate::engine::private_memory::Where;
use crate::error::EngineError;
use crate::view::{EngineView, MapperView, MemberView, ObjectView, ReservationRow, ShareView};
use freehold_core::id::{ObjectId, ReservationId};
use freehold_core::units::PageIndex;
use freehold_core::view::PageState;
use freehold_linux::memory::{Memfd, PagedMemfd};
use freehold_linux::{Errno, PageRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages looked at in one hold of the engine; a row counts as some.
const STEP: usize = 4_096;
/// What a row of a table counts.
const ROW: usize = 64;

/// A snapshot that is being taken.
#[derive(Debug)]
pub struct Snapshot {
    view: EngineView,
    at: Place,
    /// Rows of the view by what they are of.
    reservations: BTreeMap<ReservationId, usize>,
    clients: BTreeMap<ClientId, usize>,
    /// When the oldest order without an answer was given.
    oldest: Option<u64>,
    /// What the kernel is to count.
    uncounted: Vec<Memfd>,
    uncounted_backing: Option<Arc<LockedBacking>>,
}

/// How far it has come.
#[derive(Debug)]
enum Place {
    Reservations(usize),
    Tasks(usize),
    Clients(usize),
    Objects(usize),
    /// In the middle of an object.
    Object(usize, Part),
    Complete,
}

/// What is known of an object that was not looked at to its end.
#[derive(Debug)]
struct Part {
    id: ObjectId,
    page: u32,
    /// Pages in frames of each reservation, or of one client in the store.
    owned: BTreeMap<Option<ReservationId>, u32>,
    stored: u64,
    mapper: usize,
    mappers: Vec<MapperView>,
}

impl Snapshot {
    /// What is outside all tables; the rest comes by [`Engine::advance`].
    pub(super) fn new(view: EngineView, backing: Arc<LockedBacking>) -> Self {
        Self {
            view,
            at: Place::Reservations(0),
            reservations: BTreeMap::new(),
            clients: BTreeMap::new(),
            oldest: None,
            uncounted: Vec::new(),
            uncounted_backing: Some(backing),
        }
    }

    /// Whether nothing is left to look at.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.at, Place::Complete)
    }

    /// The most that one hold looks at: [`Engine::advance`] returns no more. A client's row, its tasks and what it
    /// keeps are one piece; so many tasks and ranges as a client may have are allowed for.
    #[must_use]
    pub const fn bound() -> usize {
        STEP + 2 * ROW * (1 + 64) + 1_024 + freehold_protocol::channel::ORDERS
    }

    /// Has the kernel count what was looked at. The engine need not be held.
    ///
    /// # Errors
    /// [`EngineError::System`] where it does not.
    pub fn count(&mut self) -> Result<(), EngineError> {
        if let Some(backing) = self.uncounted_backing.take() {
            // It takes time for each page of the pool.
            let found = backing.resident();
            let found = found.map_err(EngineError::system("the backing could not be counted"))?;
            self.view.backing.resident = found;
            self.view.resident_measured += found;
        }
        for memory in self.uncounted.drain(..) {
            let whole = PageRange::new(0, memory.pages());
            let found = memory.resident(whole).map_err(|_| EngineError::System {
                what: "resident pages could not be counted",
                errno: Errno::NOSYS,
            })?;
            self.view.resident_measured += found.pages as u64;
        }
        Ok(())
    }

    /// The snapshot.
    #[must_use]
    pub fn into_view(mut self) -> EngineView {
        let now = freehold_linux::clock::now().as_nanos();
        let waited = self.oldest.map_or(0, |since| now.saturating_sub(since));
        self.view.orders.oldest = std::time::Duration::from_nanos(waited);
        self.view
    }

    fn measure(&mut self, memory: &PagedMemfd) -> Result<(), EngineError> {
        let handle = memory.handle().map_err(|_| EngineError::System {
            what: "a descriptor to count resident pages could not be made",
            errno: Errno::MFILE,
        })?;
        self.uncounted.push(handle);
        Ok(())
    }
}

impl Engine {
    /// Goes on with a snapshot, for one hold of the engine; how much was looked at: [`Snapshot::bound`] at most.
    ///
    /// # Errors
    /// [`EngineError::System`] where there is no descriptor left to count with.
    pub fn advance(&self, snapshot: &mut Snapshot) -> Result<usize, EngineError> {
        let mut done = 0;
        while done < STEP && !snapshot.is_complete() {
            done += self.look(snapshot, STEP - done)?;
        }
        Ok(done)
    }

    /// Looks at one row, or a part of an object; what that counts.
    fn look(&self, snapshot: &mut Snapshot, left: usize) -> Result<usize, EngineError> {
        let (next, cost) = match std::mem::replace(&mut snapshot.at, Place::Complete) {
            Place::Reservations(at) if at < self.reservations.len() => {
                self.look_at_reservation(snapshot, at);
                (Place::Reservations(at + 1), ROW)
            }
            Place::Reservations(_) => (Place::Tasks(0), 1),
            Place::Tasks(at) if at < self.tasks.length() => {
                self.look_at_task(snapshot, at);
                (Place::Tasks(at + 1), ROW)
            }
            Place::Tasks(_) => (Place::Clients(0), 1),
            Place::Clients(at) if at < self.clients.length() => {
                let cost = match self.clients.at(at) {
                    Some(client) => self.look_at_client(snapshot, client)?,
                    None => 1,
                };
                (Place::Clients(at + 1), cost)
            }
            Place::Clients(_) => (Place::Objects(0), 1),
            Place::Objects(at) => match self.objects.get(at) {
                Some(Some(object)) => (Place::Object(at, self.begin_object(snapshot, object)?), ROW),
                Some(None) => (Place::Objects(at + 1), 1),
                None => (Place::Complete, 1),
            },
            Place::Object(at, part) => self.look_at_object(snapshot, at, part, left),
            Place::Complete => (Place::Complete, 0),
        };
        snapshot.at = next;
        Ok(cost)
    }

    fn look_at_reservation(&self, snapshot: &mut Snapshot, at: usize) {
        let Some(row) = self.reservations.get(at).and_then(Option::as_ref) else {
            return;
        };
        let Some(lists) = self.core.reservation(row.id) else {
            return;
        };
        snapshot.reservations.insert(row.id, snapshot.view.reservations.len());
        snapshot.view.reservations.push(ReservationRow {
            id: row.id,
            name: row.name.clone(),
            kind: row.kind,
            lists,
            members: Vec::new(),
        });
    }

    fn look_at_task(&self, snapshot: &mut Snapshot, at: usize) {
        let Some(task) = self.tasks.at(at) else { return };
        let row = task.reservation.and_then(|id| snapshot.reservations.get(&id));
        let row = row.and_then(|row| snapshot.view.reservations.get_mut(*row));
        let (Some(row), Some(client)) = (row, self.client(task.client)) else {
            return;
        };
        if let Some(key) = client.tasks.iter().find(|key| key.index() == at) {
            row.members.push(MemberView {
                client: task.client,
                pid: client.process.pid,
                task: *key,
                name: task.name.clone(),
            });
        }
    }

    fn look_at_client(&self, snapshot: &mut Snapshot, client: &Client) -> Result<usize, EngineError> {
        snapshot.measure(client.slots.memory())?;
        snapshot.clients.insert(client.id, snapshot.view.clients.len());
        snapshot.view.clients.push(self.client_view(client));
        snapshot.view.resident_measured += client.memory.resident;
        let orders = &mut snapshot.view.orders;
        orders.outstanding = orders.outstanding.saturating_add(client.outbox.count());
        orders.sent += client.outbox.sent;
        let oldest = client.outbox.oldest().map(|since| since.get());
        snapshot.oldest = [snapshot.oldest, oldest].into_iter().flatten().min();
        if let Some(pager) = snapshot.view.pagers.get_mut(client.affinity.pager) {
            pager.clients += 1;
        }
        Ok(2 * ROW * (1 + client.tasks.len()) + client.memory.kept.len() + freehold_protocol::channel::ORDERS)
    }

    fn begin_object(&self, snapshot: &mut Snapshot, object: &Object) -> Result<Part, EngineError> {
        if let Some(memory) = object.memory() {
            snapshot.measure(memory)?;
        }
        Ok(Part {
            id: object.id,
            page: 0,
            owned: BTreeMap::new(),
            stored: 0,
            mapper: 0,
            mappers: Vec::new(),
        })
    }

    /// A part of an object: its pages, then where it is mapped.
    fn look_at_object(&self, snapshot: &mut Snapshot, at: usize, mut part: Part, left: usize) -> (Place, usize) {
        let Some(object) = self.object(part.id) else {
            // It has gone.
            return (Place::Objects(at + 1), 1);
        };
        let pages = usize::try_from(object.pages.saturating_sub(part.page)).unwrap_or(usize::MAX);
        let pages = pages.min(left);
        for _ in 0..pages {
            self.look_at_page(object, &mut part);
            part.page += 1;
        }
        if part.page < object.pages {
            return (Place::Object(at, part), pages);
        }
        if let Content::Private { client, .. } = &object.content {
            let row = snapshot.clients.get(client);
            if let Some(row) = row.and_then(|row| snapshot.view.clients.get_mut(*row)) {
                row.private.stored += part.stored;
            }
            return (Place::Objects(at + 1), pages + 1);
        }
        let mappers = object.segments.get(part.mapper..).unwrap_or_default();
        let looked = mappers.len().min((left - pages) / ROW + 1);
        let found = mappers.iter().take(looked);
        part.mappers.extend(found.filter_map(|place| self.mapper(place)));
        part.mapper += looked;
        if looked < mappers.len() {
            return (Place::Object(at, part), pages + looked * ROW);
        }
        snapshot
            .view
            .objects
            .push(self.object_view(object, part.mappers, part.owned));
        (Place::Objects(at + 1), pages + looked * ROW)
    }

    fn look_at_page(&self, object: &Object, part: &mut Part) {
        if let Content::Private { pages, .. } = &object.content {
            let nowhere = pages.get(part.page as usize) == Some(&Where::Nowhere);
            let stored = nowhere && self.state_of(part) == Some(PageState::Stored);
            part.stored += u64::from(stored);
        } else if let Some(page) = self.core.page(part.id, PageIndex::new(part.page))
            && page.state == PageState::Resident
        {
            *part.owned.entry(page.owner).or_default() += 1;
        }
    }

    fn state_of(&self, part: &Part) -> Option<PageState> {
        let page = self.core.page(part.id, PageIndex::new(part.page))?;
        Some(page.state)
    }

    fn mapper(&self, at: &SegmentAt) -> Option<MapperView> {
        let (id, start) = (at.client, at.start);
        let client = self.client(id)?;
        let segment = client.space.get(&start)?;
        Some(MapperView {
            client: id,
            pid: client.process.pid,
            address: start,
            first: segment.first,
            pages: u32::try_from((segment.end - start) / crate::PAGE).ok()?,
        })
    }

    fn object_view(
        &self,
        object: &Object,
        mappers: Vec<MapperView>,
        owned: BTreeMap<Option<ReservationId>, u32>,
    ) -> ObjectView {
        let (identity, changed) = match &object.content {
            Content::File { identity, changed, .. } => {
                let found = identity;
                let key = (found.device, found.inode, found.size, found.changed.0, found.changed.1);
                (Some(key), *changed)
            }
            _ => (None, false),
        };
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
        let resident = self.core.resident(object.id).map_or(0, |count| count.get());
        // What is being written is still in its frame, and what leaves until there is a hole.
        let resident = resident.saturating_add(self.transfers.leaving(object.id));
        let resident = resident.saturating_add(self.backing.holes.of(object.id));
        ObjectView {
            id: object.id,
            name: object.shown(),
            identity,
            kind: object.kind(),
            regime: object.regime,
            uid: object.uid,
            pages: object.pages,
            resident,
            mappers,
            shares: owned.into_iter().map(share).collect(),
            changed,
        }
    }
}
