//! What all sessions share: the engine, the rights of users, what each of them has, and who holds which reservation.

use crate::control::accounts::{Accounts, Charge, Kind, Open};
use crate::control::lent::Lent;
use crate::control::refused::Refused;
use crate::control::strangers::Strangers;
use crate::control::tickets::{Held, Ticket};
use crate::devices::Devices;
use crate::document::Snapshots;
use crate::engine::{Membership, Notice};
use crate::log::RateLimitedLog;
use crate::quota::{Quotas, Rights};
use crate::share::Share;
use crate::shared::Shared;
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use freehold_protocol::message::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bounds on what can be driven from outside.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// The part of them that all others than root and the server's own user may have together, in percent.
    pub user_share: u8,
    /// Connections of one such user.
    pub user_connections: u64,
    /// Tasks, opened objects, and mappings of one such user.
    pub user_tasks: u64,
    /// See above.
    pub user_objects: u64,
    /// See above.
    pub user_mappings: u64,
    /// Pages of all objects that one such user has opened.
    pub user_pages: u64,
    /// Requests a second on one connection, and at once.
    pub requests_per_second: u32,
    /// See above.
    pub requests_at_once: u32,
    /// How long a connection may be silent before it says who it is.
    pub greeting: Duration,
    /// How long an admission, a lock or a fork may take.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_280,
            user_share: 75,
            user_connections: 512,
            user_tasks: 256,
            user_objects: 2_048,
            user_mappings: 8_192,
            user_pages: u64::MAX,
            requests_per_second: 10_000,
            requests_at_once: 20_000,
            greeting: Duration::from_secs(5),
            patience: Duration::from_secs(10),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    /// The processes of clients.
    processes: BTreeSet<u32>,
    admissions: VecDeque<u64>,
    last_admission: u64,
}

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The engine.
    pub(crate) shared: Arc<Shared>,
    /// Bounds.
    pub(crate) limits: Limits,
    /// Snapshots for documents.
    pub(crate) snapshots: Snapshots,
    /// Says at most so much about what clients cause.
    pub(crate) rate_limited_log: RateLimitedLog,
    /// Connections for children that are about to be forked.
    pub(super) lent: Lent,
    /// Programs that clients have begun and that run unmanaged.
    pub(crate) strangers: Strangers,
    /// Devices, if any are served.
    pub(crate) devices: Option<Devices>,
    quotas: Quotas,
    accounts: Arc<Accounts>,
    /// The process that this server is for, if it is for one only.
    owner: Option<u32>,
    /// Processes of its that were clients, and may be again: they are about to become another program.
    strays: Mutex<Vec<OwnedFd>>,
    ending: AtomicBool,
    state: PiMutex<State>,
}

/// Admissions that may wait at a time.
const QUEUE: usize = 64;
/// Strays after which those that have ended are forgotten.
const MANY_STRAYS: usize = 64;

