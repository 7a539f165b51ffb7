//! Nothing is taken from an address but what the order was given for: `src/orders/move_guard.rs`, compiled against a
//! model checker, between a program that moves memory there, an agent and a server in every interleaving. Each planted
//! mistake must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../src/orders/move_guard.rs"]
mod move_guard;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

use freehold_protocol::channel::is_before;
use loom::sync::Mutex;
use loom::thread;
use move_guard::MoveGuard;
use std::sync::Arc;
use sync::{AtomicU32, Ordering};

/// What is at the address, before and after the program's call.
const BEFORE: u32 = 0;
const AFTER: u32 = 1;
const ORDERS: usize = 2;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The program does not wait for pages that are going out.
    NoWait,
    /// The program does not say which orders are older.
    NoMark,
    /// The agent does not look again once it has said that it moves.
    NoSecondLook,
}

/// What the server knows of the address, and what it has ordered: each order is for what it believed to be there.
#[derive(Default)]
struct Server {
    believed: u32,
    orders: Vec<u32>,
}

struct World {
    moves: MoveGuard,
    there: AtomicU32,
    server: Mutex<Server>,
}

impl World {
    /// Moves other memory to the address. The kernel lets the call return when the server has read of it.
    fn remap(&self, mistake: Mistake) {
        self.moves.begin();
        while mistake != Mistake::NoWait && self.moves.is_going_out() {
            thread::yield_now();
        }
        self.there.store(AFTER, Ordering::Relaxed);
        self.server.lock().unwrap().believed = AFTER;
        let written = u32::try_from(self.server.lock().unwrap().orders.len()).unwrap();
        self.moves.end(if mistake == Mistake::NoMark { 0 } else { written });
    }

    fn order(&self) {
        for _ in 0..ORDERS {
            let mut server = self.server.lock().unwrap();
            let believed = server.believed;
            server.orders.push(believed);
        }
    }

    fn carry_out(&self, mistake: Mistake) {
        for number in 0..ORDERS {
            let settled = self.moves.settled();
            let Some(meant) = self.server.lock().unwrap().orders.get(number).copied() else {
                return;
            };
            let position = u32::try_from(number).unwrap();
            if settled.is_none_or(|settled| is_before(position, settled.written)) {
                continue;
            }
            if mistake == Mistake::NoSecondLook || self.moves.begin_out(settled) {
                assert_eq!(self.there.load(Ordering::Relaxed), meant, "something else is taken");
                self.moves.end_out();
            }
        }
    }
}

fn model(mistake: Mistake) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let world = Arc::new(World {
            moves: MoveGuard::default(),
            there: AtomicU32::new(BEFORE),
            server: Mutex::new(Server::default()),
        });
        let (program, server) = (Arc::clone(&world), Arc::clone(&world));
        let program = thread::spawn(move || program.remap(mistake));
        let server = thread::spawn(move || server.order());
        world.carry_out(mistake);
        program.join().unwrap();
        server.join().unwrap();
    });
}

#[test]
fn only_what_an_order_was_given_for_is_taken() {
    model(Mistake::None);
}

#[test]
#[should_panic(expected = "something else is taken")]
fn without_a_wait_memory_changes_under_the_agent() {
    model(Mistake::NoWait);
}

#[test]
#[should_panic(expected = "something else is taken")]
fn without_a_mark_older_orders_are_carried_out() {
    model(Mistake::NoMark);
}

#[test]
#[should_panic(expected = "something else is taken")]
fn without_a_second_look_the_agent_begins_too_late() {
    model(Mistake::NoSecondLook);
}
