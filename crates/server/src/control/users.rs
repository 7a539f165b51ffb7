//! One thread for each user that is connected.
//!
//! Taking a packet, or closing a socket with packets unread, can close descriptors that a client has sent; and closing
//! a descriptor can wait for as long as its owner likes (a socket that lingers, a file system of the user's own). So
//! the connections of a user have a thread of their own: whoever makes it wait keeps nobody waiting but himself. That
//! also shares the CPU fairly between users.

use crate::control::accounts::{Charge, Kind};
use crate::control::connection::{Connection, Left};
use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::control::reply;
use crate::control::session::Peer;
use freehold_linux::event::Wakeup;
use freehold_linux::service;
use freehold_linux::socket::PacketSocket;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::error;

/// Connections that may wait to be refused and closed.
const GRAVES: usize = 256;
/// Events taken at once.
const EVENTS: usize = 64;
/// Requests of one connection after which others are looked at; all of one packet are met.
const TURN: usize = 8;
/// The event of the mailbox; a connection's are twice its number, and one more for its process.
const MAILBOX: u64 = 0;

/// A connection that a user's thread is to serve.
pub(super) type Letter = (PacketSocket, Peer, Charge);

/// Where a user's thread finds new connections.
#[derive(Debug)]
struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    wakeup: Wakeup,
}

/// The threads of users.
#[derive(Debug)]
pub(super) struct Users {
    registry: Arc<Registry>,
    boxes: Mutex<BTreeMap<u32, Arc<Mailbox>>>,
    /// A thread is gone.
    gone: Condvar,
    graves: SyncSender<(PacketSocket, Refused)>,
}

/// One user's thread.
#[derive(Debug)]
struct UserLoop {
    users: Arc<Users>,
    user: u32,
    mailbox: Arc<Mailbox>,
    epoll: OwnedFd,
    connections: BTreeMap<u64, Watched>,
    /// Connections of which it is not known yet who speaks.
    lent: BTreeMap<u64, PacketSocket>,
    last: u64,
}

/// A connection, and whether more of it is heard.
#[derive(Debug)]
struct Watched {
    connection: Connection,
    heard: bool,
}

impl Users {
    /// Nobody yet.
    ///
    /// # Errors
    /// The system's refusal of a thread.
    pub(super) fn new(registry: Arc<Registry>) -> io::Result<Arc<Self>> {
        let (graves, dead) = sync_channel::<(PacketSocket, Refused)>(GRAVES);
        service::spawn("refusals", move || {
            while let Ok((socket, refused)) = dead.recv() {
                let _ = reply::send(&socket, &[(0, Err(refused))]);
            }
        })?;
        Ok(Arc::new(Self {
            registry,
            boxes: Mutex::new(BTreeMap::new()),
            gone: Condvar::new(),
            graves,
        }))
    }

