//! Tracepoints of the whole kernel, or of one CPU: when each was passed, by which thread, with which fields.

use crate::clock::MonotonicTime;
use crate::perf::ring::{Ring, identifier, join, start};
use crate::perf::{self, Attributes};
use crate::{Errno, tracefs};
use rustix::fd::OwnedFd;

/// What each sample has: identifier, thread, time, and the tracepoint's fields.
const IDENTIFIER_THREAD_TIME_RAW: u64 = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 10;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// A tracepoint by its names, as in `events/SYSTEM/NAME` of the tracing file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The folder.
    pub system: &'static str,
    /// The folder in it.
    pub name: &'static str,
}

/// Tracepoints cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The right is missing, or the kernel has no such tracepoint.
    #[error(
        "the tracepoint {system}:{name} cannot be read: the kernel needs CONFIG_FTRACE, and the caller CAP_SYS_ADMIN \
         or a tracing file system at /sys/kernel/tracing that he may read",
        system = .0.system, name = .0.name
    )]
    Unknown(Tracepoint),
    /// The right is missing.
    #[error("perf_event_open is not allowed: grant CAP_PERFMON, or set kernel.perf_event_paranoid to -1")]
    NotPermitted,
    /// Some other refusal.
    #[error("tracepoints cannot be recorded: {0}")]
    System(Errno),
}

/// One passing of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When.
    pub time: MonotonicTime,
    /// Which, by its place in what [`Trace::open`] was given.
    pub which: usize,
    /// The process of the thread that ran, as the first name space of processes counts.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The fields, laid out as the tracepoint's `format` says; the kernel may append zeros.
    pub fields: &'a [u8],
}

/// Tracepoints that are being recorded, until this is dropped.
#[derive(Debug)]
pub struct Trace {
    cpus: Vec<PerCpu>,
    lost: u64,
}

#[derive(Debug)]
struct PerCpu {
    ring: Ring,
    /// The identifier of each tracepoint, in their order.
    identifiers: Vec<u64>,
    _events: Vec<OwnedFd>,
}

