//! A client: its process, and what each part of the engine has of it.

use crate::closing::Lent;
use crate::engine::affinity::pager_affinity::{Affinity, Placement};
use crate::engine::clients::client_pool::ClientChannels;
use crate::engine::faults::deferred::Deferred;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::forks::Family;
use crate::engine::keys::{ClientId, ClientRole, TaskKey};
use crate::engine::orders::Outbox;
use crate::engine::prefetch::Prefetch;
use crate::engine::private_memory::PrivateMemory;
use crate::engine::private_memory::transfer_memory::TransferMemory;
use crate::engine::spaces::Segment;
use crate::times::Times;
use freehold_linux::ThreadId;
use freehold_linux::charge::ChargeLimits;
use freehold_linux::process::send_to_thread;
use freehold_linux::sched::Policy;
use freehold_linux::userfault::Userfault;
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeMap;

/// The process that a client is, by the kernel's word, and what it calls itself.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: ClientRole,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// None of a forked child that has not connected.
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) name: String,
    pub(crate) agent_thread: u32,
    /// What its memory cgroups allow it.
    pub(crate) limits: ChargeLimits,
}

impl Process {
    /// A process of a user's that has not connected.
    pub(crate) fn unknown(role: ClientRole, uid: u32, name: String) -> Self {
        Self {
            role,
            pid: 0,
            uid,
            pidfd: None,
            name,
            agent_thread: 0,
            limits: ChargeLimits::default(),
        }
    }

    /// Sends it a signal, if it is known.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pidfd) = &self.pidfd {
            // It may have gone already.
            let _ = rustix::process::pidfd_send_signal(pidfd, signal);
        }
    }

    /// Sends a signal to one of its threads, which waits in the kernel; to all of it, where that is not known here by
    /// the number that it has in the process.
    pub(crate) fn signal_thread(&self, thread: u32, signal: Signal) {
        let told = thread != 0 && send_to_thread(self.pid, thread, signal.as_raw()).is_ok();
        if !told {
            self.signal(signal);
        }
    }
}

/// A client's userfaultfds.
#[derive(Debug, Default)]
pub(crate) struct Userfaults {
    pub(crate) shared: Option<Lent<Userfault>>,
    pub(crate) private: Option<Lent<Userfault>>,
}

/// Faults of a client that wait outside of the core.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// At addresses that nothing is known about yet: a mapping may be announced later.
    pub(crate) parked: Vec<FaultMessage>,
    /// To look at again when the client's events have been read.
    pub(crate) deferred: Deferred<FaultMessage>,
}

/// What is counted of a client's faults.
#[derive(Debug)]
pub(crate) struct FaultCounts {
    pub(crate) faults: u64,
    pub(crate) strange: u64,
    pub(crate) times: Times,
}

/// How a client answers orders.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Since when it has answered every order to give up a page with a refusal, in nanoseconds; 0 if it has not.
    pub(crate) refusing: u64,
    /// It was stopped for good.
    pub(crate) frozen: bool,
    /// It is making room below the limit of its memory cgroup.
    pub(crate) charging: Option<Charging>,
}

/// A client's agent thread makes room, as an ordinary thread: that may take long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charging {
    /// The real-time thread that it was, where it was one.
    pub(crate) lowered: Option<(ThreadId, Policy)>,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) process: Process,
    pub(crate) userfaults: Userfaults,
    pub(crate) outbox: Outbox,
    pub(crate) slots: TransferMemory,
    pub(crate) space: BTreeMap<u64, Segment>,
    pub(crate) tasks: Vec<TaskKey>,
    /// The highest of its tasks.
    pub(crate) urgency: u8,
    pub(crate) waiting: Waiting,
    pub(crate) affinity: Affinity,
    pub(crate) counts: FaultCounts,
    pub(crate) memory: PrivateMemory,
    pub(crate) standing: Standing,
    pub(crate) prefetch: Prefetch,
    pub(crate) family: Family,
}

impl Client {
    /// A client of which nothing is known yet.
    pub(in crate::engine) fn new(
        id: ClientId,
        process: Process,
        ClientChannels { outbox, slots }: ClientChannels,
        pager: usize,
    ) -> Self {
        Self {
            id,
            process,
            userfaults: Userfaults::default(),
            outbox,
            slots,
            space: BTreeMap::new(),
            tasks: Vec::new(),
            urgency: 0,
            waiting: Waiting::default(),
            affinity: Affinity {
                pager,
                placement: Placement::default(),
            },
            counts: FaultCounts {
                faults: 0,
                strange: 0,
                times: Times::new(),
            },
            memory: PrivateMemory::default(),
            standing: Standing::default(),
            prefetch: Prefetch::default(),
            family: Family::default(),
        }
    }

    pub(crate) fn userfault(&self, which: Which) -> Option<&Userfault> {
        match which {
            Which::Shared => self.userfaults.shared.as_deref(),
            Which::Private => self.userfaults.private.as_deref(),
        }
    }

    /// Whether somebody carries out orders for it: not for a child that has not connected, nor where it has ended or
    /// was stopped.
    pub(crate) fn has_agent(&self) -> bool {
        self.family.parent.is_none() && !self.family.gone && !self.standing.frozen
    }

    /// The segment that an address lies in, and where it begins.
    pub(crate) fn segment(&self, address: u64) -> Option<(u64, Segment)> {
        let (&start, &segment) = self.space.range(..=address).next_back()?;
        (address < segment.end).then_some((start, segment))
    }
}
