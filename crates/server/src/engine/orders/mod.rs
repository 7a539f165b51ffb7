//! The server's side of a client's channel: orders go out, answers come in and are checked.

pub(super) mod zaps;

use freehold_core::effect::Holder;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_linux::futex;
use freehold_linux::memory::{ChannelMapping, Memfd};
use freehold_protocol::channel::{Action, Broken, ORDERS, Order, Outcome, Position, Reply, Shortage};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use crate::engine::faults::FaultMessage;
use crate::error::EngineError;

/// Bits of a sequence number that name the row of the order.
const ROW_BITS: u32 = ORDERS.trailing_zeros();
const _: () = assert!(ORDERS.is_power_of_two());

/// What follows when a private page has left its client's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// It stays its holder's, in the transfer memory.
    Demote,
    /// It is written to the store, for this holder.
    WriteBack(Holder),
    /// It is dropped.
    Discard,
    /// It was forgotten meanwhile: whatever arrives is dropped, and the core is told that its request has ended, if it
    /// had one.
    Forget {
        /// The core waits for the end of an eviction.
        asked: bool,
    },
}

/// What an order is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Mappings of a shared object: nothing follows.
    Shared,
    /// One private page.
    Private {
        /// The page.
        page: PageRef,
        /// The page of the transfer memory, for a surrender.
        slot: Option<u32>,
        /// What follows.
        follow: Follow,
    },
    /// A thread gets an error when the program's user has been told of this.
    Error(FaultMessage, Shortage),
    /// The client ends when its user has been told of this.
    Death(Shortage),
    /// A page is lost, for whoever touches it later.
    Loss(Shortage),
    /// Room below the limit of the process's memory cgroup: pages are mapped when there is some.
    Room,
}

/// An order that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    pub(crate) about: About,
    /// Where its pages are in the client.
    pub(crate) address: u64,
    /// When it was given; of one that found no room at first, when it found it.
    pub(crate) since: Instant,
}

#[derive(Debug, Default)]
struct Row {
    generation: u32,
    order: Option<Outstanding>,
}

/// Orders to one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    channel: ChannelMapping,
    memory: Memfd,
    event: OwnedFd,
    written: Position,
    read: Position,
    rows: Vec<Row>,
    vacant: Vec<u32>,
    /// Orders that found no room.
    backlog: VecDeque<(Order, Outstanding)>,
    unannounced: bool,
    /// Where orders without an answer take private pages from.
    taken_from: BTreeMap<u64, u32>,
    pub(crate) sent: u64,
    /// Of these addresses, how often the kernel has told that just that page was dropped.
    dropped: BTreeMap<u64, u32>,
    /// Orders without an answer.
    open: u32,
}

impl Outbox {
    pub(crate) fn new() -> Result<Self, EngineError> {
        let what = "the channel could not be made";
        let refused = || EngineError::System {
            what,
            errno: freehold_linux::Errno::NOMEM,
        };
        let memory = Memfd::create_sealed(c"freehold-channel", ChannelMapping::pages(), false);
        let memory = memory.map_err(|_| refused())?;
        let channel = ChannelMapping::new(&memory).map_err(|_| refused())?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(EngineError::system(what))?;
        let rows = u32::try_from(ORDERS).unwrap_or(0);
        Ok(Self {
            channel,
            memory,
            event,
            written: Position::default(),
            read: Position::default(),
            rows: (0..rows).map(|_| Row::default()).collect(),
            vacant: (0..rows).rev().collect(),
            backlog: VecDeque::new(),
            unannounced: false,
            taken_from: BTreeMap::new(),
            dropped: BTreeMap::new(),
            sent: 0,
            open: 0,
        })
    }

    /// Whether no order has ever been sent.
    pub(crate) fn is_untouched(&self) -> bool {
        self.sent == 0 && self.open == 0 && self.backlog.is_empty()
    }

