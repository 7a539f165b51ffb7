//! Debuggers from outside: a process that is traced gets all its memory back.
//!
//! Through `ptrace` and `/proc/PID/mem` the kernel reads only what is in the page table: it serves no fault there.
//! Nothing tells of an attach, so every client's state is looked at, again and again, for a twentieth of a CPU at most.

use super::private;
use super::world::World;
use crate::engine::ClientId;
use freehold_linux::service;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::warn;

/// How often the clients are looked at, if that does not take long.
const LOOK: Duration = Duration::from_millis(50);
/// Of the time one part in so many goes into looks.
const SHARE: u32 = 20;
/// How often what is given back goes on.
const STEP: Duration = Duration::from_millis(1);

/// Begins to look.
///
/// # Errors
/// The system's refusal of a thread.
pub(crate) fn start(world: &Arc<World>) -> io::Result<()> {
    let world = Arc::clone(world);
    service::spawn("tracers", move || {
        while !world.is_ending() {
            let began = Instant::now();
            look(&world);
            std::thread::sleep(LOOK.max(began.elapsed() * SHARE));
        }
    })?;
    Ok(())
}

fn look(world: &World) {
    let managed = world.shared.engine().managed_processes();
    for (client, pid) in managed.into_iter().filter(|(_, pid)| is_traced(*pid)) {
        match private::afford(world, client, u64::MAX) {
            Ok(()) => give_back(world, client),
            Err(why) => {
                if let Some(unsaid) = world.frugal.allows() {
                    warn!(
                        pid,
                        unsaid, "a traced process keeps its pages out: its debugger cannot read them: {why}"
                    );
                }
            }
        }
    }
}

fn give_back(world: &World, client: ClientId) {
    let Ok(count) = world.shared.engine().relinquish(client, 0, 0) else {
        return;
    };
    // It ends with the client, if with nothing else.
    while let Ok(false) = world.shared.engine().relinquished(client, count) {
        if world.is_ending() {
            return;
        }
        std::thread::sleep(STEP);
    }
    world.snapshots.spoil();
}

fn is_traced(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|number| number.trim() != "0")
}
