//! The class of threads (sched(7)): what a thread starts begins with its own.

use crate::report;
use crate::sys;

/// `SCHED_FIFO` and `SCHED_RR`.
const FIFO: usize = 1;
const ROUND_ROBIN: usize = 2;
const DEADLINE: usize = 6;
/// Threads that are started begin as ordinary ones.
const RESET_ON_FORK: usize = 0x4000_0000;

/// A class, and the priority in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    policy: usize,
    priority: u32,
}

impl Class {
    /// The class of a thread; 0 is the calling one.
    fn of(thread: u32) -> Option<Self> {
        const GET_PARAMETERS: usize = 143;
        const GET_SCHEDULER: usize = 145;
        let mut priority = 0_u32;
        let place = core::ptr::from_mut(&mut priority) as usize;
        // SAFETY: the one number of the second call.
        let (policy, told) = unsafe {
            (
                sys::call5(GET_SCHEDULER, thread as usize, 0, 0, 0, 0),
                sys::call5(GET_PARAMETERS, thread as usize, place, 0, 0, 0),
            )
        };
        told.ok()?;
        Some(Self {
            policy: policy.ok()?,
            priority,
        })
    }

    fn is_real_time(self) -> bool {
        matches!(self.policy & !RESET_ON_FORK, FIFO | ROUND_ROBIN)
    }

    /// Gives the calling thread this class. Whether it has it now.
    fn take(self) -> bool {
        const SET_SCHEDULER: usize = 144;
        let place = core::ptr::from_ref(&self.priority) as usize;
        // SAFETY: reads the one number.
        unsafe { sys::call5(SET_SCHEDULER, 0, self.policy, place, 0, 0) }.is_ok()
    }
}

/// The calling thread comes before others as a thread of the agent did, so that what it starts does.
///
/// Whoever has a name space of users of its own has no right to that any more.
#[derive(Debug)]
pub(crate) struct Raised {
    agent: Class,
    /// The calling thread's own class, where that has been changed.
    own: Option<Class>,
}

impl Raised {
    /// Raises the calling thread to the class of the agent thread; where it may not, it stays. None where that class
    /// cannot be known.
    pub(crate) fn to(agent: u32) -> Option<Self> {
        let (agent, own) = (Class::of(agent)?, Class::of(0)?);
        // What is given up here must be had back without any right: a lower priority in the same class, or none.
        let policy = if own.policy == ROUND_ROBIN { ROUND_ROBIN } else { FIFO };
        let raised = Class {
            policy,
            priority: agent.priority,
        };
        let resets = own.policy & RESET_ON_FORK != 0 || own.policy == DEADLINE;
        let may = agent.is_real_time() && !resets && own.priority < agent.priority;
        Some(Self {
            agent,
            own: (may && raised.take()).then_some(own),
        })
    }

    /// Gives the calling thread its class back.
    pub(crate) fn undo(&self) {
        if let Some(own) = self.own {
            own.take();
        }
    }

    /// The same. The thread that it has started meanwhile is the agent now.
    pub(crate) fn end(self, agent: u32) {
        self.undo();
        if self.agent.is_real_time() && !Class::of(agent).is_some_and(Class::is_real_time) {
            report::say(&[b"the agent of this program is an ordinary thread now: others may wait for its pages"]);
        }
    }
}
