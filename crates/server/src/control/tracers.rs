//! Debuggers from outside: a process that is traced gets all its memory back.
//!
//! Through `ptrace` and `/proc/PID/mem` the kernel reads only what is in the page table: it serves no fault there.
//! Nothing tells of an attach, so every client's state is looked at, again and again, for a twentieth of a CPU at most.

use crate::control::private;
use crate::control::registry::Registry;
use crate::engine::ClientId;
use freehold_linux::{Errno, service};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::error;

/// How often the clients are looked at, if that does not take long.
const LOOK: Duration = Duration::from_millis(50);
/// Of the time one part in so many goes into looks.
const SHARE: u32 = 20;
/// Bytes of text that are given at once.
const TEXT: usize = 64 << 10;
/// How often what is given back goes on.
const STEP: Duration = Duration::from_millis(1);

/// Begins to look.
///
/// # Errors
/// The system's refusal of a thread.
pub(crate) fn start(registry: &Arc<Registry>) -> io::Result<()> {
    let registry = Arc::clone(registry);
    service::spawn("tracers", move || {
        let mut begun = Vec::new();
        while !registry.is_ending() {
            let began = Instant::now();
            look(&registry, &mut begun);
            let next = began + LOOK.max(began.elapsed() * SHARE);
            // One whose agent answers no more holds up no other.
            while go_on(&registry, &mut begun) && Instant::now() < next {
                std::thread::sleep(STEP);
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    })?;
    Ok(())
}

/// Clients that get everything back, and what the engine is to be asked about.
type Begun = Vec<(ClientId, u64)>;

fn look(registry: &Registry, begun: &mut Begun) {
    let managed = registry.shared.engine().managed_processes();
    begun.retain(|(client, _)| managed.iter().any(|(other, _)| other == client));
    for (client, pid) in managed {
        if begun.iter().any(|(other, _)| *other == client) || !is_traced(pid) {
            continue;
        }
        if let Err(why) = private::afford(registry, client, u64::MAX) {
            if let Some(unsaid) = registry.rate_limited_log.allows() {
                error!(
                    pid,
                    unsaid, "a traced process keeps its pages out: its debugger cannot read them: {why}"
                );
            }
            continue;
        }
        if let Ok(count) = registry.shared.engine().relinquish(client, 0, 0) {
            begun.push((client, count));
        }
    }
}

/// Goes on with those that have begun; whether any is left.
fn go_on(registry: &Registry, begun: &mut Begun) -> bool {
    begun.retain(|(client, count)| {
        let done = registry.shared.engine().relinquished(*client, *count);
        if done == Ok(true) {
            give_text(registry, *client);
            registry.snapshots.spoil();
        }
        done == Ok(false)
    });
    !begun.is_empty()
}

/// Text that nobody has run is in no frame: a debugger reads it too, and sets breakpoints there.
fn give_text(registry: &Registry, client: ClientId) {
    let pieces = registry.shared.engine().text_to_give(client);
    let mut bytes = vec![0; TEXT];
    for piece in pieces {
        let mut at = 0;
        while at < piece.length && !registry.is_ending() {
            let length = usize::try_from(piece.length - at).map_or(TEXT, |left| left.min(TEXT));
            let part = bytes.get_mut(..length).unwrap_or_default();
            if read(&piece.file, piece.offset + at, part).is_err() {
                break;
            }
            registry.shared.engine().give_text(client, piece.address + at, part);
            at += length as u64;
        }
    }
}

/// Reads a part of a file; what lies past its end is zeros.
fn read(file: &OwnedFd, offset: u64, part: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(left) = part.get_mut(done..).filter(|left| !left.is_empty()) {
        match rustix::io::pread(file, &mut *left, offset + done as u64) {
            Ok(0) => {
                left.fill(0);
                return Ok(());
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn is_traced(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|number| number.trim() != "0")
}
