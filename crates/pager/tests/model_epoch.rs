//! No write through a late mapping is lost: `src/epoch.rs`, compiled against a model checker, in a small world of one
//! page, in every interleaving (where a test says so: of so many preemptions).
//!
//! The epochs are the crate's own code. The world around them is a model: of the machine (mappings, a frame, a store;
//! each access to memory and each system call is one step), of the core (a leaving page is mapped for nobody), and of
//! the orders that `effects` and `handler` keep. Each planted mistake takes one of these orders away, and must be
//! found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "the crate's own; the mailbox needs more of it")]
#[path = "../src/epoch.rs"]
mod epoch;
#[allow(dead_code, reason = "what the mailbox needs of it is not needed here")]
#[path = "model/sync.rs"]
mod sync;

use epoch::{Epoch, Epochs};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

const PAGE: usize = 0;
const WRITERS: usize = 2;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A mapping is made whatever the epoch.
    NoCheck,
    /// The epoch is checked, but may move before the mapping is made.
    StripeReleasedEarly,
    /// The epoch is read after the core's lock is released.
    SampledLate,
    /// The page is unmapped before its epoch is advanced.
    ZapBeforeAdvance,
    /// The page is copied out before it is unmapped.
    CopyBeforeZap,
    /// An eviction leaves the unmapping to a demotion that was decided before.
    TrustsDemotion,
}

/// What the machine holds. Each method is one step, as the hardware or the kernel makes it.
#[derive(Default)]
struct Machine {
    mapped: [bool; WRITERS],
    /// One word for each writer.
    frame: Option<[u32; WRITERS]>,
    stored: [u32; WRITERS],
}

impl Machine {
    /// Replaces the writer's word, or faults.
    fn write(&mut self, writer: usize, value: u32) -> Option<u32> {
        let frame = self.frame.as_mut().filter(|_| self.mapped[writer])?;
        Some(std::mem::replace(&mut frame[writer], value))
    }

    /// False if the page is not there.
    fn map(&mut self, writer: usize) -> bool {
        self.mapped[writer] = self.frame.is_some();
        self.mapped[writer]
    }

    fn zap(&mut self) {
        self.mapped = [false; WRITERS];
    }

    fn copy_out(&mut self) {
        self.stored = self.frame.unwrap();
    }

    /// Takes the frame away, and with it whatever mapped it.
    fn punch(&mut self) {
        self.frame = None;
        self.zap();
    }

    fn fill(&mut self) {
        self.frame = Some(self.stored);
    }

    fn content(&self) -> [u32; WRITERS] {
        self.frame.unwrap_or(self.stored)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Resident,
    Leaving,
    Stored,
    Coming,
}

/// What the core believes.
struct Core {
    place: Place,
    mapped: bool,
}

struct World {
    mistake: Mistake,
    epochs: Epochs,
    core: Mutex<Core>,
    /// In place of answers in mailboxes.
    moved: Condvar,
    machine: Mutex<Machine>,
}

impl World {
    /// The page is resident, holds zeros, and nobody has it mapped.
    fn new(mistake: Mistake) -> Self {
        let machine = Machine {
            frame: Some([0; WRITERS]),
            ..Machine::default()
        };
        Self {
            mistake,
            epochs: Epochs::new(1),
            core: Mutex::new(Core {
                place: Place::Resident,
                mapped: false,
            }),
            moved: Condvar::new(),
            machine: Mutex::new(machine),
        }
    }

    fn machine<R>(&self, step: impl FnOnce(&mut Machine) -> R) -> R {
        step(&mut self.machine.lock().unwrap())
    }

    fn moved_to(&self, place: Place) {
        self.core.lock().unwrap().place = place;
        self.moved.notify_all();
    }

    /// A fault, until the decision to map.
    fn decide_to_map(&self) -> Epoch {
        let mut core = self.core.lock().unwrap();
        loop {
            match core.place {
                Place::Resident => break,
                Place::Leaving | Place::Coming => core = self.moved.wait(core).unwrap(),
                Place::Stored => {
                    core.place = Place::Coming;
                    drop(core);
                    self.machine(Machine::fill);
                    self.moved_to(Place::Resident);
                    core = self.core.lock().unwrap();
                }
            }
        }
        core.mapped = true;
        if self.mistake == Mistake::SampledLate {
            drop(core);
        }
        self.epochs.sample(PAGE)
    }

