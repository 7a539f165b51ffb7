//! The thread that looks whether the engine goes on.

use crate::engine::is_trusted;
use crate::shared::{EngineGuard, Shared};
use freehold_linux::charge::ChargeLimits;
use freehold_linux::event::Wakeup;
use freehold_linux::user_filesystems::UserFilesystems;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{error, warn};

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(250);
/// After so many looks at the same step, file systems end of the user whose address space it waits for.
const OWN: u32 = 4;
/// After so many those of all users.
const ALL: u32 = 8;
/// After so many, and so many again, it is said that nothing helps.
const HELPLESS: u32 = 40;

/// Where somebody has the engine it is tried again so often, after so long.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_micros(100);
/// Looks from one at the limits of clients' memory cgroups to the next.
const LIMITS: u32 = 4;

/// What has been seen.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    /// The kernel's list, or why there is none.
    list: Option<UserFilesystems>,
    /// The step that was under way at the last look.
    step: u64,
    /// How often it was seen.
    seen: u32,
    /// Whose clients end when the engine goes on.
    guilty: BTreeSet<u32>,
    /// Looks since one at limits.
    since_limits: u32,
}

impl Watch {
    /// Nothing seen yet.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            list: None,
            step: 0,
            seen: 0,
            guilty: BTreeSet::new(),
            since_limits: 0,
        }
    }

    /// Looks until `stop` is signalled and the server ends.
    pub(crate) fn keep(mut self, stop: &Wakeup, ending: &AtomicBool) {
        loop {
            // Interrupted, it looks a little early.
            let _ = stop.wait(Some(LOOK));
            self.look();
            if ending.load(Ordering::Acquire) {
                // A thread that has the engine ends before the server does.
                if self.shared.step_under_way().is_none() {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }
    }

    fn look(&mut self) {
        match self.shared.step_under_way() {
            Some(step) if step == self.step => {
                self.seen = self.seen.saturating_add(1);
                self.boost();
            }
            Some(step) => (self.step, self.seen) = (step, 0),
            None => self.seen = 0,
        }
        self.expel();
        self.since_limits += 1;
        if self.since_limits >= LIMITS {
            self.since_limits = 0;
            self.look_at_limits();
        }
    }

    /// The engine, between two steps. Never waits for one step.
    fn engine_between_steps(&self) -> Option<EngineGuard<'_>> {
        (0..TRIES).find_map(|_| {
            let engine = self.shared.engine_if_free();
            if engine.is_none() {
                std::thread::sleep(PAUSE);
            }
            engine
        })
    }

    /// A client may have entered another memory cgroup, or that may have another limit.
    fn look_at_limits(&self) {
        let programs = self.engine_between_steps().map(|engine| engine.programs());
        for (client, pid) in programs.into_iter().flatten() {
            let limits = ChargeLimits::of(pid);
            // Where a step does not end this thread is needed for that.
            let Some(mut engine) = self.engine_between_steps() else {
                return;
            };
            let old = engine.set_limits(client, limits);
            drop(engine);
            drop(old);
        }
    }

    /// The same step is still under way.
    fn boost(&mut self) {
        let user = self.shared.stalls().held_by();
        if self.seen == OWN {
            self.end(user, |owner| Some(owner) == user);
        } else if self.seen == ALL {
            self.end(user, |_| true);
        } else if self.seen.is_multiple_of(HELPLESS) {
            error!(
                ?user,
                "the engine does not go on, and nobody is served: the kernel keeps an address space"
            );
        }
    }

    /// Ends file systems that have not answered, of users who are not trusted.
    fn end(&mut self, user: Option<u32>, of: impl Fn(u32) -> bool) {
        let mut ended = end_unanswered(&mut self.list, of);
        if ended.is_empty() {
            return;
        }
        ended.extend(user.filter(|user| !is_trusted(*user)));
        for user in &ended {
            self.shared.stalls().bar(*user);
        }
        self.guilty.append(&mut ended);
    }

    /// Ends the clients of those who have held up the engine, when nobody has it.
    fn expel(&mut self) {
        if self.guilty.is_empty() {
            return;
        }
        if let Some(mut engine) = self.shared.engine_if_free() {
            for user in std::mem::take(&mut self.guilty) {
                engine.expel_user(user);
            }
        }
    }
}

/// Ends file systems that owe an answer, of those users that `of` names and that are not trusted; whose they were.
pub(crate) fn end_unanswered(list: &mut Option<UserFilesystems>, of: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let mut owners = BTreeSet::new();
    if list.is_none() {
        *list = match UserFilesystems::list() {
            Ok(list) => Some(list),
            Err(errno) => {
                error!(%errno, "a file system of a user's may be waited for, and cannot be ended");
                return owners;
            }
        };
    }
    let Some(list) = list else { return owners };
    for late in list.unanswered().unwrap_or_default() {
        let owner = late.owner();
        if is_trusted(owner) || !of(owner) {
            continue;
        }
        warn!(
            user = owner,
            "a file system of this user's is ended: it does not answer, and is waited for"
        );
        if list.end(&late).is_ok() {
            owners.insert(owner);
        }
    }
    owners
}
