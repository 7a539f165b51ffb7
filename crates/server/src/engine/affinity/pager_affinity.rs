//! The server beside its clients: who is served from the CPU on which it runs waits for no wake-up across CPUs, which
//! costs several times what a fault does.
//!
//! A client is handed over between two steps, with the engine locked. Nothing of it is lost: what is unread in its
//! descriptors is ready in the new pager thread's epoll from the moment it is there, and an end of a transfer that the
//! old one is told of is as good as one told to the new, since both belong to the engine and not to a pager thread.
//!
//! Woken from the CPU on which it ran, a thread goes to another that is idle, where both share a cache: the scheduler
//! sees the pager thread run and not that it is about to sleep. Each fault would then be served across CPUs, whatever
//! pager thread serves it. So the thread is held where it is while it waits (`affinity_hold.rs`).
//!
//! What a program does to its address space it waits for as well, but the kernel does not say which thread does, and
//! wakes it when the message is read. So the thread of a program that has one is held before that.

use crate::engine::Engine;
use crate::engine::affinity::affinity_hold::AffinityHold;
use crate::engine::clients::Process;
use crate::engine::keys::ClientId;
use freehold_linux::ThreadId;
use freehold_linux::process::is_thread_of;
use freehold_linux::sched;
use std::fs::File;
use std::io::Read;

/// Every one of so many first faults is looked at: a program that has just begun has not settled.
const FIRST: u64 = 4;
/// Then one of so many, but none sooner after the last look than the shortest time below: a look costs as much as two
/// faults.
const EVERY: u64 = 64;
/// And, of a thread that the scheduler may move, whatever comes so many nanoseconds after it was looked at: twice as
/// many each time that it was still there, up to the most. Until then it is held where it was, though it may have
/// moved.
const LOOK_AFTER: u64 = 1_000_000;
const LOOK_AT_LATEST: u64 = 4_000_000;
/// Threads of the agent's library in each client: the one that carries orders out, and the one that sees the server go.
const OF_THE_AGENT: usize = 2;
/// Longer than what `/proc` says of a thread.
const LONGEST: usize = 1024;

/// Who serves a client.
#[derive(Debug)]
pub(crate) struct Affinity {
    /// The pager thread.
    pub(crate) pager: usize,
    pub(crate) placement: Placement,
}

/// What was seen of a client's threads last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement {
    thread: u32,
    at: u64,
    /// Nanoseconds for which that is believed.
    sure: u64,
    /// The pager thread of the CPU on which it ran.
    pager: Option<usize>,
    /// That is the client's, and it can be held there.
    holds: bool,
    /// The program had no other.
    alone: bool,
}

/// What `/proc` says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whereabouts {
    /// The CPU on which it ran last.
    cpu: usize,
    /// Threads of its process.
    threads: usize,
}

impl Engine {
    /// A message of a client is about to be read, by which the kernel perhaps wakes who waits for that: the only thread
    /// of a program is held meanwhile. It waits, because nobody else has anything to tell.
    pub(in crate::engine) fn hold_alone(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Placement { thread, alone, .. } = client.affinity.placement;
        if alone {
            self.hold_there(id, thread);
        }
    }

    /// A thread of a client has faulted: now and then, looks where it runs, and has that CPU's pager thread serve it.
    /// While it is served, it is held there.
    pub(in crate::engine) fn follow_thread(&mut self, id: ClientId, thread: u32) {
        let Some(client) = self.client(id) else { return };
        if thread == client.process.agent_thread || client.process.pid == 0 {
            return;
        }
        let placement = client.affinity.placement;
        let elsewhere = placement.pager.is_some_and(|pager| pager != client.affinity.pager);
        let since = self.step.now.get().saturating_sub(placement.at);
        let old = (placement.holds || elsewhere) && since >= placement.sure;
        let turn = client.counts.faults.is_multiple_of(EVERY) && since >= LOOK_AFTER;
        if old || client.counts.faults <= FIRST || turn {
            self.look_where(id, thread);
        }
        self.hold_there(id, thread);
    }

    /// Holds the thread that was looked at last. One that cannot be held has one CPU or is of the deadline class: it is
    /// not tried again before the next look.
    fn hold_there(&mut self, id: ClientId, thread: u32) {
        let Some(client) = self.client(id) else { return };
        if !client.affinity.placement.holds || client.affinity.placement.thread != thread || self.step.held.is_some() {
            return;
        }
        let cpu = self.threads.cpus().get(client.affinity.pager).copied();
        self.step.held = cpu.and_then(|cpu| AffinityHold::hold(thread, cpu));
        let holds = self.step.held.is_some();
        if let Some(client) = self.client_mut(id) {
            client.affinity.placement.holds = holds;
        }
    }