impl Registry {
    /// A registry without users.
    pub(crate) fn new(
        shared: Arc<Shared>,
        quotas: Quotas,
        limits: Limits,
        snapshots: Snapshots,
        owner: Option<u32>,
        devices: Option<Devices>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            limits,
            snapshots,
            rate_limited_log: RateLimitedLog::new(Instant::now()),
            lent: Lent::default(),
            strangers: Strangers::default(),
            devices,
            quotas,
            accounts: Accounts::new(),
            owner,
            strays: Mutex::new(Vec::new()),
            ending: AtomicBool::new(false),
            state: PiMutex::new(State::default()),
        })
    }

    /// What `user` may do.
    pub(crate) fn rights(&self, user: u32) -> Rights {
        self.quotas.rights(user)
    }

    /// As who a process of `user` counts, in a user name space of `owner`.
    pub(crate) fn counted_as(&self, user: u32, owner: Option<u32>) -> u32 {
        self.quotas.counted_as(user, owner)
    }

    /// Logs what the engine has noted. Looked at whenever a client was heard or went, never on a tick of its own.
    pub(crate) fn log_notices(&self) {
        let notices = self.shared.engine().take_notices();
        for Notice { text: notice, ending } in notices {
            match self.rate_limited_log.allows() {
                Some(unsaid) if ending => tracing::error!(?notice, unsaid, "engine"),
                Some(unsaid) => tracing::warn!(?notice, unsaid, "engine"),
                None => {}
            }
        }
    }

    /// From now on nothing begins.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether the server ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn state(&self) -> PiGuard<'_, State> {
        self.state.lock()
    }

    /// Charges `user` for `amount` more, if its share allows it.
    pub(crate) fn take(&self, user: u32, kind: Kind, amount: u64) -> Result<Charge, Refused> {
        let rights = self.rights(user);
        if kind == Kind::Frames {
            self.forget_ended();
        }
        let mut accounts = self.accounts.open();
        let (limit, what) = match kind {
            Kind::Connections => (self.connections_of(&accounts, user)?, "connections of one user"),
            Kind::Tasks => (self.limits.user_tasks, "tasks of one user"),
            Kind::Objects => (self.limits.user_objects, "opened objects of one user"),
            Kind::Mappings => (self.limits.user_mappings, "mappings of one user"),
            Kind::Pages => (self.limits.user_pages, "pages of opened objects of one user"),
            Kind::Frames => (u64::from(rights.frames.get()), "frames reserved by this user"),
        };
        let limit = if rights.privileged { u64::MAX } else { limit };
        if kind == Kind::Frames && !rights.privileged {
            self.check_total(&accounts, amount)?;
        }
        let has = accounts.has(user, kind);
        let charged = accounts.charge(user, kind, amount, limit);
        charged.ok_or_else(|| match kind {
            Kind::Frames => Refused::new(
                Refusal::Exhausted,
                format!(
                    "{amount} frames wanted, but user {user} may reserve {limit} and has reserved {has}: ask who \
                     started the server for a larger quota (serve --allow {user}=SIZE)"
                ),
            ),
            _ => Refused::limit(what, limit),
        })
    }

    /// Frames that all users but root and the server's own may yet reserve together.
    fn total_left(&self, accounts: &Open<'_>) -> u64 {
        let others = accounts
            .each(Kind::Frames)
            .filter(|(user, _)| !self.rights(*user).privileged);
        let reserved: u64 = others.map(|(_, frames)| frames).sum();
        u64::from(self.quotas.total().get()).saturating_sub(reserved)
    }

    fn check_total(&self, accounts: &Open<'_>, amount: u64) -> Result<(), Refused> {
        let left = self.total_left(accounts);
        if amount <= left {
            return Ok(());
        }
        let total = self.quotas.total().get();
        Err(Refused::new(
            Refusal::Exhausted,
            format!(
                "{amount} frames wanted, but all users together may reserve {total}, and {left} of these are left: \
                 others end, or ask who started the server for a larger total (serve --quota-total SIZE)"
            ),
        ))
    }

    /// Connections that one user may have beside those of others, where there is room for one more at all.
    fn connections_of(&self, accounts: &Open<'_>, user: u32) -> Result<u64, Refused> {
        let most = self.limits.connections as u64;
        let all: u64 = accounts.each(Kind::Connections).map(|(_, count)| count).sum();
        if all >= most {
            return Err(Refused::limit("connections in all", most));
        }
        let others = accounts.each(Kind::Connections);
        let others = others.filter(|(other, _)| *other != user && !self.rights(*other).privileged);
        let share = Share::of(most, self.limits.user_share);
        Ok(share
            .most(others.map(|(_, count)| count))
            .min(self.limits.user_connections))
    }

    /// Charges `user` for all the frames that it may still reserve.
    pub(crate) fn take_rest(&self, user: u32) -> Option<Charge> {
        self.forget_ended();
        let rights = self.rights(user);
        let mut accounts = self.accounts.open();
        let rest = if rights.privileged {
            u64::from(u32::MAX)
        } else {
            let own = u64::from(rights.frames.get()).saturating_sub(accounts.has(user, Kind::Frames));
            own.min(self.total_left(&accounts))
        };
        accounts.charge(user, Kind::Frames, rest, u64::MAX)
    }

    /// Notes a new reservation or pinned page pool, held once, and what its frames are charged to.
    pub(crate) fn note(&self, id: Membership, ticket: Ticket, charge: Charge) {
        let mut state = self.state();
        state.held.push(Held {
            id,
            ticket,
            charge,
            holders: 1,
        });
    }

    /// The reservation or pinned page pool of a ticket, held once more, and the frames that it promises.
    pub(crate) fn join(&self, ticket: Ticket) -> Option<(Membership, u32)> {
        let mut state = self.state();
        // All are compared, so that the time says nothing about any.
        let mut found = None;
        for (row, held) in state.held.iter().enumerate() {
            if held.holders > 0 && held.ticket.is(ticket) {
                found = Some(row);
            }
        }
        let held = state.held.get_mut(found?)?;
        held.holders += 1;
        let promised = match held.id {
            Membership::Reservation(_) => u32::try_from(held.charge.amount()).unwrap_or(u32::MAX),
            Membership::Pinned(_) => 0,
        };
        Some((held.id, promised))
    }

    /// Whether what a process holds stays when it is gone: for what runs under the server that it has started.
    pub(crate) fn is_owner(&self, pid: u32) -> bool {
        self.owner == Some(pid)
    }

    /// The process of a client of the owner's server has closed its connection: it ends, or becomes another program.
    pub(crate) fn note_stray(&self, process: &OwnedFd) {
        if self.owner.is_none() {
            return;
        }
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        if strays.len() >= MANY_STRAYS {
            strays.retain(|process| !has_ended(process));
        }
        // Without a descriptor for it the server may end too early, and says so to the program.
        strays.extend(process.try_clone());
    }

    /// Whether any process has memory here, or may have again. Of the owner's server.
    pub(crate) fn has_clients(&self) -> bool {
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        strays.retain(|process| !has_ended(process));
        !strays.is_empty() || self.shared.engine().has_clients()
    }

    /// One holder less; the reservation or pinned page pool ends with the last, and with the last task in it.
    pub(crate) fn let_go(&self, id: Membership) {
        let is_last = {
            let mut state = self.state();
            let Some(held) = state.held.iter_mut().find(|held| held.id == id) else {
                return;
            };
            held.holders = held.holders.saturating_sub(1);
            held.holders == 0
        };
        if is_last {
            match id {
                Membership::Reservation(id) => self.shared.engine().release(id),
                Membership::Pinned(id) => self.shared.engine().release_pool(id),
            }
            self.forget_if_ended(id);
        }
    }

    /// Counts frames no more that nobody holds and no task uses: as long as a task is in a reservation its frames are
    /// its maker's, though he has let go of it.
    fn forget_ended(&self) {
        let unheld: Vec<Membership> = {
            let state = self.state();
            let unheld = state.held.iter().filter(|held| held.holders == 0);
            unheld.map(|held| held.id).collect()
        };
        if !unheld.is_empty() {
            self.shared.tear_down();
        }
        for id in unheld {
            self.forget_if_ended(id);
        }
    }

    fn forget_if_ended(&self, id: Membership) {
        if self.shared.engine().has_membership(id) {
            return;
        }
        let ended = {
            let mut state = self.state();
            let row = state.held.iter().position(|held| held.id == id && held.holders == 0);
            row.map(|row| state.held.swap_remove(row))
        };
        drop(ended);
    }

    /// Who made a reservation or pinned page pool, where it is still there.
    pub(crate) fn maker(&self, id: Membership) -> Option<u32> {
        let state = self.state();
        state
            .held
            .iter()
            .find(|held| held.id == id)
            .map(|held| held.charge.user())
    }

    /// Notes the process of a client.
    pub(crate) fn enter(&self, pid: u32) {
        self.state().processes.insert(pid);
    }

    /// The process of a client is gone.
    pub(crate) fn leave(&self, pid: u32) {
        self.state().processes.remove(&pid);
    }

    /// The processes of clients.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.state().processes.iter().copied().collect()
    }

    /// Takes a place in the queue of admissions.
    pub(crate) fn queue(&self) -> Result<u64, Refused> {
        let mut state = self.state();
        if state.admissions.len() >= QUEUE {
            return Err(Refused::limit("reservations that wait for frames", QUEUE as u64));
        }
        state.last_admission += 1;
        let place = state.last_admission;
        state.admissions.push_back(place);
        Ok(place)
    }

    /// Whether a place is the first.
    pub(crate) fn is_first(&self, place: u64) -> bool {
        self.state().admissions.front() == Some(&place)
    }

    /// Leaves the queue of admissions. Where the first leaves without its frames, they are no longer reclaimed.
    pub(crate) fn leave_queue(&self, place: u64, admitted: bool) {
        let was_first = {
            let mut state = self.state();
            let was_first = state.admissions.front() == Some(&place);
            state.admissions.retain(|other| *other != place);
            was_first
        };
        if was_first && !admitted {
            self.shared.engine().stop_reclaim();
        }
    }
}

/// Whether the process of a pidfd has ended.
fn has_ended(process: &OwnedFd) -> bool {
    let now = Timespec::try_from(Duration::ZERO).ok();
    rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], now.as_ref()).is_ok_and(|count| count > 0)
}
