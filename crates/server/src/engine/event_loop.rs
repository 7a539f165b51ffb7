//! What pager threads do: one message, answer or end at a time, the most urgent first.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::faults::Which;
use crate::engine::keys::ClientId;
use crate::engine::orders::{About, Outstanding};
use crate::error::EngineError;
use freehold_linux::userfault::Message;
use freehold_protocol::channel::{Outcome, Shortage};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// What has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Shared,
    Private,
    /// The agent has answered orders.
    Replies,
    /// The process has ended.
    Process,
    /// Transfers have ended.
    Completions,
}

/// One ready event of a pager thread: what is ready, of which client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyEvent {
    client: ClientId,
    source: Source,
}

impl ReadyEvent {
    /// Everything fits into the word that epoll keeps: 24 bits of the row, 32 of its generation, 8 of the source.
    fn data(self) -> EventData {
        let row = u64::try_from(self.client.index()).unwrap_or(0) & 0xff_ffff;
        let source = match self.source {
            Source::Shared => 0_u64,
            Source::Private => 1,
            Source::Replies => 2,
            Source::Process => 3,
            Source::Completions => 4,
        };
        EventData::new_u64(u64::from(self.client.generation()) << 32 | row << 8 | source)
    }

    /// What epoll returned.
    pub(crate) fn of(event: &epoll::Event) -> Option<Self> {
        let [source, low, middle, high, a, b, c, d] = { event.data }.u64().to_le_bytes();
        let source = match source {
            0 => Source::Shared,
            1 => Source::Private,
            2 => Source::Replies,
            3 => Source::Process,
            4 => Source::Completions,
            _ => return None,
        };
        let client = ClientId::new(
            u32::from_le_bytes([low, middle, high, 0]),
            u32::from_le_bytes([a, b, c, d]),
        );
        Some(Self { client, source })
    }
}

/// What is to be waited for, for a client.
pub(super) fn sources(client: &Client) -> impl Iterator<Item = (BorrowedFd<'_>, Source)> {
    let userfaults = Engine::descriptors(client).map(|(fd, which)| (fd, which.into()));
    userfaults
        .chain([(client.outbox.event().as_fd(), Source::Replies)])
        .chain(
            client
                .process
                .pidfd
                .as_ref()
                .map(|pidfd| (pidfd.as_fd(), Source::Process)),
        )
}

impl From<Which> for Source {
    fn from(which: Which) -> Self {
        match which {
            Which::Shared => Self::Shared,
            Which::Private => Self::Private,
        }
    }
}

/// Has a pager thread wait for a source of a client.
pub(super) fn listen(poll: &OwnedFd, client: ClientId, fd: BorrowedFd<'_>, source: Source) -> Result<(), Errno> {
    let flags = match source {
        // Never read: each write is an edge.
        Source::Replies => EventFlags::IN | EventFlags::ET,
        _ => EventFlags::IN,
    };
    epoll::add(poll, fd, ReadyEvent { client, source }.data(), flags)
}

impl Engine {
    pub(super) fn listen_to_completions(&self) -> Result<(), EngineError> {
        for pager in 0..self.threads.cpus().len() {
            let (Some(poll), Some(wakeup)) = (self.threads.poll(pager), self.io.completions.wakeup(pager)) else {
                continue;
            };
            let event = ReadyEvent {
                client: ClientId::new(0, 0),
                source: Source::Completions,
            };
            epoll::add(poll, wakeup, event.data(), EventFlags::IN | EventFlags::ET)
                .map_err(EngineError::system("ends of transfers could not be waited for"))?;
        }
        Ok(())
    }

    /// Has the client's pager thread wait for everything that it may tell.
    pub(super) fn listen_to(&mut self, id: ClientId) -> Result<(), EngineError> {
        let Some(client) = self.client(id) else {
            return Err(EngineError::NoSuchClient);
        };
        let Some(poll) = self.threads.poll(client.affinity.pager) else {
            return Err(EngineError::NoSuchClient);
        };
        for (fd, source) in sources(client) {
            listen(poll, id, fd, source).map_err(EngineError::system("a client could not be waited for"))?;
        }
        Ok(())
    }

    /// Has nobody wait for a client any more.
    pub(super) fn listen_no_more(&self, client: &Client) {
        if let Some(poll) = self.threads.poll(client.affinity.pager) {
            for (fd, _) in sources(client) {
                // A descriptor that is not there need not be taken out.
                let _ = epoll::delete(poll, fd);
            }
        }
    }

    /// What a pager thread waits on.
    pub(crate) fn poll(&self, pager: usize) -> Option<OwnedFd> {
        self.threads.poll(pager)?.try_clone().ok()
    }