    fn look_where(&mut self, id: ClientId, thread: u32) {
        let Some(client) = self.client(id) else { return };
        let (pid, before, last) = (client.process.pid, client.affinity.pager, client.affinity.placement);
        let placement = whereabouts(pid, thread);
        let found = placement.and_then(|placement| self.pager_on(placement.cpu));
        let alone = placement.is_some_and(|placement| placement.threads == 1 + OF_THE_AGENT);
        let only = alone || placement.is_some_and(|placement| placement.threads == 1);
        // Of several threads the next may be where the last was: all of them are followed only when two looks agree.
        let settled = only || last.pager == found;
        if let Some(pager) = found.filter(|pager| *pager != before && settled) {
            self.hand_over(id, pager);
        }
        let at = self.step.now.get();
        if let Some(client) = self.client_mut(id) {
            let holds = found == Some(client.affinity.pager);
            let sure = if found == Some(before) { 2 * last.sure } else { 0 };
            client.affinity.placement = Placement {
                thread,
                at,
                sure: sure.clamp(LOOK_AFTER, LOOK_AT_LATEST),
                pager: found,
                holds,
                alone,
            };
        }
    }

    /// Has another pager thread serve a client from now on.
    fn hand_over(&mut self, id: ClientId, pager: usize) {
        let Some(client) = self.client(id) else { return };
        let before = client.affinity.pager;
        self.listen_no_more(client);
        self.set_pager(id, pager);
        if self.listen_to(id).is_err() {
            // Some of it may be heard already; nobody hears it twice.
            if let Some(client) = self.client(id) {
                self.listen_no_more(client);
            }
            self.set_pager(id, before);
            if self.listen_to(id).is_err() {
                self.expel(id, "it cannot be waited for any more");
                return;
            }
        }
        self.place_agent(id);
    }

    fn set_pager(&mut self, id: ClientId, pager: usize) {
        if let Some(client) = self.client_mut(id) {
            client.affinity.pager = pager;
        }
    }

    /// Another thread is a client's agent from now on; the number is the client's word.
    pub(crate) fn set_agent_thread(&mut self, id: ClientId, thread: u32) {
        if let Some(client) = self.client_mut(id) {
            client.process.agent_thread = thread;
        }
        self.place_agent(id);
    }

    /// Puts the agent thread of a client beside its pager thread, as far as that is allowed.
    pub(in crate::engine) fn place_agent(&self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let cpu = self.threads.cpus().get(client.affinity.pager);
        let (Some(&cpu), Some(agent)) = (cpu, agent_of(&client.process)) else {
            return;
        };
        // Where it is refused, by the client's own CPU set for one, the agent is woken from afar.
        let _ = sched::pin(agent, cpu);
    }

    fn pager_on(&self, cpu: usize) -> Option<usize> {
        self.threads.cpus().iter().position(|own| *own == cpu)
    }

    /// The pager thread for a process of which nothing is known yet: the one on whose CPU its first thread runs, else
    /// the first.
    pub(in crate::engine) fn pager_for(&self, pid: u32) -> usize {
        whereabouts(pid, pid)
            .and_then(|placement| self.pager_on(placement.cpu))
            .unwrap_or(0)
    }
}

/// A client's agent thread: only a thread of that process, for the number is the client's word.
pub(in crate::engine) fn agent_of(process: &Process) -> Option<ThreadId> {
    let agent = Some(process.agent_thread).filter(|agent| is_thread_of(process.pid, *agent))?;
    i32::try_from(agent).ok().and_then(ThreadId::from_raw)
}

/// What is known of a thread of a process.
fn whereabouts(pid: u32, thread: u32) -> Option<Whereabouts> {
    let mut text = [0; LONGEST];
    let length = sched::undisturbed(|| {
        let mut file = File::open(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
        file.read(&mut text).ok()
    });
    understand(text.get(..length?)?)
}

/// The 20th and the 39th field of what `/proc` says of a thread, whose second may hold anything.
fn understand(stat: &[u8]) -> Option<Whereabouts> {
    let rest = stat.rsplit(|byte| *byte == b')').next()?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let threads = fields.nth(17)?.parse().ok()?;
    let cpu = fields.nth(18)?.parse().ok()?;
    Some(Whereabouts { cpu, threads })
}

#[cfg(test)]
mod tests {
    use super::{Whereabouts, understand, whereabouts};

    #[test]
    fn a_name_may_hold_anything() {
        let fields: Vec<String> = (3..53).map(|at: u32| at.to_string()).collect();
        let stat = format!("7 (a) b 1 2 (3)) {}\n", fields.join(" "));
        let expected = Whereabouts { cpu: 39, threads: 20 };
        assert_eq!(understand(stat.as_bytes()), Some(expected));
        assert_eq!(understand(b"7 (cut off) S 1"), None);
    }

    #[test]
    fn only_threads_of_the_process_are_found() {
        let me = std::process::id();
        let placement = whereabouts(me, me).expect("the first thread runs somewhere");
        assert!(placement.threads >= 1, "{placement:?}");
        assert_eq!(whereabouts(me, 1), None, "the first process is no thread of this one");
    }
}
