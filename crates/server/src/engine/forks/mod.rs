//! Forks: a child that has its parent's memory as it was, wherever the parent's pages were.
//!
//! The kernel gives the child copies of the pages in its parent's page table, and the server the child's userfaultfds.
//! What was elsewhere, in the transfer memory or in the store, the server copies into the child. Until that is done it
//! maps no page for the parent, which could change it before the child has it, and none for the child; nobody else
//! waits. What the child inherits is its own and unmanaged: it is served and shown.

pub(super) mod fork_copy;
pub(super) mod fork_pending;
pub(super) mod fork_unconnected;
pub(super) mod fork_zombie;
pub(super) mod withheld;

use crate::engine::Engine;
use crate::engine::clients::is_trusted;
use crate::engine::clients::{Client, Process};
use crate::engine::event_loop::listen;
use crate::engine::faults::fault_completion::{Installed, judge, unprotect};
use crate::engine::faults::fault_queue::FaultQueue;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::forks::fork_pending::{ForkCopy, ForkPending, Part};
use crate::engine::forks::withheld::Withheld;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::private_memory::Where;
use crate::engine::private_memory::relinquish::Relinquished;
use crate::engine::spaces::SegmentKind;
use freehold_core::id::ObjectId;
use freehold_core::view::PageState;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::channel::Shortage;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};

/// Threads of a child that are remembered, to know it by when it connects.
const THREADS: usize = 8;
/// Pages of a parent looked at for a child in one step. Few in debug builds: there every fork of a test takes many.
pub(super) const LOOKED_AT: u32 = if cfg!(debug_assertions) { 16 } else { 2_048 };

/// What a client has to do with forks.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Children that are being given their pages; threads that touch absent pages wait meanwhile.
    pub(crate) fork_children: u32,
    /// Faults that wait for that.
    pub(crate) held: FaultQueue,
    /// The client it was forked from, until it connects: it has no agent.
    pub(crate) parent: Option<ClientId>,
    /// The client whose pages it is being given: of a child that forks before it has everything, its parent's.
    pub(crate) from: Option<ClientId>,
    /// It has ended, and is there only until its children have their pages.
    pub(crate) gone: bool,
    /// Its events are read before it has everything: nothing can be copied to it until then.
    pub(crate) heard: bool,
    /// What it is yet to be given.
    pub(crate) fork_pending: ForkPending,
    /// Private memory that it inherited: start and end.
    pub(crate) inherited: Vec<(u64, u64)>,
    /// Pages of it that the server has filled.
    pub(crate) filled: u64,
    /// Threads that faulted before it connected.
    pub(crate) threads: Vec<u32>,
    /// Its user has been told that a page of it is lost.
    pub(crate) knows_of_loss: bool,
    /// What its own children do not inherit.
    pub(crate) withheld: Withheld,
    /// What it has given back, or is giving back, to the kernel.
    pub(crate) relinquished: Relinquished,
}

impl Engine {
    /// A client forks: one of the child's two userfaultfds.
    pub(super) fn forks(&mut self, id: ClientId, which: Which, child: OwnedFd) {
        let userfault = match Userfault::adopt(child, Features::SERVED) {
            Ok(userfault) => {
                let user = self.client(id).map_or(0, |client| client.process.uid);
                self.backing.sources.lend_userfault(user, userfault)
            }
            Err(error) => {
                self.notice(format!("a child's userfaultfd cannot be used: {error}"));
                return;
            }
        };
        let lacks = |client: &Client| client.family.parent == Some(id) && client.userfault(which).is_none();
        let found = self
            .clients
            .iter()
            .find(|(_, client)| lacks(client))
            .map(|(_, client)| client.id);
        let fork_child = found.or_else(|| self.beget(id)).or_else(|| {
            self.end_unconnected_now();
            self.beget(id)
        });
        let Some(fork_child) = fork_child else {
            self.no_room_to_live(id, Shortage::Children);
            // The kernel may be done with the fork.
            self.forsake(userfault);
            return;
        };
        if let Some(client) = self.client_mut(fork_child) {
            match which {
                Which::Shared => client.userfaults.shared = Some(userfault),
                Which::Private => client.userfaults.private = Some(userfault),
            }
        }
        match which {
            Which::Shared => self.inherit_shared(id, fork_child),
            Which::Private => self.inherit_private(id, fork_child),
        }
        let done = self
            .client(fork_child)
            .is_some_and(|client| client.family.fork_pending.is_over());
        if done || which == Which::Shared {
            self.listen_to_userfault(fork_child, which, true);
        }
        self.expect_unconnected();
    }

