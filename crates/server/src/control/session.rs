//! One client's side of the server: what it is, what it has, and what it may ask.

use crate::control::grants::Grants;
use crate::control::kin::numbers;
use crate::control::refused::{Refused, clean};
use crate::control::registry::Registry;
use crate::control::reply::{Reply, Waiting};
use crate::control::strangers::Unmanaged;
use crate::engine::{ClientId, ClientRole, NewClient};
use crate::quota::Rights;
use freehold_linux::charge::ChargeLimits;
use freehold_protocol::message::{Refusal, Request, Role, Stranger};
use rustix::fd::OwnedFd;

/// Descriptors of one user that are to be closed and are not yet: whoever has more makes that wait.
const UNCLOSED: u32 = 4_096;
/// The longest name, in characters.
const NAME: usize = 64;

/// Who is at the other end, by the kernel's word.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The process, 0 where it has no number here.
    pub(crate) pid: u32,
    /// The user, or the owner of the user name space that it is in.
    pub(crate) user: u32,
    /// The process, for good.
    pub(crate) pidfd: OwnedFd,
    /// What the user may do.
    pub(crate) rights: Rights,
}

/// A connection that has said who it is, or has not yet.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) peer: Peer,
    pub(super) name: String,
    pub(super) role: Option<Role>,
    pub(super) client: Option<ClientId>,
    pub(super) grants: Grants,
}

