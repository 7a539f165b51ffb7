//! No wake-up is lost and every answer is taken once: `src/mailbox.rs`, compiled against a model checker, between a few
//! threads, in every interleaving (where a test says so: of so many preemptions). No wait has a time limit, so a lost
//! wake-up is a deadlock, which the checker reports.
//!
//! The mailbox is the crate's own code. Modelled are the futex, and those who use the mailbox: the loop of `wait`, the
//! posting of answers under the core's lock and the waking after it, and the table of transfers with its count of tasks
//! unattributed. Each planted mistake must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "the crate's own; of it the mailbox needs only the type")]
#[path = "../src/epoch.rs"]
mod epoch;
#[allow(dead_code, reason = "the crate's own; spinning on an answer is not modelled")]
#[path = "../src/mailbox.rs"]
mod mailbox;
#[allow(dead_code, reason = "shared with the other model")]
#[path = "model/sync.rs"]
mod sync;

use freehold_core::effect::{Protection, Resolution};
use loom::sync::Mutex;
use loom::thread;
use mailbox::{Answer, Mailbox};
use std::sync::Arc;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The owner is woken first and answered then.
    WakeBeforePost,
    /// The answer is posted, and nobody is woken.
    NoWake,
    /// The owner looks at the table first and forgets nudges then.
    RearmAfterLook,
    /// Who enters a transfer wakes the owner, but leaves no nudge.
    WakeForNudge,
}

struct World {
    mistake: Mistake,
    mailbox: Mailbox,
    /// The core's lock: posting happens under it.
    core: Mutex<()>,
    transfers: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// There is a transfer to drive, with the answer it leads to.
    entered: Option<Answer>,
    unattributed: u32,
}

impl World {
    fn new(mistake: Mistake) -> Arc<Self> {
        let world = Self {
            mistake,
            mailbox: Mailbox::default(),
            core: Mutex::new(()),
            transfers: Mutex::new(Table::default()),
        };
        // Makes the model's futex queue here, so that its making orders no two threads.
        world.mailbox.wake();
        Arc::new(world)
    }

    /// As an effect is drained under the core's lock and carried out after it.
    fn answer(&self, answer: Answer) {
        if self.mistake == Mistake::WakeBeforePost {
            self.mailbox.wake();
        }
        let core = self.core.lock().unwrap();
        assert!(self.mailbox.post(answer), "an answer that nobody expects");
        drop(core);
        if !matches!(self.mistake, Mistake::WakeBeforePost | Mistake::NoWake) {
            self.mailbox.wake();
        }
    }

    /// As `begin_read` and `begin_write` enter a transfer.
    fn enter_transfer(&self, leads_to: Answer) {
        let mut table = self.transfers.lock().unwrap();
        table.entered = Some(leads_to);
        let unattributed = table.unattributed > 0;
        drop(table);
        if unattributed && self.mistake == Mistake::WakeForNudge {
            self.mailbox.wake();
        } else if unattributed {
            self.mailbox.nudge();
        }
    }

    /// As a fault is handed in: the mailbox is opened, then the core is told.
    fn fault(&self) {
        self.mailbox.open();
        drop(self.core.lock().unwrap());
    }

    /// As the loop of a task in lockstep.
    fn await_answer(&self) -> Answer {
        loop {
            if let Some(answer) = self.mailbox.take() {
                return answer;
            }
            self.mailbox.rearm();
            self.mailbox.sleep(None);
        }
    }

    /// As the loop of a task that drives what it waits for.
    fn drive_until_answered(&self) -> Answer {
        loop {
            if let Some(answer) = self.mailbox.take() {
                return answer;
            }
            if self.mistake != Mistake::RearmAfterLook {
                self.mailbox.rearm();
            }
            let candidate = self.candidate();
            if self.mistake == Mistake::RearmAfterLook {
                self.mailbox.rearm();
            }
            match candidate {
                Some(answer) => self.answer(answer),
                None => {
                    self.mailbox.sleep(None);
                    self.transfers.lock().unwrap().unattributed -= 1;
                }
            }
        }
    }

    fn candidate(&self) -> Option<Answer> {
        let mut table = self.transfers.lock().unwrap();
        let entered = table.entered.take();
        table.unattributed += u32::from(entered.is_none());
        entered
    }
}

/// An answer that can be told from others.
fn numbered(number: u32) -> Answer {
    Answer::Map {
        epoch: epoch::Epoch::from_bits(number),
        protection: Protection::Writable,
        resolution: Resolution::Soft,
    }
}

fn start(world: &Arc<World>, act: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// Faults one after the other, each answered by another thread; the wake for one may come as late as during the next.
fn answered_faults(mistake: Mistake, faults: u32) {
    let world = World::new(mistake);
    let mut others = Vec::new();
    for number in 0..faults {
        world.fault();
        others.push(start(&world, move |world| world.answer(numbered(number))));
        assert_eq!(world.await_answer(), numbered(number));
        assert_eq!(world.mailbox.take(), None, "an answer was taken twice");
    }
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(world.mailbox.take(), None, "an answer was left behind");
}

/// An unattributed wait: what it could drive is entered by another thread, which then minds its own business.
fn unattributed(mistake: Mistake) {
    let world = World::new(mistake);
    world.fault();
    let other = start(&world, |world| world.enter_transfer(numbered(7)));
    assert_eq!(world.drive_until_answered(), numbered(7));
    other.join().unwrap();
    assert_eq!(world.mailbox.take(), None, "an answer was taken twice");
}

/// Answered by one thread, nudged at any time by another, also between two faults.
fn nudged(faults: u32) {
    let world = World::new(Mistake::None);
    let mut others = vec![start(&world, |world| world.mailbox.nudge())];
    for number in 0..faults {
        world.fault();
        others.push(start(&world, move |world| world.answer(numbered(number))));
        assert_eq!(world.await_answer(), numbered(number));
    }
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(world.mailbox.take(), None, "an answer was left behind");
}

#[test]
fn every_answer_wakes_and_is_taken_once() {
    sync::run(|| answered_faults(Mistake::None, 2));
}

#[test]
fn an_unattributed_wait_is_told_of_a_new_transfer() {
    sync::run(|| unattributed(Mistake::None));
}

#[test]
fn a_nudge_hides_no_answer() {
    sync::run_bounded(4, || nudged(1));
}

#[test]
fn a_nudge_between_two_faults_hides_no_answer() {
    sync::run_bounded(3, || nudged(2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn woken_before_the_answer_is_there_a_task_sleeps_for_ever() {
    sync::run(|| answered_faults(Mistake::WakeBeforePost, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn answered_without_a_wake_a_task_sleeps_for_ever() {
    sync::run(|| answered_faults(Mistake::NoWake, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn rearmed_after_the_look_a_task_sleeps_for_ever() {
    sync::run(|| unattributed(Mistake::RearmAfterLook));
}

#[test]
#[should_panic(expected = "deadlock")]
fn woken_without_a_nudge_a_task_sleeps_for_ever() {
    sync::run(|| unattributed(Mistake::WakeForNudge));
}