    /// A row for a child that has not connected, with a task beside its parent's.
    fn beget(&mut self, parent: ClientId) -> Option<ClientId> {
        let row = self.client(parent)?;
        let (uid, name, pager, urgency) = (
            row.process.uid,
            row.process.name.clone(),
            row.affinity.pager,
            row.urgency,
        );
        let program = row.prefetch.program;
        let membership = self.tasks.at(row.tasks.first()?.index())?.membership();
        if row.standing.frozen || !self.may_fork(uid) {
            return None;
        }
        let mut channels = self.take_channels().ok()?;
        channels.slots.give_back_apart(!is_trusted(uid));
        let made = self.clients.insert(|index, generation| {
            let id = ClientId::new(index, generation);
            let process = Process::unknown(ClientRole::Program, uid, name);
            let mut client = Client::new(id, process, channels, pager);
            (client.urgency, client.family.parent) = (urgency, Some(parent));
            client.prefetch.program = program;
            client
        });
        let (index, generation) = made?;
        let id = ClientId::new(index, generation);
        if self.new_task(id, membership, urgency, "forked").is_err() {
            self.clients.remove(id.index(), id.generation());
            return None;
        }
        Some(id)
    }

    /// The child has the same objects where its parent has them.
    fn inherit_shared(&mut self, parent: ClientId, fork_child: ClientId) {
        let segments: Vec<_> = self.client(parent).map_or(Vec::new(), |client| {
            let shared = client
                .space
                .iter()
                .filter(|(_, segment)| segment.kind != SegmentKind::Private);
            shared.map(|(start, segment)| (*start, *segment)).collect()
        });
        let Some(task) = self.client(fork_child).and_then(|client| client.tasks.first().copied()) else {
            return;
        };
        for (start, mut segment) in segments {
            match self.use_object(task, segment.object) {
                Ok(mapping) => {
                    segment.task = task;
                    segment.mapping = mapping;
                    self.enter_segment(fork_child, start, segment);
                }
                Err(error) => self.notice(format!("a child's mapping cannot be served: {error}")),
            }
        }
    }

    /// The child has its parent's private memory; what is not in the parent's page table is to be found and copied.
    fn inherit_private(&mut self, parent: ClientId, fork_child: ClientId) {
        // What is its own it has only when it has everything.
        self.look_through(parent, u32::MAX);
        let Some(client) = self.client(parent) else { return };
        let withheld = client.family.withheld.clone();
        let mut inherited = client.family.inherited.clone();
        // What the parent itself has not been given yet, its child gets from where the parent does.
        let mut pending = client.family.fork_pending.for_its_child();
        let from = client.family.from.filter(|_| !pending.is_over()).unwrap_or(parent);
        for (start, end) in withheld.ranges() {
            pending.cut(start, end);
        }
        let private = client
            .space
            .iter()
            .filter(|(_, segment)| segment.kind == SegmentKind::Private);
        for (start, segment) in private {
            inherited.push((*start, segment.end));
            let content = withheld.inherited((*start, segment.end));
            pending.extend(content.into_iter().map(|range| Part::within(*start, segment, range)));
        }
        if let Some(client) = self.client_mut(fork_child) {
            client.family.inherited = inherited.into_iter().flat_map(|range| withheld.mapped(range)).collect();
            client.family.withheld = withheld.for_the_child();
            client.family.fork_pending = pending;
            client.family.from = Some(from);
        }
        self.look_through(fork_child, LOOKED_AT);
        if self
            .client(fork_child)
            .is_some_and(|client| !client.family.fork_pending.is_over())
        {
            if let Some(client) = self.client_mut(from) {
                client.family.fork_children += 1;
            }
            self.fork_children.owed.push(fork_child);
        }
    }

    /// Looks at so many more pages for a child: those that are not in its parent's page table are to be given to it.
    pub(super) fn look_through(&mut self, fork_child: ClientId, most: u32) {
        let Some(client) = self.client_mut(fork_child) else {
            return;
        };
        let parts = client.family.fork_pending.take_unseen(most);
        self.look_at(fork_child, parts);
    }

    /// As [`look_through`](Self::look_through), at pages that may not stay what they were at the fork.
    pub(super) fn look_through_before(&mut self, fork_child: ClientId, object: ObjectId, first: u32, count: u32) {
        let Some(client) = self.client_mut(fork_child) else {
            return;
        };
        let parts = client.family.fork_pending.take_unseen_of(object, first, count);
        self.look_at(fork_child, parts);
    }

