//! Room below the limit of a client's memory cgroup.
//!
//! A page that is copied into a client's address space is charged to the client's memory cgroup. Where that is at its
//! limit the kernel has the thread that copies take pages back, or end a process and wait for its memory. That thread
//! has the engine, and everybody would wait with it (`freehold_linux::charge`). So the limit is looked at before each
//! copy, and where little is left the client's own agent makes room, while only the client waits.

use crate::engine::Engine;
use crate::engine::affinity::pager_affinity::agent_of;
use crate::engine::clients::{Charging, Client, Process};
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::orders::{About, Outstanding};
use freehold_linux::ThreadId;
use freehold_linux::charge::ChargeLimits;
use freehold_linux::sched::{self, Policy};
use freehold_protocol::channel::{Action, CHARGED, Outcome};

/// Pages that are left beside those to be copied: others of the group take some at the same time.
const SPARE: u64 = 16;

impl Engine {
    /// Whether so many pages can be copied into a client's address space without a wait for its memory cgroup. Where
    /// nobody could make room this is not asked.
    pub(in crate::engine) fn has_room_for(&self, id: ClientId, pages: usize) -> bool {
        let limits = self.maker_of_room(id).map(|maker| &maker.process.limits);
        limits.is_none_or(|limits| limits.are_none() || limits.left() >= (SPARE + pages as u64) * crate::PAGE)
    }

    /// Whose agent makes room for a client: its own, or that of its parent until it is connected, in the same cgroup.
    fn maker_of_room(&self, id: ClientId) -> Option<&Client> {
        let client = self.client(id)?;
        let able = |client: &&Client| client.process.role == ClientRole::Program && client.has_agent();
        let parent = || self.client(client.family.from?);
        Some(client).filter(able).or_else(parent).filter(able)
    }

    /// The programs, and their processes.
    pub(crate) fn programs(&self) -> Vec<(ClientId, u32)> {
        let clients = self.clients.iter().map(|(_, client)| client);
        let programs = clients.filter(|client| client.process.role == ClientRole::Program && client.has_agent());
        programs.map(|client| (client.id, client.process.pid)).collect()
    }

    /// What the memory cgroups of a client allow it now; what is to be closed, by who has the engine no more.
    pub(crate) fn set_limits(&mut self, id: ClientId, limits: ChargeLimits) -> ChargeLimits {
        match self.client_mut(id) {
            Some(client) => client.process.limits.renew(limits),
            None => limits,
        }
    }

    /// As [`has_room_for`](Self::has_room_for) one page; where there is none, somebody's agent makes some.
    pub(in crate::engine) fn finds_room(&mut self, id: ClientId) -> bool {
        if self.has_room_for(id, 1) {
            return true;
        }
        if let Some(maker) = self.maker_of_room(id).map(|maker| maker.id) {
            self.order_room(maker);
        }
        false
    }

    fn order_room(&mut self, maker: ClientId) {
        let since = self.step.now;
        let Some(client) = self.client_mut(maker).filter(|maker| maker.standing.charging.is_none()) else {
            return;
        };
        client.standing.charging = Some(Charging {
            lowered: lower_agent(&client.process),
        });
        let order = Outstanding {
            about: About::Room,
            address: 0,
            since,
        };
        client
            .outbox
            .order(Action::Charge, u32::try_from(CHARGED).unwrap_or(u32::MAX), order);
        self.announce_later(maker);
    }

    /// A client's agent has made room, or could not: what waits for it is looked at again, or a little later.
    pub(in crate::engine) fn room_made(&mut self, id: ClientId, outcome: Outcome) {
        let Some(client) = self.client_mut(id) else { return };
        let lowered = client.standing.charging.take().and_then(|charging| charging.lowered);
        // Another thread may have its number by now, or be the agent.
        if let Some((agent, policy)) = lowered.filter(|(agent, _)| agent_of(&client.process) == Some(*agent)) {
            let _ = sched::set_policy(agent, policy);
        }
        if outcome == Outcome::Done {
            self.make_due(id);
            self.look_again();
        }
    }
}

/// Makes a client's agent an ordinary thread, which the kernel lets look for room as long as it likes: what it was.
fn lower_agent(process: &Process) -> Option<(ThreadId, Policy)> {
    let agent = agent_of(process)?;
    let policy = sched::policy(agent).ok()?;
    let ordinary = Policy::Other { nice: 0 };
    let lowered = matches!(policy, Policy::Fifo { .. }) && sched::set_policy(agent, ordinary).is_ok();
    lowered.then_some((agent, policy))
}
