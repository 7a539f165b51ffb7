//! Clients come and go.

mod client;
pub(super) mod client_pool;
pub(super) mod client_timeout;
mod programs;
pub(super) mod user_limits;

use crate::engine::Engine;
use crate::engine::clients::client_pool::{ClientChannels, ClientPool};
use crate::engine::clients::user_limits::UserLimits;
use crate::engine::faults::Which;
use crate::engine::keys::{ClientId, ClientRole, Handover, NewClient};
use crate::engine::objects::Content;
use crate::engine::objects::sampling::Samples;
use crate::engine::orders::{About, Follow, Outstanding};
use crate::engine::rows_of;
use crate::engine::spaces::Segment;
use crate::engine::table::Table;
use crate::error::EngineError;
use crate::settings::{Settings, Unresponsive};
use crate::user_threads::Work;
pub(crate) use client::{Charging, Client, Process, Userfaults};
use freehold_core::fact::Request;
use freehold_driver::End;
use freehold_linux::userfault::{Features, Userfault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;

/// Clients that have ended and that the backing's thread is to drop, at most.
const ZOMBIES: usize = 16;

/// All clients.
#[derive(Debug)]
pub(super) struct Clients {
    rows: Table<Client>,
    pub(super) user_limits: UserLimits,
    client_pool: ClientPool,
    pub(super) samples: Samples,
    /// Those with faults to look at again soon.
    pub(super) deferred: Vec<ClientId>,
    /// Those of them whose faults are being looked at again.
    pub(super) looking: Vec<ClientId>,
    /// Those whose agents may have to be woken.
    pub(super) announce: Vec<ClientId>,
    /// Those that have ended, to be dropped by another thread.
    zombies: Vec<Client>,
    /// How many there were when they were last told whether there is a place for a child.
    pub(super) told: usize,
    pub(super) unresponsive: Unresponsive,
    /// When to look for those that do not answer.
    pub(super) watch_at: Option<u64>,
}

rows_of!(Clients { rows: Table<Client> });

impl Clients {
    /// None yet.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            // Each may be a child that connects.
            rows: Table::new(2 * usize::from(settings.tables.clients)),
            user_limits: UserLimits::new(settings),
            client_pool: ClientPool::new(settings.frames.get().saturating_add(256)),
            samples: Samples::default(),
            deferred: Vec::new(),
            looking: Vec::new(),
            announce: Vec::new(),
            zombies: Vec::with_capacity(ZOMBIES),
            told: 0,
            unresponsive: settings.unresponsive,
            watch_at: None,
        }
    }
}

impl Engine {
    /// Whether any process has memory here, be it the child of a fork that has not connected yet.
    pub(crate) fn has_clients(&self) -> bool {
        self.clients.iter().next().is_some()
    }

