//! The agent thread: carries the server's orders out, and what the program's threads ask of it.
//!
//! Everything here runs without the C library, whose text may be missing at the time.

use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::channel::{Action, Channel, ORDERS, Order, Outcome, Position, Reply, Shortage};

use crate::client::{Client, STAGED};
use crate::orders::move_guard::Settled;
use crate::process::{self, PAGE};

use crate::client::connection::Connection;
use crate::threads;
use crate::threads::{mailbox, watch};
use crate::{report, sys};

mod charge;
mod copy;
mod drop;
pub(super) mod move_guard;
mod page_map;
mod surrender;
mod zap;

/// What the agent thread keeps to itself.
#[derive(Debug)]
struct Agent {
    client: &'static Client,
    channel: &'static Channel,
    orders: Position,
    replies: Position,
}

/// The orders that are carried out together.
pub(crate) type Batch = [Option<Order>; STAGED];

/// Batches that the orders of a full ring make.
pub(crate) const BATCHES: usize = ORDERS.div_ceil(STAGED);

/// Nanoseconds between two tries where the kernel says to try again.
const NAP: usize = 200_000;
/// How often that is done in one batch at most: some 40 ms. Several batches may wait, and the server waits a second for
/// an answer.
const NAPS: u32 = 150;

/// What is left of the patience for one batch.
///
/// While a thread unmaps memory or forks the kernel moves nothing, and that thread may have lost its CPU in the middle
/// of it. Were every page that is asked for refused meanwhile, none would be left to ask for, and the program would get
/// an error for one that it needs.
struct Patience(u32);

impl Default for Patience {
    fn default() -> Self {
        Self(NAPS)
    }
}

impl Patience {
    /// Sleeps a little; false where it has been done often enough.
    fn wait(&mut self) -> bool {
        let Some(left) = self.0.checked_sub(1) else {
            return false;
        };
        self.0 = left;
        sys::nap(NAP);
        true
    }
}

/// The agent thread's work, until it is asked to end.
pub(crate) fn work(client: &'static Client) -> ! {
    let [orders, replies] = client.life.positions();
    let mut agent = Agent {
        client,
        channel: client.channel(),
        orders,
        replies,
    };
    agent.run(Connection::over(client.descriptors.socket))
}

impl Agent {
    fn run(&mut self, mut session: Connection) -> ! {
        loop {
            let seen = self.channel.doorbell.load(Ordering::SeqCst);
            let worked = self.carry_out();
            let asked = mailbox::answer(self.client, &mut session, &mut || {
                self.carry_out();
            });
            if self.client.life.is_ending() {
                threads::end(self.client, [&self.orders, &self.replies]);
            }
            if worked || asked {
                continue;
            }
            self.channel.asleep.store(1, Ordering::SeqCst);
            let stands_in = self.client.life.lacks_watcher();
            if self.channel.doorbell.load(Ordering::SeqCst) == seen {
                if stands_in {
                    sys::futex_wait_awhile(&self.channel.doorbell, seen);
                } else {
                    sys::futex_wait(&self.channel.doorbell, seen);
                }
            }
            self.channel.asleep.store(0, Ordering::SeqCst);
            if stands_in {
                watch::stand_in(self.client);
            }
        }
    }

    /// Carries out what is there, at most a batch; whether anything was.
    fn carry_out(&mut self) -> bool {
        if self.channel.orders.is_empty(&self.orders) {
            return false;
        }
        let settled = settled_moves();
        let batch = self.take(settled);
        let mut outcomes = [Outcome::Refused; STAGED];
        for (order, outcome) in batch.iter().flatten().zip(&mut outcomes) {
            match order.action {
                Action::Zap => *outcome = zap::zap(self.client, order),
                Action::Tell => *outcome = tell(order),
                Action::Charge => *outcome = charge::charge(self.client),
                Action::Surrender | Action::Drop => {}
            }
        }
        surrender::surrender(self.client, &batch, &mut outcomes, settled);
        for (order, outcome) in batch.iter().flatten().zip(outcomes) {
            self.reply(order, outcome);
        }
        let one = 1_u64;
        let place = core::ptr::from_ref(&one) as usize;
        // SAFETY: reads eight bytes.
        let _ = unsafe { sys::own::call(sys::WRITE, sys::arg(self.client.descriptors.event), place, 8, 0, 0) };
        true
    }

    /// Takes a batch of orders. Those that are older than what the program has moved are refused at once.
    fn take(&mut self, settled: Option<Settled>) -> Batch {
        let mut batch: Batch = [None; STAGED];
        let mut places = batch.iter_mut();
        // Of a crowd of old ones no more than a batch either.
        for _ in 0..STAGED {
            let old = settled.is_none_or(|settled| self.orders.is_before(settled.written));
            match self.channel.orders.pop::<Order>(&mut self.orders) {
                Ok(Some(order)) if old && order.action.takes_a_page() => self.reply(&order, Outcome::Busy),
                Ok(Some(order)) => {
                    if let Some(place) = places.next() {
                        *place = Some(order);
                    }
                }
                Ok(None) => break,
                // The server does not keep to its own protocol, or somebody has written over the channel.
                Err(_) => {
                    report::say(&[b"the memory server's orders cannot be understood: the program is killed"]);
                    sys::kill_self()
                }
            }
        }
        batch
    }

    fn reply(&mut self, order: &Order, outcome: Outcome) {
        let reply = Reply {
            sequence: order.sequence,
            outcome,
        };
        // A server has no more orders open than there is room for answers.
        if !self.channel.replies.push(&mut self.replies, reply) {
            report::say(&[b"the memory server orders more than it takes answers to: the program is killed"]);
            sys::kill_self();
        }
    }
}

/// Says what the server has no room for; once, however many threads it concerns.
fn tell(order: &Order) -> Outcome {
    static SAID: AtomicU32 = AtomicU32::new(0);
    let Some(shortage) = Shortage::ALL.get(order.slot as usize) else {
        return Outcome::Refused;
    };
    let bit = 1 << shortage.number();
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        report::say(&[shortage.text().as_bytes()]);
    }
    Outcome::Done
}

/// What the program has moved so far, when it is moving nothing; waits a little for that.
fn settled_moves() -> Option<Settled> {
    let process = process::process()?;
    let mut patience = Patience::default();
    loop {
        let settled = process.moves.settled();
        if settled.is_some() || !patience.wait() {
            return settled;
        }
    }
}

/// The part of an address space where a program's pages can be.
pub(crate) fn page_range(order: &Order) -> Option<(usize, usize)> {
    const END: usize = 1 << 47;
    let start = usize::try_from(order.address).ok()?;
    let length = (order.pages as usize).checked_mul(PAGE)?;
    let inside = start.is_multiple_of(PAGE) && length > 0 && start < END && length <= END - start;
    inside.then_some((start, length))
}

/// Wakes the agent thread, which looks at everything that may be asked of it.
pub(crate) fn ring(client: &Client) {
    let channel = client.channel();
    channel.doorbell.fetch_add(1, Ordering::SeqCst);
    sys::futex_wake(&channel.doorbell);
}