    /// The real-time priority that pager threads are to have.
    pub(crate) fn priority(&self) -> u32 {
        self.threads.priority()
    }

    /// Whether a pager thread has its priority.
    pub(crate) fn note_pager(&mut self, pager: usize, prepared: Result<u32, String>) {
        if let Err(why) = &prepared {
            self.notice(format!("pager thread {pager} has no real-time priority: {why}"));
        }
        self.threads.note_priority(pager, prepared);
    }

    /// The CPUs of the pager threads.
    pub(crate) fn cpus(&self) -> &[usize] {
        self.threads.cpus()
    }

    /// One dispatch of a pager thread: the most urgent of what is ready. Everything that is told only once (ends,
    /// answers) is taken in now; of messages, one, and the others stay ready. Returns when to be called again at the
    /// latest, in nanoseconds of the monotonic clock.
    pub(crate) fn dispatch(&mut self, pager: usize, ready: &[ReadyEvent]) -> Option<u64> {
        self.begin();
        self.step.pager = pager;
        self.step.in_dispatch = true;
        self.threads.count_dispatch(pager);
        self.collect();
        for event in ready.iter().filter(|event| event.source == Source::Replies) {
            self.replies(event.client);
        }
        let messages = ready
            .iter()
            .filter(|event| matches!(event.source, Source::Shared | Source::Private | Source::Process));
        let urgency = |event: &&ReadyEvent| self.client(event.client).map_or(0, |client| client.urgency);
        match messages.rev().max_by_key(urgency).copied() {
            Some(event) => self.handle(event),
            None => {
                self.look_again();
                self.bring_deferred_prefetch(pager);
            }
        }
        self.settle();
        let due = self.carry_out_duties(pager);
        self.end_step();
        self.step.pager = 0;
        self.step.in_dispatch = false;
        self.threads.note_due(pager, due);
        due
    }

    fn handle(&mut self, event: ReadyEvent) {
        match event.source {
            Source::Shared => self.read_one(event.client, Which::Shared),
            Source::Private => self.read_one(event.client, Which::Private),
            Source::Process => self.dismiss(event.client),
            Source::Replies | Source::Completions => {}
        }
    }

    fn read_one(&mut self, id: ClientId, which: Which) {
        self.hold_alone(id);
        let mut message = None;
        let Some(userfault) = self.client(id).and_then(|client| client.userfault(which)) else {
            return;
        };
        let read = userfault.read_messages(1, |read| message = Some(read));
        match (read, message) {
            (_, Some(message)) => {
                let event = !matches!(message, Message::Fault { .. });
                if !event {
                    self.look_first(id);
                }
                self.message(id, which, message);
                if event {
                    self.make_due(id);
                    self.look_again();
                }
            }
            // It is always ready then, so that this thread would do nothing else.
            (Ok(_), None) if userfault.waits() => self.expel(id, "reads of its userfaultfd wait, by its own doing"),
            // It has read the message itself.
            (Ok(_), None) => {}
            // No descriptor is left for the child of a fork, of which the kernel tells again until it is taken: this
            // thread would do nothing else until the client has ended.
            (Err(Errno::MFILE | Errno::NFILE), None) => {
                self.listen_to_userfault(id, which, false);
                self.no_room_to_live(id, Shortage::Children);
            }
            (Err(errno), None) => self.expel(id, &format!("its userfaultfd cannot be read: {errno}")),
        }
    }

    /// Takes in what an agent has answered.
    pub(super) fn replies(&mut self, id: ClientId) {
        let now = self.step.now;
        loop {
            let Some(client) = self.client_mut(id).filter(|client| !client.family.gone) else {
                return;
            };
            match client.outbox.answer(now) {
                Ok(Some((order, outcome))) => self.answered(id, order, outcome),
                Ok(None) => break,
                Err(_) => {
                    self.expel(id, "its agent answers what it was not asked");
                    return;
                }
            }
        }
        self.clients.announce.push(id);
    }

    pub(super) fn answered(&mut self, id: ClientId, order: Outstanding, outcome: Outcome) {
        match order.about {
            About::Shared | About::Loss(_) => {}
            About::Room => self.room_made(id, outcome),
            About::Private { page, slot, follow } => {
                self.surrendered(id, page, slot, follow, outcome);
                let dropped = self
                    .client_mut(id)
                    .is_some_and(|client| client.outbox.was_dropped(order.address, outcome));
                if dropped {
                    self.removed(id, order.address, order.address.saturating_add(crate::PAGE));
                }
                self.map_arrived(id, page, order.address);
            }
            About::Error(fault, shortage) => self.give_error(&fault, shortage.text()),
            About::Death(shortage) => self.expel_told(id, shortage.text()),
        }
    }
}