    fn boxes(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Mailbox>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection to its user's thread, or refuses it.
    pub(super) fn give(self: &Arc<Self>, socket: PacketSocket, peer: Peer) {
        let user = peer.user;
        let charge = match self.registry.take(user, Kind::Connections, 1) {
            Ok(charge) => charge,
            Err(refused) => return self.refuse(socket, refused),
        };
        let mut boxes = self.boxes();
        let found = boxes.get(&user).map(Arc::clone);
        let mailbox = match found.map_or_else(|| self.begin(user), Ok) {
            Ok(mailbox) => mailbox,
            Err(error) => {
                drop(boxes);
                error!(user, %error, "no thread for a user");
                return;
            }
        };
        mailbox.put((socket, peer, charge));
        boxes.insert(user, mailbox);
    }

    fn begin(self: &Arc<Self>, user: u32) -> io::Result<Arc<Mailbox>> {
        let wakeup = Wakeup::new()?;
        let mailbox = Arc::new(Mailbox {
            letters: Mutex::new(Vec::new()),
            wakeup,
        });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(MAILBOX);
        epoll::add(&epoll, &mailbox.wakeup, data, epoll::EventFlags::IN)?;
        let user_loop = UserLoop {
            users: Arc::clone(self),
            user,
            mailbox: Arc::clone(&mailbox),
            epoll,
            connections: BTreeMap::new(),
            lent: BTreeMap::new(),
            last: 0,
        };
        service::spawn(&format!("user {user}"), move || user_loop.run())?;
        Ok(mailbox)
    }

    /// Refuses a connection, without waiting for it.
    pub(super) fn refuse(&self, socket: PacketSocket, refused: Refused) {
        if let Some(unsaid) = self.registry.rate_limited_log.allows() {
            tracing::warn!(text = %refused.text, unsaid, "connection refused");
        }
        let _ = self.graves.try_send((socket, refused));
    }

    /// Wakes every thread, so that it sees that the server ends.
    pub(super) fn wake(&self) {
        for mailbox in self.boxes().values() {
            mailbox.wakeup.signal();
        }
    }

    /// Waits until no thread is left, and no longer than that; whose are left.
    pub(super) fn wait_until_gone(&self, patience: Duration) -> BTreeSet<u32> {
        let some = |boxes: &mut BTreeMap<u32, Arc<Mailbox>>| !boxes.is_empty();
        let waited = self.gone.wait_timeout_while(self.boxes(), patience, some);
        let (boxes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        boxes.keys().copied().collect()
    }

    /// Forgets a thread without connections; false where it has just got one.
    fn retire(&self, user: u32, mailbox: &Mailbox) -> bool {
        let mut boxes = self.boxes();
        if !mailbox.letters().is_empty() {
            return false;
        }
        boxes.remove(&user);
        self.gone.notify_all();
        true
    }
}

impl Mailbox {
    fn letters(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, letter: Letter) {
        self.letters().push(letter);
        self.wakeup.signal();
    }

    /// After a wakeup; what is put here later wakes the thread again.
    fn take(&self) -> Vec<Letter> {
        self.wakeup.clear();
        std::mem::take(&mut *self.letters())
    }
}

impl UserLoop {
    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            if self.users.registry.is_ending() {
                self.say_goodbye();
            }
            if self.connections.is_empty() && self.lent.is_empty() && self.users.retire(self.user, &self.mailbox) {
                return;
            }
            events.clear();
            let timeout = self.timeout();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    // Nothing is known to cause this; going on would spin.
                    error!(user = self.user, %errno, "events cannot be waited for: the user's connections end");
                    self.say_goodbye();
                }
            }
            for event in &events {
                match event.data.u64() {
                    MAILBOX => self.take_letters(),
                    data if self.lent.contains_key(&(data / 2)) => self.on_first_word(data / 2),
                    data => self.on_event(data, event.flags),
                }
            }
            self.watch_lent();
            self.on_time();
            self.users.registry.log_notices();
        }
    }

    fn take_letters(&mut self) {
        for letter in self.mailbox.take() {
            self.add(letter);
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let connections = self.connections.values().map(|watched| &watched.connection);
        let next = connections.filter_map(Connection::next).min()?;
        let wait = next.saturating_duration_since(Instant::now());
        // Rounded up, so that the time has come when it is looked at.
        let wait = wait + Duration::from_micros(1);
        Timespec::try_from(wait).ok()
    }

    fn add(&mut self, letter: Letter) {
        self.last += 1;
        let number = self.last;
        let registry = Arc::clone(&self.users.registry);
        let connection = Connection::new(letter, &registry, Instant::now());
        let watch = |data, fd: rustix::fd::BorrowedFd<'_>| {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        };
        // The process is watched beside the socket: a child that inherited the socket must not keep it open.
        let watched = watch(2 * number, connection.socket.as_fd())
            .and_then(|()| watch(2 * number + 1, connection.peer().pidfd.as_fd()));
        match watched {
            Ok(()) => {
                let watched = Watched {
                    connection,
                    heard: true,
                };
                self.connections.insert(number, watched);
            }
            Err(errno) => {
                error!(user = self.user, %errno, "a connection cannot be watched");
                connection.close(&registry);
            }
        }
    }

    /// Watches connections that this thread has made for others.
    fn watch_lent(&mut self) {
        for socket in self.users.registry.lent.take() {
            self.last += 1;
            let data = epoll::EventData::new_u64(2 * self.last);
            match epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN) {
                Ok(()) => {
                    self.lent.insert(self.last, socket);
                }
                Err(errno) => {
                    error!(user = self.user, %errno, "a connection for a child cannot be watched");
                    self.users.registry.lent.end_one();
                }
            }
        }
    }

    /// Somebody speaks, or goes, on a connection that was made for another: whose it is.
    fn on_first_word(&mut self, number: u64) {
        let Some(socket) = self.lent.get(&number) else { return };
        let sender = match socket.sender() {
            Ok(None) => return,
            Ok(sender) => sender,
            Err(_) => None,
        };
        let Some(socket) = self.lent.remove(&number) else {
            return;
        };
        let _ = epoll::delete(&self.epoll, &socket);
        self.users.registry.lent.end_one();
        if let Some((peer, pidfd)) = sender
            && socket.set_names_sender(false).is_ok()
        {
            let rights = self.users.registry.rights(peer.uid);
            let peer = Peer {
                pid: peer.pid,
                user: peer.uid,
                pidfd,
                rights,
            };
            self.users.give(socket, peer);
        }
    }

    fn on_event(&mut self, data: u64, flags: epoll::EventFlags) {
        let number = data / 2;
        let registry = Arc::clone(&self.users.registry);
        let Some(Watched { connection, .. }) = self.connections.get_mut(&number) else {
            return;
        };
        let left = if data % 2 == 1 {
            Left::Closed
        } else if flags.contains(epoll::EventFlags::IN) && connection.reads() {
            connection.on_readable(&registry, TURN)
        } else if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            Left::Closed
        } else {
            Left::Open
        };
        self.settle(number, left);
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        let due = self.connections.iter();
        let due: Vec<u64> = due
            .filter(|(_, watched)| watched.connection.next().is_some_and(|next| next <= now))
            .map(|(number, _)| *number)
            .collect();
        let registry = Arc::clone(&self.users.registry);
        for number in due {
            if let Some(Watched { connection, .. }) = self.connections.get_mut(&number) {
                let left = connection.on_time(&registry, now);
                self.settle(number, left);
            }
        }
    }

    /// Closes a connection, or says what is to be heard of it.
    fn settle(&mut self, number: u64, left: Left) {
        if left == Left::Open && self.hear(number) {
            return;
        }
        if let Some(Watched { connection, .. }) = self.connections.remove(&number) {
            let _ = epoll::delete(&self.epoll, &connection.socket);
            let _ = epoll::delete(&self.epoll, &connection.peer().pidfd);
            connection.close(&self.users.registry);
        }
    }

    /// Has a connection heard as long as it reads; false where that cannot be.
    fn hear(&mut self, number: u64) -> bool {
        let Some(watched) = self.connections.get_mut(&number) else {
            return true;
        };
        let reads = watched.connection.reads();
        if reads == watched.heard {
            return true;
        }
        watched.heard = reads;
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, reads);
        let data = epoll::EventData::new_u64(2 * number);
        epoll::modify(&self.epoll, &watched.connection.socket, data, flags).is_ok()
    }

    fn say_goodbye(&mut self) {
        for Watched { connection, .. } in self.connections.values() {
            connection.say_goodbye();
        }
        for (_, Watched { connection, .. }) in std::mem::take(&mut self.connections) {
            connection.close(&self.users.registry);
        }
        for _ in std::mem::take(&mut self.lent) {
            self.users.registry.lent.end_one();
        }
    }
}