impl Trace {
    /// Begins to record what passes `tracepoints` on some CPUs, each with a ring of `pages` pages: a power of two,
    /// which counts as locked memory.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn open(cpus: &[usize], tracepoints: &[Tracepoint], pages: usize) -> Result<Self, TraceError> {
        let number = |tracepoint: &Tracepoint| number(*tracepoint).ok_or(TraceError::Unknown(*tracepoint));
        let numbers = tracepoints.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let refused = |errno| match errno {
            Errno::PERM | Errno::ACCESS => TraceError::NotPermitted,
            other => TraceError::System(other),
        };
        Self::on(cpus, &numbers, None, pages).map_err(refused)
    }

    /// As [`open`](Self::open), of one tracepoint by its number, and only what a filter on its fields lets through.
    pub(crate) fn open_some(cpus: &[usize], number: u64, filter: &str, pages: usize) -> Result<Self, Errno> {
        Self::on(cpus, &[number], Some(filter), pages)
    }

    fn on(cpus: &[usize], numbers: &[u64], filter: Option<&str>, pages: usize) -> Result<Self, Errno> {
        let cpus = cpus.iter().map(|&cpu| PerCpu::open(cpu, numbers, filter, pages));
        Ok(Self {
            cpus: cpus.collect::<Result<_, _>>()?,
            lost: 0,
        })
    }

    /// Calls `each` for every sample that has come, CPU by CPU; those of one CPU are in the order of time. The calling
    /// thread's own reading passes tracepoints too.
    pub fn take(&mut self, mut each: impl FnMut(&Sample<'_>)) {
        for cpu in &self.cpus {
            self.lost += cpu.read(&mut each);
        }
    }

    /// Samples that the kernel had no room for.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl PerCpu {
    fn open(cpu: usize, numbers: &[u64], filter: Option<&str>, pages: usize) -> Result<Self, Errno> {
        let cpu = i32::try_from(cpu).map_err(|_| Errno::INVAL)?;
        let mut events = Vec::new();
        for &number in numbers {
            let event = open_event(cpu, number)?;
            if let Some(filter) = filter {
                perf::narrow(&event, filter)?;
            }
            events.push(event);
        }
        let leader = events.first().ok_or(Errno::INVAL)?;
        let ring = Ring::map(leader, pages)?;
        let mut identifiers = vec![identifier(leader)?];
        for event in &events[1..] {
            identifiers.push(join(event, leader)?);
        }
        for event in &events {
            start(event)?;
        }
        Ok(Self {
            ring,
            identifiers,
            _events: events,
        })
    }

    /// Reads what has come; how many were lost.
    fn read(&self, each: &mut impl FnMut(&Sample<'_>)) -> u64 {
        let mut lost = 0;
        let mut fields = Vec::new();
        self.ring.read(|entry| match entry.kind {
            LOST => lost += entry.word(16),
            SAMPLE => {
                // identifier, thread, time, then the length of the fields and they themselves.
                let id = entry.word(8);
                let Some(which) = self.identifiers.iter().position(|known| *known == id) else {
                    return;
                };
                let threads = entry.word(16);
                let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
                fields.clear();
                entry.copy(32, 4 + u64::from(low(entry.word(32))), &mut fields);
                each(&Sample {
                    time: MonotonicTime::from_nanos(entry.word(24)),
                    which,
                    process: low(threads),
                    thread: low(threads >> 32),
                    fields: fields.get(4..).unwrap_or(&[]),
                });
            }
            _ => {}
        });
        lost
    }
}

/// A tracepoint on a CPU that is not counted yet.
fn open_event(cpu: i32, number: u64) -> Result<OwnedFd, Errno> {
    const TRACEPOINT: u32 = 2;
    const DISABLED: u64 = 1;
    const CLOCK: u64 = 1 << 25;
    const EVERYBODY: i32 = -1;
    let attributes = Attributes {
        kind: TRACEPOINT,
        config: number,
        period: 1,
        sample: IDENTIFIER_THREAD_TIME_RAW,
        flags: DISABLED | CLOCK,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    perf::open(&attributes, EVERYBODY, cpu)
}

/// The number of a tracepoint; none where the calling thread may not read it, or the kernel has none such.
pub(crate) fn number(tracepoint: Tracepoint) -> Option<u64> {
    tracefs::number(tracepoint.system, tracepoint.name)
}

/// Where a field lies in a sample, and how many bytes it has, as the tracepoint's `format` says.
#[must_use]
pub fn field(tracepoint: Tracepoint, name: &str) -> Option<(usize, usize)> {
    let format = tracefs::read(&format!("events/{}/{}/format", tracepoint.system, tracepoint.name))?;
    format.lines().find_map(|line| place(line, name))
}

/// The place and size that a line of a format gives for a field of this name.
fn place(line: &str, name: &str) -> Option<(usize, usize)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?.split_ascii_whitespace().next_back()?;
    let declared = declared.split('[').next()?.trim_start_matches('*');
    if declared != name {
        return None;
    }
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((offset, size))
}

#[cfg(test)]
mod tests {
    use super::{Trace, Tracepoint, field, place};
    use crate::{ThreadId, sched, tracefs};
    use std::time::Duration;

    const SWITCH: Tracepoint = Tracepoint {
        system: "sched",
        name: "sched_switch",
    };

    #[test]
    fn places_of_fields_are_read_from_a_format() {
        let line = "\tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;";
        assert_eq!(place(line, "i_ino"), Some((16, 8)));
        assert_eq!(place(line, "ino"), None);
        assert_eq!(
            place("\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;", "comm"),
            Some((8, 16))
        );
        assert_eq!(place("print fmt: \"%d\"", "comm"), None);
    }

    #[test]
    fn switches_of_this_thread_are_recorded_with_their_fields() {
        let seen = std::thread::spawn(|| {
            tracefs::mount_for_this_thread().ok()?;
            let (offset, size) = field(SWITCH, "prev_pid")?;
            let cpus = sched::allowed_cpus().ok()?;
            let mut trace = Trace::open(&cpus, &[SWITCH], 64).ok()?;
            let own = ThreadId::current().get();
            (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
            let mut seen = 0;
            trace.take(|sample| {
                let field = sample.fields.get(offset..offset + size);
                seen += u32::from(field == Some(&own.to_ne_bytes()) && sample.thread == own);
            });
            Some(seen)
        });
        match seen.join().unwrap() {
            Some(seen) => assert!(seen >= 5, "{seen}"),
            None => println!("NOT CHECKED: tracepoints cannot be read here"),
        }
    }
}
