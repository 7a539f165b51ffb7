//! When a thread of another process runs, waits and blocks: the kernel's records of its context switches.
//!
//! One set of events for each CPU, each set with a ring of its own: a thread is woken up by whoever runs on some CPU,
//! and the kernel writes that record into the ring of that CPU only. [`SchedEvents::take`] puts the records in order.

#[cfg(test)]
mod tests;

use crate::clock::{MonotonicTime, now};
use crate::perf::ring::{Entry, Ring, join, start};
use crate::perf::{self, Attributes};
use crate::{Errno, ThreadId, sched, tracefs};
use freehold_protocol::WAIT_MARK;
use rustix::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::time::Duration;

/// Pages of one ring's records; a power of two.
const PAGES: usize = 128;
/// Records this young may still be joined by older ones from other CPUs.
const YOUNG: Duration = Duration::from_micros(200);

/// All threads.
const EVERYBODY: i32 = -1;
/// Of `sched_switch`: the thread that stops waits for something, and for no signal (`TASK_UNINTERRUPTIBLE`).
const UNINTERRUPTIBLE: &str = "prev_state & 2";
/// Of `sched_switch`: it waits for something, and a signal interrupts that (`TASK_INTERRUPTIBLE`).
const INTERRUPTIBLE: &str = "prev_state & 1";

/// What each sample has.
const IDENTIFIER_AND_TIME: u64 = 1 << 16 | 1 << 2;
/// And some have: the fifth and sixth argument of the system call that the thread is in (r8 and r9).
const USER_REGISTERS: u64 = 1 << 12;
const ARGUMENTS: u64 = 1 << 16 | 1 << 17;
/// What the registers of a program of 64 bits begin with.
const WIDE: u64 = 2;

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
const OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;

/// What happened to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It can run again, and waits for a CPU. Only where [`SchedEvents::has_wakeups`].
    Woken,
    /// It runs.
    On,
    /// It does not run any more, and could: another was preferred, or its budget is used up.
    Preempted,
    /// It does not run any more, and waits for something.
    Blocked,
    /// It is about to block where no signal interrupts it: for a disk, or in a system call whose end another decides.
    /// Only where [`SchedEvents::has_deep_sleeps`].
    Deep,
    /// It is about to block until the agent of its memory server has answered, in a system call that carries
    /// [`WAIT_MARK`]. Only where [`SchedEvents::has_asking`].
    Asking,
    /// A page fault has begun.
    FaultBegun,
    /// A page fault is over: what it waited for has come.
    FaultEnded,
    /// The kernel had no room for what happened until now: nothing is known of what the thread does.
    Lost,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: MonotonicTime,
    /// What.
    pub what: Happening,
}

/// The records cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedEventsError {
    /// The right is missing.
    #[error(
        "perf_event_open is not allowed: grant CAP_PERFMON, or set kernel.perf_event_paranoid to 1 or lower and own \
         the process"
    )]
    NotPermitted,
    /// The caller's mistake: the thread has ended.
    #[error("thread {0} has ended")]
    NoSuchThread(u32),
    /// Some other refusal.
    #[error("context switches cannot be recorded: {0}")]
    System(Errno),
}

/// One ring and the events that write to it.
#[derive(Debug)]
struct PerCpu {
    ring: Ring,
    /// The identifiers of the events, which samples carry.
    meanings: Vec<(u64, Happening)>,
    events: Vec<OwnedFd>,
}

/// The records of one thread.
#[derive(Debug)]
pub struct SchedEvents {
    rings: Vec<PerCpu>,
    wakeups: bool,
    deep: bool,
    asking: bool,
    early: Vec<Record>,
    lost: u64,
}

