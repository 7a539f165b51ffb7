//! Forked children until they connect, and those that never do.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::clients::client_pool::ClientChannels;
use crate::engine::faults::fault_completion::page_range;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::forks::Family;
use crate::engine::keys::ClientId;
use crate::error::EngineError;
use freehold_linux::process::is_thread_of;
use freehold_linux::userfault::Userfault;
use rustix::fd::OwnedFd;

/// Children that have not connected are looked for after so many nanoseconds, then after twice as many.
pub(in crate::engine) const FIRST_LOOK: u64 = 50_000_000;
const LONGEST_LOOK: u64 = 5_000_000_000;
/// Those that nobody can serve, after so many where one has had an error.
const NEXT_ERROR: u64 = 1_000_000;

impl Engine {
    /// The child of a fork has connected: gives it the userfaultfds that the kernel made for it, shared then private.
    /// `parent_pid` is the process id of its parent, as the server sees it; `own_pid` its own, as it sees it itself.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`]; [`EngineError::WouldWait`] until the kernel has told of the fork.
    pub fn forked(&mut self, client: ClientId, parent_pid: u32, own_pid: u32) -> Result<Vec<OwnedFd>, EngineError> {
        self.step(|engine| {
            let pid = engine.client(client).ok_or(EngineError::NoSuchClient)?.process.pid;
            let is_it = |row: &Client| {
                let parent = row.family.parent.and_then(|parent| engine.client(parent));
                let parent = parent.filter(|parent| !parent.family.gone);
                // The parent may be one that never connected itself, or have gone.
                let related = parent.is_none_or(|parent| parent.process.pid == parent_pid || parent.process.pid == 0);
                let is_own = |thread: &u32| {
                    if own_pid == pid {
                        belongs(*thread, pid)
                    } else {
                        *thread == own_pid
                    }
                };
                row.family.parent.is_some() && related && row.family.threads.iter().any(is_own)
            };
            let mut found = engine
                .clients
                .iter()
                .filter(|(_, row)| is_it(row))
                .map(|(_, row)| row.id);
            // In namespaces of their own two children of a parent may be called alike.
            let (unconnected, other) = (found.next(), found.next());
            drop(found);
            let unconnected = unconnected.filter(|_| other.is_none()).ok_or(EngineError::WouldWait)?;
            let ready = engine.client(unconnected).is_some_and(|row| {
                row.userfaults.shared.is_some() && row.userfaults.private.is_some() && row.family.fork_pending.is_over()
            });
            if !ready {
                return Err(EngineError::WouldWait);
            }
            let row = engine.client(unconnected).ok_or(EngineError::WouldWait)?;
            let mut descriptors = Vec::new();
            for userfault in [row.userfaults.shared.as_ref(), row.userfaults.private.as_ref()]
                .into_iter()
                .flatten()
            {
                let duplicate = rustix::io::fcntl_dupfd_cloexec(userfault, 0);
                descriptors.push(duplicate.map_err(EngineError::system("a userfaultfd could not be duplicated"))?);
            }
            engine.adopt_unconnected(client, unconnected);
            Ok(descriptors)
        })
    }

    /// Everything of a child that had not connected belongs to the client that it is.
    fn adopt_unconnected(&mut self, id: ClientId, unconnected: ClientId) {
        for which in [Which::Shared, Which::Private] {
            self.listen_to_userfault(unconnected, which, false);
        }
        let Some(mut old) = self.clients.remove(unconnected.index(), unconnected.generation()) else {
            return;
        };
        // Those that wait until children of its own have everything.
        for fault in old.family.held.iter_mut() {
            fault.client = id;
        }
        self.rename_unconnected(id, unconnected, &old);
        let renamed = |fault: FaultMessage| FaultMessage { client: id, ..fault };
        self.step.again.extend(
            old.waiting
                .parked
                .into_iter()
                .chain(old.waiting.deferred.take_all())
                .map(renamed),
        );
        let Some(client) = self.client_mut(id) else { return };
        client.userfaults.shared = old.userfaults.shared;
        client.userfaults.private = old.userfaults.private;
        client.space = old.space;
        client.tasks = old.tasks;
        client.urgency = client.urgency.max(old.urgency);
        client.family = Family {
            parent: None,
            ..old.family
        };
        for which in [Which::Shared, Which::Private] {
            self.listen_to_userfault(id, which, true);
        }
        let (outbox, slots) = (old.outbox, old.slots);
        self.give_channels_back(ClientChannels { outbox, slots });
    }