    fn look_at(&mut self, fork_child: ClientId, parts: Vec<Part>) {
        let pages = parts.into_iter().flat_map(Part::fork_copies);
        let found: Vec<ForkCopy> = pages.filter(|page| self.is_elsewhere(page.object, page.page)).collect();
        if let Some(client) = self.client_mut(fork_child) {
            for page in &found {
                client.family.fork_pending.put(page);
            }
        }
    }

    /// Whether a page has a content that a fork does not copy.
    fn is_elsewhere(&self, object: ObjectId, page: u32) -> bool {
        match self.place_at(object, page) {
            Some(Where::Slot(_) | Where::Leaving) => true,
            Some(Where::Nowhere) => self.has_content(object, page),
            Some(Where::Client | Where::Lent | Where::Blank) | None => false,
        }
    }

    /// Whether a page that is in no frame holds anything, or is being read.
    fn has_content(&self, object: ObjectId, page: u32) -> bool {
        let view = self.core.page(object, freehold_core::units::PageIndex::new(page));
        view.is_some_and(|view| matches!(view.state, PageState::Stored | PageState::Filling | PageState::Leaving))
    }

    /// Begins, or ceases, to wait for messages of one userfaultfd.
    pub(super) fn listen_to_userfault(&mut self, id: ClientId, which: Which, begin: bool) {
        let Some(client) = self.client(id) else { return };
        let (Some(poll), Some(userfault)) = (self.threads.poll(client.affinity.pager), client.userfault(which)) else {
            return;
        };
        let failed = if begin {
            listen(poll, id, userfault.as_fd(), which.into()).is_err()
        } else {
            epoll::delete(poll, userfault).is_err()
        };
        if failed {
            self.notice("a userfaultfd cannot be waited for");
        }
    }

    /// A fault in memory that is not managed: a child's that it inherited, or any of one that has not connected.
    /// Whether it was one.
    pub(super) fn serve_inherited(&mut self, fault: &FaultMessage) -> bool {
        let Some(client) = self.client_mut(fault.client) else {
            return true;
        };
        let family = &mut client.family;
        let unconnected = family.parent.is_some();
        if unconnected && !family.threads.contains(&fault.thread) && family.threads.len() < THREADS {
            family.threads.push(fault.thread);
        }
        let inside = |(start, end): &(u64, u64)| (*start..*end).contains(&fault.address);
        let its_own =
            fault.which == Which::Private && (family.inherited.iter().any(inside) || family.relinquished.has_all());
        let known = fault.which == Which::Shared && client.segment(fault.address).is_some();
        if known || !(its_own || unconnected) {
            return false;
        }
        if !fault.protected && !self.finds_room(fault.client) {
            self.defer(*fault);
            return true;
        }
        match self.map_zeros(fault) {
            Installed::Later => self.defer(*fault),
            _ if fault.protected => {}
            _ => self.count_filled(fault.client),
        }
        true
    }

    /// Lets a page of unmanaged memory be written, or fills it with zeros.
    fn map_zeros(&self, fault: &FaultMessage) -> Installed {
        let userfault = self
            .client(fault.client)
            .and_then(|client| client.userfault(fault.which));
        let (Some(userfault), Ok(address)) = (userfault, usize::try_from(fault.address)) else {
            return Installed::Gone;
        };
        if fault.protected {
            return unprotect(userfault, fault.address);
        }
        let result = userfault.copy_zeros(address, &self.backing.sources.zeros, 1, false);
        judge(userfault, fault.address, true, result)
    }

    /// A part of what was inherited is unmapped: what is mapped there next is not inherited.
    pub(super) fn cut_inherited(&mut self, id: ClientId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let Some(client) = self.client_mut(id) else {
            return Vec::new();
        };
        let (mut left, mut gone) = (Vec::new(), Vec::new());
        for (first, last) in std::mem::take(&mut client.family.inherited) {
            let (from, to) = (first.max(start), last.min(end));
            if from >= to {
                left.push((first, last));
                continue;
            }
            gone.push((from, to));
            left.extend([(first, from), (to, last)].into_iter().filter(|(from, to)| from < to));
        }
        client.family.inherited = left;
        gone
    }

    /// A client that ends takes no part any more.
    pub(super) fn leave_family(&mut self, client: &Client) {
        let id = client.id;
        if self.fork_children.owed.contains(&id) {
            self.fork_children.owed.retain(|other| *other != id);
            self.release_parent(client.family.from);
        }
    }
}