    /// Descriptors for the client: the channel and the event.
    pub(crate) fn descriptors(&self) -> Result<(OwnedFd, OwnedFd), EngineError> {
        let duplicate = |fd: rustix::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 0);
        let what = "a descriptor could not be duplicated";
        let channel = duplicate(rustix::fd::AsFd::as_fd(&self.memory)).map_err(EngineError::system(what))?;
        let event = duplicate(rustix::fd::AsFd::as_fd(&self.event)).map_err(EngineError::system(what))?;
        Ok((channel, event))
    }

    /// The event descriptor, to wait on.
    pub(crate) fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Sends an order, now or when there is room.
    pub(crate) fn order(&mut self, action: Action, pages: u32, outstanding: Outstanding) {
        let address = outstanding.address;
        let slot = match outstanding.about {
            About::Private { slot: Some(slot), .. } => slot,
            About::Error(_, shortage) | About::Death(shortage) | About::Loss(shortage) => shortage.number(),
            _ => 0,
        };
        if let About::Private { .. } = outstanding.about {
            *self.taken_from.entry(address).or_default() += 1;
        }
        self.open = self.open.saturating_add(1);
        let order = Order {
            sequence: 0,
            action,
            pages,
            slot,
            address,
        };
        if !self.backlog.is_empty() || !self.push(order, outstanding) {
            self.backlog.push_back((order, outstanding));
        }
    }

    fn push(&mut self, order: Order, outstanding: Outstanding) -> bool {
        let Some(&row) = self.vacant.last() else {
            return false;
        };
        let Some(place) = self.rows.get_mut(row as usize) else {
            return false;
        };
        let sequence = place.generation << ROW_BITS | row;
        if !self.channel.orders.push(&mut self.written, Order { sequence, ..order }) {
            return false;
        }
        place.order = Some(outstanding);
        self.vacant.pop();
        self.sent += 1;
        self.unannounced = true;
        true
    }

    /// Takes the next answer, at this time: what was ordered, and how it ended. Orders that waited for room follow when
    /// there is none left.
    pub(crate) fn answer(&mut self, now: Instant) -> Result<Option<(Outstanding, Outcome)>, Broken> {
        let Some(reply) = self.channel.replies.pop::<Reply>(&mut self.read)? else {
            self.send_backlog(now);
            return Ok(None);
        };
        let row = reply.sequence & ((1 << ROW_BITS) - 1);
        let place = self.rows.get_mut(row as usize).ok_or(Broken)?;
        if place.generation << ROW_BITS | row != reply.sequence {
            return Err(Broken);
        }
        let order = place.order.take().ok_or(Broken)?;
        place.generation = place.generation.wrapping_add(1) & (u32::MAX >> ROW_BITS);
        self.vacant.push(row);
        self.open = self.open.saturating_sub(1);
        if let About::Private { .. } = order.about
            && let Entry::Occupied(mut entry) = self.taken_from.entry(order.address)
        {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        Ok(Some((order, reply.outcome)))
    }

    /// The kernel tells that a range is dropped: whether that may be by an order to the agent, whose answer says more.
    pub(crate) fn note_dropped(&mut self, start: u64, end: u64) -> bool {
        let ordered = end == start.saturating_add(crate::PAGE) && self.takes_from(start);
        if ordered {
            *self.dropped.entry(start).or_default() += 1;
        }
        ordered
    }

    /// Whether the program has dropped a page while there was an order for it, which has ended so and was the last
    /// there.
    pub(crate) fn was_dropped(&mut self, address: u64, outcome: Outcome) -> bool {
        if self.takes_from(address) {
            return false;
        }
        let told = self.dropped.remove(&address).unwrap_or(0);
        told > u32::from(outcome == Outcome::Dropped)
    }

    /// Whether an order without an answer takes a page from this address, which may be another by now: what is mapped
    /// there before the answer would be taken in its place.
    pub(crate) fn takes_from(&self, address: u64) -> bool {
        self.taken_from.contains_key(&address)
    }

    /// How many of the pages from this address on no order takes.
    pub(crate) fn left_alone(&self, address: u64, pages: usize) -> usize {
        let next = self.taken_from.range(address..).next();
        let before = next.map_or(u64::MAX, |(taken, _)| (taken - address) / crate::PAGE);
        usize::try_from(before).map_or(pages, |before| before.min(pages))
    }

    fn send_backlog(&mut self, now: Instant) {
        while let Some(&(order, outstanding)) = self.backlog.front() {
            if !self.push(
                order,
                Outstanding {
                    since: now,
                    ..outstanding
                },
            ) {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Wakes the agent if there is anything new.
    pub(crate) fn announce(&mut self) {
        if !std::mem::take(&mut self.unannounced) {
            return;
        }
        self.channel.doorbell.fetch_add(1, Ordering::SeqCst);
        if self.channel.asleep.load(Ordering::SeqCst) != 0 {
            futex::wake_shared(&self.channel.doorbell, 1);
        }
    }

    /// Tells the agent whether there is a place for one more child.
    pub(crate) fn tell_of_room(&self, has_room: bool) {
        self.channel.full.store(u32::from(!has_room), Ordering::Relaxed);
    }

    /// Tells the agent that private memory is the kernel's from now on.
    pub(crate) fn tell_of_end(&self) {
        self.channel.outside.store(1, Ordering::Relaxed);
    }

    /// Changes what follows on the order of a private page; whether there is one.
    pub(crate) fn change(&mut self, object: ObjectId, page: u32, change: impl FnOnce(&mut Follow)) -> bool {
        let rows = self.rows.iter_mut().filter_map(|row| row.order.as_mut());
        let backlog = self.backlog.iter_mut().map(|(_, order)| order);
        for order in rows.chain(backlog) {
            if let About::Private {
                page: found, follow, ..
            } = &mut order.about
                && found.object() == object
                && found.page().get() == page
            {
                change(follow);
                return true;
            }
        }
        false
    }

    /// What follows on the order of a private page, if there is one.
    pub(crate) fn follow(&self, object: ObjectId, page: u32) -> Option<Follow> {
        self.outstanding().find_map(|order| match order.about {
            About::Private {
                page: found, follow, ..
            } if found.object() == object && found.page().get() == page => Some(follow),
            _ => None,
        })
    }

    /// Orders without an answer.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = &Outstanding> {
        let rows = self.rows.iter().filter_map(|row| row.order.as_ref());
        rows.chain(self.backlog.iter().map(|(_, order)| order))
    }

    /// Why the client is to end once its agent has said so.
    pub(crate) fn death(&self) -> Option<Shortage> {
        self.outstanding().find_map(|order| match order.about {
            About::Death(shortage) => Some(shortage),
            _ => None,
        })
    }

    /// How many they are.
    pub(crate) fn count(&self) -> u32 {
        self.open
    }

    /// Since when the client could read the oldest order that it has not answered. O([`ORDERS`]).
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let rows = self.rows.iter().filter_map(|row| row.order.as_ref());
        rows.map(|order| order.since).min()
    }

    /// Forgets all orders and gives them out.
    pub(crate) fn abandon(&mut self) -> Vec<Outstanding> {
        // Their rows are never vacant again: a late answer is one to nothing.
        let rows = self.rows.iter_mut().filter_map(|row| row.order.take());
        let mut all: Vec<Outstanding> = rows.collect();
        all.extend(self.backlog.drain(..).map(|(_, order)| order));
        self.taken_from.clear();
        self.dropped.clear();
        self.open = 0;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{About, Instant, ORDERS, Outbox, Outstanding};
    use freehold_linux::memory::ChannelMapping;
    use freehold_protocol::channel::{Action, Order, Outcome, Position, Reply};

    #[test]
    fn the_time_of_an_order_begins_when_its_client_can_read_it() {
        let mut outbox = Outbox::new().expect("a channel");
        let client = ChannelMapping::new(&outbox.memory).expect("its other side");
        let (mut read, mut written) = (Position::default(), Position::default());
        for page in 0..ORDERS as u64 + 1 {
            let outstanding = Outstanding {
                about: About::Shared,
                address: page * crate::PAGE,
                since: Instant::new(1),
            };
            outbox.order(Action::Zap, 1, outstanding);
        }
        for _ in 0..ORDERS {
            let order: Order = client.orders.pop(&mut read).expect("it is whole").expect("an order");
            let reply = Reply {
                sequence: order.sequence,
                outcome: Outcome::Done,
            };
            assert!(client.replies.push(&mut written, reply));
        }
        assert_eq!(outbox.oldest(), Some(Instant::new(1)));
        while outbox.answer(Instant::new(9)).expect("answers to orders").is_some() {}
        assert_eq!(
            outbox.oldest(),
            Some(Instant::new(9)),
            "the last one found room only now"
        );
        assert_eq!(outbox.outstanding().count(), 1);
    }
}