impl SchedEvents {
    /// Begins to record what `thread` does, on all CPUs that are online. Costs a system call for each of seven events
    /// and 516 KiB of locked memory for each CPU.
    ///
    /// # Errors
    /// See [`SchedEventsError`].
    pub fn of(thread: ThreadId) -> Result<Self, SchedEventsError> {
        let refused = |errno| match errno {
            Errno::PERM | Errno::ACCESS => SchedEventsError::NotPermitted,
            Errno::SRCH => SchedEventsError::NoSuchThread(thread.get()),
            other => SchedEventsError::System(other),
        };
        let tracepoints = Tracepoints {
            waking: tracefs::number("sched", "sched_waking").filter(|_| is_first_namespace()),
            switching: tracefs::number("sched", "sched_switch"),
        };
        let (mut wakeups, mut deep, mut asking) = (true, true, true);
        let mut rings = Vec::new();
        for cpu in sched::online_cpus() {
            let cpu = i32::try_from(cpu).unwrap_or(0);
            let ring = PerCpu::open(thread, cpu, tracepoints).map_err(refused)?;
            wakeups &= ring.tells(Happening::Woken);
            deep &= ring.tells(Happening::Deep);
            asking &= ring.tells(Happening::Asking);
            rings.push(ring);
        }
        Ok(Self {
            rings,
            wakeups,
            deep,
            asking,
            early: Vec::new(),
            lost: 0,
        })
    }

    /// Whether it is recorded when the thread is woken up. Needs the right to read the tracing file system and to
    /// record other threads' wake-ups (CAP_PERFMON), in the first namespace of processes.
    #[must_use]
    pub fn has_wakeups(&self) -> bool {
        self.wakeups
    }

    /// Whether blocks that no signal interrupts are told from others. Needs the right to read the tracing file system
    /// and to record tracepoints (CAP_PERFMON).
    #[must_use]
    pub fn has_deep_sleeps(&self) -> bool {
        self.deep
    }

    /// Whether waits for the agent of a memory server are told from others. Needs the same.
    #[must_use]
    pub fn has_asking(&self) -> bool {
        self.asking
    }

    /// Records that the kernel had no room for.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Moves the records that have come to the end of `records`, in the order of time. The last 200 µs are kept until
    /// the next call, unless it is `last`.
    pub fn take(&mut self, records: &mut Vec<Record>, last: bool) {
        let limit = if last {
            u64::MAX
        } else {
            now().as_nanos().saturating_sub(nanos(YOUNG))
        };
        for ring in &self.rings {
            self.lost += ring.read(&mut self.early);
        }
        // Stable: what one CPU has written at one time stays in its order.
        self.early.sort_by_key(|record| record.time);
        let count = self.early.partition_point(|record| record.time.as_nanos() <= limit);
        records.extend(self.early.drain(..count));
    }
}

impl PerCpu {
    fn open(thread: ThreadId, cpu: i32, tracepoints: Tracepoints) -> Result<Self, Errno> {
        const SOFTWARE: u32 = 1;
        const DUMMY: u64 = 9;
        let leader = open_event((thread.as_pid(), cpu), SOFTWARE, DUMMY, false)?;
        let faults = [
            (2, Happening::FaultBegun),
            (5, Happening::FaultEnded),
            (6, Happening::FaultEnded),
        ];
        let mut followers = Vec::new();
        for (config, meaning) in faults {
            let event = open_event((thread.as_pid(), cpu), SOFTWARE, config, false)?;
            followers.push((event, meaning));
        }
        // The thread's own events see only what it does itself: the wake-ups of all threads, narrowed down to its own.
        let own = format!("pid=={}", thread.get());
        let (own, waking, switching) = (own.as_str(), tracepoints.waking, tracepoints.switching);
        let tracepoints = [
            (EVERYBODY, waking, own, Happening::Woken),
            (thread.as_pid(), switching, UNINTERRUPTIBLE, Happening::Deep),
            (thread.as_pid(), switching, INTERRUPTIBLE, Happening::Asking),
        ];
        for (whose, number, filter, meaning) in tracepoints {
            let event = open_tracepoint((whose, cpu), number, filter, meaning == Happening::Asking);
            followers.extend(event.map(|event| (event, meaning)));
        }
        let mut this = Self {
            ring: Ring::map(&leader, PAGES)?,
            meanings: Vec::new(),
            events: Vec::new(),
        };
        for (event, meaning) in followers {
            this.meanings.push((join(&event, &leader)?, meaning));
            this.events.push(event);
        }
        start(&leader)?;
        for event in &this.events {
            start(event)?;
        }
        this.events.push(leader);
        Ok(this)
    }

