//! Who calls whom, and what hangs.

use super::RunError;
use crate::composition::Composition;
use freehold_tmem::Pool;
use freehold_tmem::channel::Channel;
use std::path::Path;
use std::time::{Duration, Instant};

/// A channel from a component, or from the threads of the manager, to a component.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) from: Option<usize>,
    pub(super) to: usize,
    pub(super) channel: Channel,
    /// Late calls that were seen so far.
    late: u32,
    suspect: Option<Suspect>,
}

/// What a callee did when its caller said that it was late. The callee is believed to hang only where it still does so
/// after the bound: the caller may say anything.
#[derive(Debug)]
struct Suspect {
    since: Instant,
    /// Its stacks in use, with the number of each use: a call has one from its beginning to its end.
    calls: Vec<(usize, u32)>,
}

impl Edge {
    /// Whether the callee is found to hang: told of late calls, and given as long as the bound after that.
    pub(super) fn take_hung(&mut self, late: bool, bound: Duration, stacks: Option<&Pool>) -> bool {
        let calls = || stacks.map(Pool::uses).unwrap_or_default();
        if late && self.suspect.is_none() {
            let since = Instant::now();
            self.suspect = Some(Suspect { since, calls: calls() });
        }
        let over = self.suspect.take_if(|suspect| suspect.since.elapsed() >= bound);
        over.is_some_and(|suspect| calls().iter().any(|call| suspect.calls.contains(call)))
    }

    /// Frees what the channel has of a process that has died, or that it made up, while the caller's process lives.
    pub(super) fn reset_claims(&self, caller: Option<u32>) {
        let lives = |thread: u32| caller.is_some_and(|caller| is_thread_of(caller, thread));
        self.channel.reset_claims(lives);
    }

    /// Whether calls have been late since the last time.
    pub(super) fn take_late(&mut self) -> bool {
        let late = self.channel.late();
        std::mem::replace(&mut self.late, late) != late
    }
}

/// A channel for each pair of components, and of the manager's threads and a component.
pub(super) fn edges(composition: &Composition, shared: bool) -> Result<Vec<Edge>, RunError> {
    let mut edges = Vec::new();
    for (to, component) in composition.components.iter().enumerate() {
        let callers = composition.components.iter().enumerate();
        let callers = callers.filter(|(_, caller)| !shared && caller.calls.contains(&component.name));
        let mut froms: Vec<Option<usize>> = callers.map(|(from, _)| Some(from)).collect();
        if composition
            .threads
            .iter()
            .any(|thread| thread.component == component.name)
        {
            froms.push(None);
        }
        for from in froms {
            let channel = Channel::create(component.contexts)?;
            edges.push(Edge {
                from,
                to,
                channel,
                late: 0,
                suspect: None,
            });
        }
    }
    Ok(edges)
}

fn is_thread_of(process: u32, thread: u32) -> bool {
    Path::new(&format!("/proc/{process}/task/{thread}")).exists()
}