    fn carry_out_map(&self, writer: usize, decided: Epoch) {
        let stripe = self.epochs.hold(PAGE, decided);
        if stripe.is_none() && self.mistake != Mistake::NoCheck {
            return;
        }
        let _kept = if self.mistake == Mistake::StripeReleasedEarly {
            drop(stripe);
            None
        } else {
            stripe
        };
        let made = self.machine(|machine| machine.map(writer));
        assert!(made || self.mistake != Mistake::None, "an absent page was to be mapped");
    }

    /// Writes 1, 2, ... to the writer's word. False if it ever finds another value than its last.
    fn count_up(&self, writer: usize, count: u32) -> bool {
        (1..=count).all(|value| {
            loop {
                if let Some(found) = self.machine(|machine| machine.write(writer, value)) {
                    return found == value - 1;
                }
                let decided = self.decide_to_map();
                self.carry_out_map(writer, decided);
            }
        })
    }

    fn evict(&self) {
        let mut core = self.core.lock().unwrap();
        if core.place != Place::Resident {
            return;
        }
        let trusted = self.mistake == Mistake::TrustsDemotion && !core.mapped;
        core.place = Place::Leaving;
        core.mapped = false;
        drop(core);
        if self.mistake == Mistake::CopyBeforeZap {
            self.machine(Machine::copy_out);
        }
        if !trusted {
            self.unmap();
        }
        if self.mistake != Mistake::CopyBeforeZap {
            self.machine(Machine::copy_out);
        }
        self.machine(Machine::punch);
        self.moved_to(Place::Stored);
    }

    fn demote(&self) {
        let mut core = self.core.lock().unwrap();
        if core.place == Place::Resident && core.mapped {
            core.mapped = false;
            drop(core);
            self.unmap();
        }
    }

    fn unmap(&self) {
        if self.mistake == Mistake::ZapBeforeAdvance {
            self.machine(Machine::zap);
            self.epochs.advance(PAGE);
        } else {
            self.epochs.advance(PAGE);
            self.machine(Machine::zap);
        }
    }
}

/// Who there is beside the first writer.
#[derive(Clone, Copy)]
enum Company {
    Evictor,
    EvictorAndDemoter,
    EvictorAndWriter,
    TwoEvictions,
}

/// One run: every write must be found again.
fn one_run(mistake: Mistake, company: Company, writes: u32) {
    let world = Arc::new(World::new(mistake));
    let start = |act: fn(&World)| {
        let world = Arc::clone(&world);
        thread::spawn(move || act(&world))
    };
    let mut others = match company {
        Company::TwoEvictions => vec![start(|world| {
            world.evict();
            world.evict();
        })],
        _ => vec![start(World::evict)],
    };
    let mut last = [writes, 0];
    match company {
        Company::Evictor | Company::TwoEvictions => {}
        Company::EvictorAndDemoter => others.push(start(World::demote)),
        Company::EvictorAndWriter => {
            last[1] = 1;
            others.push(start(|world| assert!(world.count_up(1, 1), "a write was lost")));
        }
    }
    let kept = world.count_up(0, writes);
    for other in others {
        other.join().unwrap();
    }
    assert!(kept, "a write was lost");
    assert_eq!(world.machine(|machine| machine.content()), last, "a write was lost");
}

#[test]
fn no_write_is_lost_beside_an_eviction() {
    sync::run(|| one_run(Mistake::None, Company::Evictor, 2));
}

#[test]
fn no_write_is_lost_beside_two_evictions() {
    sync::run_bounded(4, || one_run(Mistake::None, Company::TwoEvictions, 3));
}

#[test]
fn no_write_is_lost_beside_an_eviction_and_a_late_demotion() {
    sync::run_bounded(3, || one_run(Mistake::None, Company::EvictorAndDemoter, 2));
}

#[test]
fn no_write_of_two_writers_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::None, Company::EvictorAndWriter, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn without_the_check_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::NoCheck, Company::Evictor, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn without_the_stripe_held_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::StripeReleasedEarly, Company::Evictor, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn with_the_epoch_read_outside_the_cores_lock_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::SampledLate, Company::Evictor, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn with_the_epoch_advanced_after_the_zap_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::ZapBeforeAdvance, Company::Evictor, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn with_the_page_copied_before_the_zap_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::CopyBeforeZap, Company::Evictor, 2));
}

#[test]
#[should_panic(expected = "a write was lost")]
fn with_the_zap_left_to_a_demotion_a_write_is_lost() {
    sync::run_bounded(3, || one_run(Mistake::TrustsDemotion, Company::EvictorAndDemoter, 2));
}
