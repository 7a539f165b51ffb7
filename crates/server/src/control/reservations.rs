//! Requests about reservations and tasks.

use crate::control::accounts::Kind;
use crate::control::grants::{Grant, MEMBERSHIPS};
use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::control::reply::{Reply, Waiting};
use crate::control::session::{self, Session};
use crate::control::tickets::Ticket;
use crate::engine::{ClientId, Membership};
use freehold_core::limits::{ReservationKind, ReservationSpec};
use freehold_core::units::FrameCount;
use freehold_linux::memory::seal_document;
use freehold_protocol::message::{Question, Refusal};
use std::time::Duration;

/// The shortest period of sampling: each costs every referenced page a fault.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);

impl Session {
    pub(super) fn reserve(
        &mut self,
        registry: &Registry,
        name: &str,
        frames: u32,
        kind: ReservationKind,
    ) -> Result<Reply, Refused> {
        self.may_hold()?;
        let charge = registry.take(self.peer.user, Kind::Frames, u64::from(frames))?;
        let place = registry.queue()?;
        Ok(Reply::Wait(Waiting::Admission {
            place,
            name: session::name(name),
            spec: ReservationSpec {
                capacity: FrameCount::new(frames),
                kind,
            },
            charge: Some(charge),
        }))
    }

    pub(super) fn join(&mut self, registry: &Registry, high: u64, low: u64) -> Result<Reply, Refused> {
        self.may_hold()?;
        let ticket = Ticket { high, low };
        let joined = registry.join(ticket);
        let (id, frames) = joined.ok_or_else(|| {
            let text = "no reservation or pinned page pool has this ticket: it was given up, or is another server's";
            Refused::new(Refusal::Unknown, text)
        })?;
        self.hold(registry, id, frames, ticket)
    }

    /// Whether one reservation or pinned page pool more can be held.
    pub(super) fn may_hold(&self) -> Result<(), Refused> {
        if self.grants.memberships.is_full() {
            return Err(too_many());
        }
        Ok(())
    }

    /// Gives a reservation or pinned page pool that this connection holds a handle. `frames` are promised.
    pub(super) fn hold(
        &mut self,
        registry: &Registry,
        id: Membership,
        frames: u32,
        ticket: Ticket,
    ) -> Result<Reply, Refused> {
        match self.grants.memberships.insert(id) {
            Ok(handle) => Ok(Reply::Reserved { handle, frames, ticket }),
            Err(id) => {
                registry.let_go(id);
                Err(too_many())
            }
        }
    }

    pub(super) fn release(&mut self, registry: &Registry, handle: u32) -> Result<Reply, Refused> {
        let id = self.grants.membership(handle)?;
        self.grants.memberships.remove(handle);
        registry.let_go(id);
        Ok(Reply::Done(Vec::new()))
    }

    pub(super) fn add_task(
        &mut self,
        registry: &Registry,
        reservation: u32,
        urgency: u8,
        name: &str,
    ) -> Result<Reply, Refused> {
        let client = self.process()?;
        if urgency > 0 && !self.peer.rights.real_time {
            return Err(Refused::new(
                Refusal::Forbidden,
                format!(
                    "user {user} may not be real-time: use urgency 0, or ask who started the server to allow it (serve \
                     --allow {user}=SIZE)",
                    user = self.peer.user
                ),
            ));
        }
        let membership = match reservation {
            0 => None,
            handle => Some(self.grants.membership(handle)?),
        };
        if self.grants.tasks.is_full() {
            return Err(Refused::limit("tasks of one connection", 64));
        }
        let charge = registry.take(self.peer.user, Kind::Tasks, 1)?;
        let made = registry
            .shared
            .engine()
            .add_member(client, membership, urgency, &session::name(name));
        // There is room: it was looked at above.
        self.grants
            .tasks
            .insert(Grant::new(made?, vec![charge]))
            .map(Reply::Made)
            .map_err(|_| Refused::limit("tasks of one connection", 64))
    }

    pub(super) fn remove_task(&mut self, registry: &Registry, handle: u32) -> Result<Reply, Refused> {
        let (client, task) = (self.process()?, self.grants.task(handle)?);
        registry.shared.engine().remove_task(client, task)?;
        self.grants.tasks.remove(handle);
        Ok(Reply::Done(Vec::new()))
    }

    pub(super) fn job_end(
        &self,
        registry: &Registry,
        task: u32,
        response: u64,
        missed: bool,
    ) -> Result<Reply, Refused> {
        let (client, task) = (self.process()?, self.grants.task(task)?);
        let response = Duration::from_nanos(response);
        registry.shared.engine().job_end(client, task, response, missed)?;
        Ok(Reply::Done(Vec::new()))
    }

    pub(super) fn count(&self, registry: &Registry, task: u32) -> Result<Reply, Refused> {
        let (client, task) = (self.process()?, self.grants.task(task)?);
        let counts = registry.shared.engine().counts(client, task)?;
        Ok(Reply::Counts(counts))
    }

    pub(super) fn count_process(&self, registry: &Registry, process: u32) -> Result<Reply, Refused> {
        let found = registry.shared.engine().process_counts(process);
        // One answer to both: who may not look into a process does not learn that it is here.
        let allowed = found.filter(|(user, _)| self.peer.rights.privileged || *user == self.peer.user);
        allowed.map(|(_, counts)| Reply::Counts(counts)).ok_or_else(|| {
            let text = format!("process {process} is no client of this server that this user may look into");
            Refused::new(Refusal::Unknown, text)
        })
    }

    pub(super) fn sample(&self, registry: &Registry, period: u64, process: u32) -> Result<Reply, Refused> {
        let client = match process {
            0 => self.process()?,
            pid => self.other(registry, pid)?,
        };
        let period = Duration::from_nanos(period);
        if !period.is_zero() && period < SHORTEST_SAMPLE {
            return Err(Refused::new(
                Refusal::State,
                "a sampling period is at least 1 ms: every referenced page costs a fault in each",
            ));
        }
        registry.shared.engine().sample(client, period)?;
        Ok(Reply::Done(Vec::new()))
    }

    /// Another client, which this connection's user may look into.
    pub(super) fn other(&self, registry: &Registry, pid: u32) -> Result<ClientId, Refused> {
        let view = registry.shared.view()?;
        let client = view.clients.iter().find(|client| client.pid == pid);
        // One answer to both: who may not look into a process does not learn that it is here.
        let allowed = client.filter(|client| self.peer.rights.privileged || client.uid == self.peer.user);
        allowed.map(|client| client.id).ok_or_else(|| {
            let text = format!("process {pid} is no client of this server that this user may look into");
            Refused::new(Refusal::Unknown, text)
        })
    }

    pub(super) fn ask(&self, registry: &Registry, question: Question, target: &str) -> Result<Reply, Refused> {
        let text = crate::document::answer(registry, &self.peer, question, target)?;
        let sealed = seal_document(c"freehold-document", text.as_bytes());
        let descriptor = sealed.map_err(|errno| {
            let text = format!("the document cannot be handed over: {errno}");
            Refused::new(Refusal::Exhausted, text)
        })?;
        Ok(Reply::Document {
            length: text.len() as u64,
            descriptor,
        })
    }
}

fn too_many() -> Refused {
    let what = "reservations and pinned page pools of one connection";
    Refused::limit(what, MEMBERSHIPS as u64)
}