impl Session {
    /// A connection from `peer`.
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            name: String::new(),
            role: None,
            client: None,
            grants: Grants::new(),
        }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What it calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has said who it is.
    pub(crate) fn is_greeted(&self) -> bool {
        self.role.is_some()
    }

    /// Its process in the engine, if it has one.
    pub(crate) fn client(&self) -> Option<ClientId> {
        self.client
    }

    /// Meets a request, or begins to wait for what it needs.
    pub(crate) fn handle(
        &mut self,
        registry: &Registry,
        request: &Request<'_>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Reply, Refused> {
        if let Request::Hello {
            role,
            agent_thread,
            name,
        } = *request
        {
            return self.hello(registry, role, agent_thread, name, descriptors);
        }
        if !self.is_greeted() {
            return Err(Refused::closing(Refusal::State, "the first request must be `Hello`"));
        }
        if let Request::OpenFile { regime, .. } = *request {
            let opened = self.open_file(registry, regime, descriptors);
            self.grants.opened_last = match &opened {
                Ok(Reply::Opened { handle, .. }) => *handle,
                _ => 0,
            };
            return opened;
        }
        if !descriptors.is_empty() {
            return Err(Refused::new(Refusal::Descriptor, "this request takes no descriptors"));
        }
        if let Request::OpenPool { .. } | Request::ReportJob { .. } = request {
            return self.pinning(registry, request);
        }
        if let Request::LockMemory { .. } | Request::UnlockMemory { .. } = request {
            return self.program_lock(registry, request);
        }
        self.handle_plain(registry, request)
    }

    /// As [`handle`](Self::handle), for requests without descriptors.
    fn handle_plain(&mut self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        match *request {
            Request::Hello { .. }
            | Request::OpenFile { .. }
            | Request::OpenPool { .. }
            | Request::ReportJob { .. }
            | Request::LockMemory { .. }
            | Request::UnlockMemory { .. } => Err(Refused::new(Refusal::State, "not here")),
            Request::Reserve { name, frames, kind } => self.reserve(registry, name, frames, kind),
            Request::Join {
                ticket_high,
                ticket_low,
            } => self.join(registry, ticket_high, ticket_low),
            Request::Release { reservation } => self.release(registry, reservation),
            Request::AddTask {
                membership,
                urgency,
                name,
            } => self.add_task(registry, membership, urgency, name),
            Request::RemoveTask { task } => self.remove_task(registry, task),
            Request::OpenRegion {
                name,
                pages,
                kind,
                regime,
            } => self.open_region(registry, name, pages, kind, regime),
            Request::CloseObject { object } => self.close_object(registry, object),
            Request::Map { .. } => self.map(registry, request),
            Request::Unmap { mapping } => self.unmap(registry, mapping),
            Request::Lock {
                reservation,
                object,
                first,
                pages,
            } => self.lock(registry, reservation, object, (first, pages)),
            Request::Unlock {
                reservation,
                object,
                first,
                pages,
            } => self.unlock(registry, reservation, object, (first, pages)),
            Request::JobEnd { task, response, missed } => self.job_end(registry, task, response, missed),
            Request::Count { task } => self.count(registry, task),
            Request::CountProcess { process } => self.count_process(registry, process),
            Request::Ask { question, target } => self.ask(registry, question, target),
            Request::Sample { period, process } => self.sample(registry, period, process),
            Request::Forked { .. } | Request::Lend {} | Request::Stranger { .. } => self.child(registry, request),
            Request::AnswerBy { agent_thread } => self.answer_by(registry, agent_thread),
            Request::Keep { address, length } => self.keep(registry, address, length),
            Request::Inherit { .. } | Request::InheritAlike { .. } | Request::Relinquish { .. } => {
                self.private_memory(registry, request)
            }
        }
    }

    fn hello(
        &mut self,
        registry: &Registry,
        role: Role,
        agent_thread: u32,
        name: &str,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Reply, Refused> {
        if self.is_greeted() {
            return Err(Refused::new(
                Refusal::State,
                "this connection has said who it is already",
            ));
        }
        let name = clean(name, NAME);
        let reply = match role {
            Role::Observer if descriptors.is_empty() => Reply::Welcome { client: None },
            Role::Observer => {
                return Err(Refused::new(Refusal::Descriptor, "an observer sends no descriptors"));
            }
            Role::Program => self.begin(registry, ClientRole::Program, agent_thread, &name, descriptors)?,
            Role::Library => self.begin(registry, ClientRole::Library, agent_thread, &name, descriptors)?,
        };
        self.role = Some(role);
        self.name = name;
        Ok(reply)
    }

    /// Takes the peer's process into the engine.
    fn begin(
        &mut self,
        registry: &Registry,
        role: ClientRole,
        agent_thread: u32,
        name: &str,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Reply, Refused> {
        if self.peer.pid == 0 {
            return Err(Refused::new(
                Refusal::Forbidden,
                "the process has no number where the server runs: start the server in its namespace, or outside all",
            ));
        }
        if registry.shared.unclosed(self.peer.user) >= UNCLOSED {
            let text = "what this user's processes have left behind cannot be closed: they keep their memory locked";
            return Err(Refused::new(Refusal::Exhausted, text));
        }
        if !descriptors.iter().all(crate::control::descriptors::is_userfaultfd) {
            return Err(Refused::new(Refusal::Descriptor, "a descriptor is not a userfaultfd"));
        }
        let mut descriptors = descriptors.into_iter();
        let (private, shared) = match (role, descriptors.len()) {
            // The child of a fork: the kernel has given its userfaultfds to the server.
            (ClientRole::Program, 0) => (None, None),
            (ClientRole::Program, 2) => (descriptors.next(), descriptors.next()),
            (ClientRole::Library, 1) => (None, descriptors.next()),
            (_, count) => {
                return Err(Refused::new(
                    Refusal::Descriptor,
                    format!("{count} descriptors: a program sends two userfaultfds, a library one"),
                ));
            }
        };
        let pidfd = self.peer.pidfd.try_clone();
        let pidfd = pidfd.map_err(|error| Refused::new(Refusal::Exhausted, format!("no descriptor left: {error}")))?;
        let new = NewClient {
            role,
            pid: self.peer.pid,
            uid: self.peer.user,
            pidfd,
            name: name.to_owned(),
            agent_thread,
            limits: match role {
                ClientRole::Program => ChargeLimits::of(self.peer.pid),
                ClientRole::Library => ChargeLimits::default(),
            },
            private,
            shared,
        };
        // Rows of those who have just ended are as good as free.
        registry.shared.tear_down();
        let (client, handover) = registry.shared.engine().add_client(new)?;
        self.client = Some(client);
        registry.enter(self.peer.pid);
        Ok(Reply::Welcome {
            client: Some((client, handover)),
        })
    }

    /// What kind of client it is.
    pub(super) fn client_role(&self) -> ClientRole {
        if self.role == Some(Role::Program) {
            ClientRole::Program
        } else {
            ClientRole::Library
        }
    }

    /// The process that only programs and libraries have.
    pub(super) fn process(&self) -> Result<ClientId, Refused> {
        let observer = || Refused::new(Refusal::State, "an observer has no memory: say `Hello` as what you are");
        self.client.ok_or_else(observer)
    }

    /// Another thread of the client carries out orders from now on.
    fn answer_by(&self, registry: &Registry, agent_thread: u32) -> Result<Reply, Refused> {
        registry.shared.engine().set_agent_thread(self.process()?, agent_thread);
        Ok(Reply::Done(Vec::new()))
    }

    fn forked(&self, parent: u32) -> Result<Reply, Refused> {
        let client = self.process()?;
        Ok(Reply::Wait(Waiting::Fork { client, parent }))
    }

    /// What has to do with children.
    fn child(&self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        match *request {
            Request::Forked { parent } => self.forked(parent),
            Request::Stranger { process, why, name } => self.stranger(registry, process, why, name),
            _ => self.lend(registry),
        }
    }

    /// A connection for a child of the client's.
    fn lend(&self, registry: &Registry) -> Result<Reply, Refused> {
        self.process()?;
        registry.lent.make().map(|end| Reply::Done(vec![end]))
    }

    /// A program that the client has begun runs unmanaged.
    fn stranger(&self, registry: &Registry, process: u32, why: Stranger, name: &str) -> Result<Reply, Refused> {
        self.process()?;
        registry.strangers.note(Unmanaged {
            // A number of another namespace says nothing here.
            pid: if numbers(self.peer.pid).len() > 1 { 0 } else { process },
            name: clean(name, NAME),
            why,
            user: self.peer.user,
            membership: self.grants.memberships.iter().next().map(|(_, membership)| *membership),
        });
        Ok(Reply::Done(Vec::new()))
    }

    /// The connection is over: everything it had returns.
    pub(crate) fn end(&mut self, registry: &Registry) {
        self.grants.unlock(registry);
        if let Some(client) = self.client.take() {
            registry.note_stray(&self.peer.pidfd);
            registry.shared.engine().remove_client(client);
            registry.leave(self.peer.pid);
        }
        self.grants.end(registry, registry.is_owner(self.peer.pid));
    }
}

/// A name of a reservation, task or region, as it may be shown.
pub(super) fn name(name: &str) -> String {
    clean(name, NAME)
}