    fn tells(&self, what: Happening) -> bool {
        self.meanings.iter().any(|(_, meaning)| *meaning == what)
    }

    /// Appends what has come; how many records were lost.
    fn read(&self, records: &mut Vec<Record>) -> u64 {
        let mut lost = 0;
        self.ring.read(|entry| match entry.kind {
            // id, count, and what all records end with.
            LOST => {
                lost += entry.word(16);
                records.push(record(entry, 24, Happening::Lost));
            }
            SAMPLE => {
                let id = entry.word(8);
                let meaning = self.meanings.iter().find(|(known, _)| *known == id);
                let told = |what| what != Happening::Asking || is_marked(entry);
                let what = meaning.map(|(_, what)| *what).filter(|what| told(*what));
                records.extend(what.map(|what| record(entry, 16, what)));
            }
            SWITCH if entry.flags & OUT == 0 => records.push(record(entry, 8, Happening::On)),
            SWITCH if entry.flags & PREEMPTED != 0 => records.push(record(entry, 8, Happening::Preempted)),
            SWITCH => records.push(record(entry, 8, Happening::Blocked)),
            _ => {}
        });
        lost
    }
}

/// A record whose time lies at an offset of `entry`.
fn record(entry: &Entry<'_>, time: u64, what: Happening) -> Record {
    Record {
        time: MonotonicTime::from_nanos(entry.word(time)),
        what,
    }
}

/// Whether the registers that a sample ends with are those of a wait for an agent.
fn is_marked(entry: &Entry<'_>) -> bool {
    const REGISTERS: u64 = 24;
    let [fifth, sixth] = WAIT_MARK.map(|word| word as u64);
    entry.length >= REGISTERS + 24
        && entry.word(REGISTERS) == WIDE
        && (entry.word(REGISTERS + 8), entry.word(REGISTERS + 16)) == (fifth, sixth)
}

/// An event of one thread, or of everybody, on one CPU that is not yet counted; with the thread's `arguments` or not.
fn open_event((thread, cpu): (i32, i32), kind: u32, config: u64, arguments: bool) -> Result<OwnedFd, Errno> {
    const DISABLED: u64 = 1;
    const ALL_RECORDS: u64 = 1 << 18;
    const CLOCK: u64 = 1 << 25;
    const SWITCHES: u64 = 1 << 26;
    const DUMMY: u64 = 9;
    let switches = if kind == 1 && config == DUMMY { SWITCHES } else { 0 };
    let attributes = Attributes {
        kind,
        config,
        period: 1,
        sample: IDENTIFIER_AND_TIME | if arguments { USER_REGISTERS } else { 0 },
        user_registers: if arguments { ARGUMENTS } else { 0 },
        flags: DISABLED | ALL_RECORDS | CLOCK | switches,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    perf::open(&attributes, thread, cpu)
}

/// A tracepoint that tells of what its filter lets through; none where it cannot be had.
fn open_tracepoint(place: (i32, i32), number: Option<u64>, filter: &str, arguments: bool) -> Option<OwnedFd> {
    const TRACEPOINT: u32 = 2;
    let event = open_event(place, TRACEPOINT, number?, arguments).ok()?;
    perf::narrow(&event, filter).ok()?;
    Some(event)
}

/// Numbers of tracepoints, as far as they are known.
#[derive(Clone, Copy)]
struct Tracepoints {
    /// Tells of wake-ups.
    waking: Option<u64>,
    /// Tells in which state a thread stops.
    switching: Option<u64>,
}

/// Filters know threads by their numbers in the first namespace of processes, and are of no use in others.
fn is_first_namespace() -> bool {
    const FIRST_NAMESPACE: u64 = 0xeffffffc;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|status| status.st_ino() == FIRST_NAMESPACE)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