    pub(super) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(id.index(), id.generation())
    }

    pub(super) fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.index(), id.generation())
    }

    /// Makes sure that a user may have one more client.
    fn make_place_for(&mut self, user: u32, role: ClientRole) -> Result<(), EngineError> {
        if self.may_connect(user, role).is_err() {
            self.step(Self::end_unconnected_now);
        }
        self.may_connect(user, role).map_err(|what| EngineError::Limit { what })
    }

    /// Takes in a process. The descriptors are checked; its faults are served from now on.
    ///
    /// # Errors
    /// [`EngineError::Descriptor`], [`EngineError::Limit`], [`EngineError::System`].
    pub fn add_client(&mut self, client: NewClient) -> Result<(ClientId, Handover), EngineError> {
        if self.backing.sources.stalls.is_barred(client.uid) {
            return Err(EngineError::Barred);
        }
        let lend = |userfault| self.backing.sources.lend_userfault(client.uid, userfault);
        let shared = client
            .shared
            .map(|fd| adopt(fd, "the userfaultfd of shared objects").map(lend))
            .transpose()?;
        let private = client
            .private
            .map(|fd| adopt(fd, "the userfaultfd of private memory").map(lend))
            .transpose()?;
        self.make_place_for(client.uid, client.role)?;
        let channels = self.channels_for(client.role, client.uid)?;
        let (channel, event) = channels.outbox.descriptors()?;
        let what = "a descriptor could not be duplicated";
        let transfer_pages = channels.slots.pages();
        let transfer = channels
            .slots
            .memory()
            .descriptor()
            .map_err(EngineError::system(what))?;
        let pager = self.pager_for(client.pid);
        let process = Process {
            role: client.role,
            pid: client.pid,
            uid: client.uid,
            pidfd: Some(client.pidfd),
            name: client.name,
            agent_thread: client.agent_thread,
            limits: client.limits,
        };
        let made = self.clients.insert(|index, generation| Client {
            userfaults: Userfaults { shared, private },
            ..Client::new(ClientId::new(index, generation), process, channels, pager)
        });
        let (index, generation) = made.ok_or(EngineError::Limit { what: "clients" })?;
        let id = ClientId::new(index, generation);
        if let Err(error) = self.listen_to(id) {
            self.clients.remove(id.index(), id.generation());
            return Err(error);
        }
        self.place_agent(id);
        let handover = Handover {
            channel,
            transfer,
            event,
            transfer_pages,
        };
        Ok((id, handover))
    }

    /// Whether the client is still there: it ends also when its process does.
    #[must_use]
    pub fn has_client(&self, client: ClientId) -> bool {
        self.client(client).is_some_and(|client| !client.family.gone)
    }

    /// A client is gone, or is to be treated as gone: everything it had returns. Idempotent.
    pub fn remove_client(&mut self, client: ClientId) {
        self.step(|engine| {
            engine.dismiss(client);
        });
    }

    /// Ends a client that does not keep to the protocol, for the reason given.
    pub(super) fn expel(&mut self, id: ClientId, why: &str) {
        if let Some(text) = self.kill(id, why) {
            self.notice_ending(text);
        }
    }

    /// The same of one whose agent has said why.
    pub(super) fn expel_told(&mut self, id: ClientId, why: &str) {
        if let Some(text) = self.kill(id, why) {
            self.notice(text);
        }
    }

    fn kill(&mut self, id: ClientId, why: &str) -> Option<String> {
        let client = self.client(id).filter(|client| !client.family.gone)?;
        let Process { pid, name, .. } = &client.process;
        let text = format!("process {pid} ({name}) is killed: {why}");
        client.process.signal(Signal::KILL);
        self.dismiss(id);
        Some(text)
    }

    fn channels_for(&mut self, role: ClientRole, user: u32) -> Result<ClientChannels, EngineError> {
        let mut channels = match role {
            ClientRole::Program => self.take_channels()?,
            ClientRole::Library => ClientChannels::new(1)?,
        };
        channels.slots.give_back_apart(!is_trusted(user));
        Ok(channels)
    }

    /// Everything that a client had returns.
    pub(super) fn end_client(&mut self, id: ClientId) {
        self.end_program_locks(id);
        let Some(mut client) = self.clients.remove(id.index(), id.generation()) else {
            return;
        };
        self.listen_no_more(&client);
        self.forsake_survivors(&mut client);
        self.leave_family(&client);
        for Outstanding { about, .. } in client.outbox.abandon() {
            self.answered_by_nobody(about);
        }
        let mut left: Vec<Segment> = std::mem::take(&mut client.space).into_values().collect();
        left.sort_unstable_by_key(|segment| segment.object);
        left.dedup_by_key(|segment| segment.object);
        for segment in left {
            let Some(object) = self.object_mut(segment.object) else {
                continue;
            };
            object.segments.retain(|at| at.client != id);
            if !matches!(object.content, Content::Private { .. }) {
                self.forget_if_unused(segment.object);
            } else if object.segments.is_empty() {
                self.give_up_object(id, &segment);
            }
        }
        self.give_up_tasks(id, std::mem::take(&mut client.tasks));
        if self.clients.zombies.len() < ZOMBIES {
            self.clients.zombies.push(client);
            self.backing.locked.wake();
        } else {
            let user = client.process.uid;
            self.backing
                .sources
                .threads
                .give(user, Work::DropZombie, Box::new(move || drop(client)));
        }
    }

    /// Clients that have ended, to be dropped where nobody waits for the engine: the kernel takes their transfer memory
    /// and their descriptors back, which is longer than a fault.
    pub(crate) fn take_zombies(&mut self) -> Vec<Client> {
        if self.clients.zombies.is_empty() {
            return Vec::new();
        }
        std::mem::replace(&mut self.clients.zombies, Vec::with_capacity(ZOMBIES))
    }

    /// The client that should have answered is gone, and the page with it.
    pub(super) fn answered_by_nobody(&mut self, about: About) {
        let About::Private { page, follow, .. } = about else {
            return;
        };
        match follow {
            Follow::WriteBack(_) | Follow::Discard | Follow::Forget { asked: true } => {
                self.end(page, Request::Evict, End::Done);
            }
            Follow::Demote | Follow::Forget { asked: false } => {}
        }
    }

    /// The userfaultfds of a client, each with its name.
    pub(super) fn descriptors(client: &Client) -> impl Iterator<Item = (BorrowedFd<'_>, Which)> {
        let shared = client
            .userfaults
            .shared
            .as_ref()
            .map(|userfault| (userfault.as_fd(), Which::Shared));
        let private = client
            .userfaults
            .private
            .as_ref()
            .map(|userfault| (userfault.as_fd(), Which::Private));
        shared.into_iter().chain(private)
    }
}

/// Whether a user may do with the server what he likes: root, and the server's own.
pub(crate) fn is_trusted(user: u32) -> bool {
    user == 0 || user == freehold_linux::process::effective_user()
}

fn adopt(fd: OwnedFd, what: &'static str) -> Result<Userfault, EngineError> {
    Userfault::adopt(fd, Features::SERVED).map_err(|_| EngineError::Descriptor {
        what,
        why: "it is not a userfaultfd",
    })
}