    /// What names a child that had not connected names the client that it is.
    fn rename_unconnected(&mut self, id: ClientId, unconnected: ClientId, old: &Client) {
        for (start, segment) in &old.space {
            if let Some(object) = self.object_mut(segment.object) {
                let mut its = object
                    .segments
                    .iter_mut()
                    .filter(|at| at.client == unconnected && at.start == *start);
                if let Some(at) = its.next() {
                    at.client = id;
                }
            }
        }
        for (_, task) in self.tasks.iter_mut().filter(|(_, task)| task.client == unconnected) {
            task.client = id;
            let pending = task
                .wait_slots
                .iter_mut()
                .filter_map(|wait_slot| wait_slot.pending.as_mut());
            for fault in pending.map(|pending| &mut pending.fault).chain(task.queued.iter_mut()) {
                fault.client = id;
            }
        }
        // Who is given pages of its may be a child of a child.
        for (_, row) in self.clients.iter_mut() {
            let names = [&mut row.family.parent, &mut row.family.from];
            for name in names.into_iter().flatten().filter(|name| **name == unconnected) {
                *name = id;
            }
        }
    }

    /// There is a child that may never connect. Where others are looked for sooner, so is this one: whoever forks all
    /// the time must not put that off for ever.
    pub(in crate::engine) fn expect_unconnected(&mut self) {
        let at = self.step.now.get() + FIRST_LOOK;
        let at = self.unconnected_due().map_or(at, |due| due.min(at));
        self.fork_children.look = (at, FIRST_LOOK);
    }

    /// Looks, after a while, for children that ended without ever having connected.
    fn look_for_unconnected(&mut self, after: u64) {
        self.fork_children.look = (self.step.now.get() + after, after);
    }

    /// When to look for them next, if there are any.
    pub(in crate::engine) fn unconnected_due(&self) -> Option<u64> {
        let (at, _) = self.fork_children.look;
        (at > 0).then_some(at)
    }

    /// Drops children that have ended, or begun another program, without ever having connected.
    pub(in crate::engine) fn end_unconnected(&mut self) {
        let (at, after) = self.fork_children.look;
        if at == 0 || at > self.step.now.get() {
            return;
        }
        let given = self.look_at_forsaken();
        let living = self.end_unconnected_now();
        if given > 0 {
            // Whoever lives on touches the next page.
            self.look_for_unconnected(NEXT_ERROR);
        } else if living > 0 || !self.fork_children.forsaken.is_empty() {
            self.look_for_unconnected((after * 2).min(LONGEST_LOOK));
        } else {
            self.fork_children.look = (0, 0);
        }
    }

    /// The same at once, because there is no room for another client; how many live on without having connected.
    pub(in crate::engine) fn end_unconnected_now(&mut self) -> usize {
        let unconnected = self.clients.iter().filter(|(_, client)| client.family.parent.is_some());
        let (mut dead, mut living) = (Vec::new(), 0);
        for (_, client) in unconnected {
            let userfaults = [
                client.userfaults.shared.as_deref(),
                client.userfaults.private.as_deref(),
            ];
            if userfaults.into_iter().flatten().any(is_dead) {
                dead.push(client.id);
            } else {
                living += 1;
            }
        }
        for id in dead {
            self.dismiss(id);
        }
        living
    }
}

/// Whether the address space of a userfaultfd is gone.
pub(in crate::engine) fn is_dead(userfault: &Userfault) -> bool {
    // Nothing is ever mapped there; only an address space that is gone says ESRCH.
    let nowhere = page_range(0x1000);
    nowhere.is_some_and(|range| userfault.write_protect(range, false) == Err(freehold_linux::Errno::SRCH))
}

/// Whether a thread is one of a process.
fn belongs(thread: u32, pid: u32) -> bool {
    thread == pid || is_thread_of(pid, thread)
}
