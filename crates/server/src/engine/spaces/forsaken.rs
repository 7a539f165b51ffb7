//! Address spaces that nobody can serve: of children that there is no room for, and of processes that go on in the
//! memory of a program that has ended. What they miss is an error for them, and never zeros.

use crate::closing::Lent;
use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::faults::fault_completion::page_range;
use crate::engine::forks::fork_unconnected::{FIRST_LOOK, is_dead};
use crate::engine::keys::ClientRole;
use freehold_linux::AddressRange;
use freehold_linux::userfault::{Features, Message, Userfault};

/// Between these a program can have memory.
const FIRST_ADDRESS: usize = 1 << 16;
const LAST_ADDRESS: usize = (1 << 47) - freehold_linux::PAGE_SIZE;
/// Address spaces of a user's that are kept.
const MOST_FORSAKEN: usize = 1_024;
/// Faults in one that are looked at together.
const MOST_MISSED: usize = 16;

/// The userfaultfd of an address space that nobody can serve: open until that is gone.
#[derive(Debug)]
pub(in crate::engine) struct Forsaken {
    userfault: Lent<Userfault>,
    survival: Option<Survival>,
}

/// A program has ended, and its address space has not.
#[derive(Debug)]
struct Survival {
    program: String,
    since: u64,
}

impl Engine {
    /// A child was forked that nobody can serve, and may not be seen to end: what it misses is an error for it, sooner
    /// or later.
    pub(in crate::engine) fn forsake(&mut self, userfault: Lent<Userfault>) {
        self.keep_forsaken(userfault, None);
        self.expect_unconnected();
    }

    /// Keeps the userfaultfd of an address space that nobody can serve, as long as its user has not too many.
    fn keep_forsaken(&mut self, userfault: Lent<Userfault>, survival: Option<Survival>) {
        let user = userfault.user();
        let its = self
            .fork_children
            .forsaken
            .iter()
            .filter(|other| other.userfault.user() == user);
        if its.count() < MOST_FORSAKEN {
            self.fork_children.forsaken.push(Forsaken { userfault, survival });
        } else {
            self.notice(format!(
                "user {user} has {MOST_FORSAKEN} processes that nobody can serve; a further one finds zeros where its \
                 memory is out"
            ));
        }
    }

    /// A program has ended. Another process may go on in its memory (made with `CLONE_VM`): what that misses is an
    /// error for it. Mostly the address space is only about to go, as where the program begins another one.
    pub(in crate::engine) fn forsake_survivors(&mut self, client: &mut Client) {
        if client.process.role != ClientRole::Program {
            return;
        }
        let both = [client.userfaults.shared.take(), client.userfaults.private.take()];
        let mut survival = Some(Survival {
            program: format!("{} ({})", client.process.pid, client.process.name),
            since: self.step.now.get(),
        });
        for userfault in both.into_iter().flatten().filter(|one| !is_dead(one)) {
            // Whoever was waited for already asks again.
            if let Some(everything) = AddressRange::new(FIRST_ADDRESS, LAST_ADDRESS - FIRST_ADDRESS) {
                let _ = userfault.wake(everything);
            }
            self.keep_forsaken(userfault, survival.take());
            self.expect_unconnected();
        }
    }

    /// Drops those that are gone, and gives errors in the others. How many errors it gave.
    pub(in crate::engine) fn look_at_forsaken(&mut self) -> usize {
        let mut all = std::mem::take(&mut self.fork_children.forsaken);
        all.retain(|forsaken| !is_dead(&forsaken.userfault));
        let (mut given, mut children) = (0, Vec::new());
        for forsaken in &mut all {
            let its = give_errors(&forsaken.userfault, &mut children);
            given += its;
            self.tell_of_survivor(forsaken, its > 0);
        }
        self.fork_children.forsaken = all;
        for child in children {
            self.keep_forsaken(child, None);
        }
        given
    }

    /// Says once that a process goes on in a program's memory: when it misses something, or after a while in which an
    /// address space that was only about to go would have gone.
    fn tell_of_survivor(&mut self, forsaken: &mut Forsaken, misses: bool) {
        let now = self.step.now.get();
        let is_due = |survival: &mut Survival| misses || now.saturating_sub(survival.since) >= FIRST_LOOK;
        if let Some(Survival { program, .. }) = forsaken.survival.take_if(is_due) {
            self.notice(format!(
                "process {program} has ended, and another goes on in its memory: it gets SIGBUS for what is out"
            ));
        }
    }
}

/// Gives errors to those who wait for pages, and keeps the userfaultfds of children: closed, what those miss would be
/// zeros. To how many it gave one, or whose child it kept. Who waits to write a page that is there waits for ever:
/// others may share it.
fn give_errors(userfault: &Lent<Userfault>, children: &mut Vec<Lent<Userfault>>) -> usize {
    let (mut missed, mut forks) = (Vec::new(), Vec::new());
    let note = |message| match message {
        Message::Fault {
            address,
            write_protected: false,
            ..
        } => missed.push(address),
        Message::Fork(child) => forks.push(child),
        _ => {}
    };
    // What cannot be read, or given, is waited for: nothing wrong is ever found there.
    let _ = userfault.read_messages(MOST_MISSED, note);
    let before = children.len();
    // What the server cannot use is of no address space any more.
    let kept = forks
        .into_iter()
        .filter_map(|child| Userfault::adopt(child, Features::SERVED).ok());
    children.extend(kept.map(|child| userfault.lend_too(child)));
    let ranges = missed.into_iter().filter_map(page_range);
    children.len() - before + ranges.filter(|range| userfault.poison_absent(*range).is_ok()).count()
}
