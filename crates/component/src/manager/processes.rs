//! The processes of a composition, and the channels between them.

use super::cache::Kind;
use super::edge::{Edge, edges};
use super::memory::UnitManager;
use super::{RunError, Settings, absolute};
use crate::composition::{Composition, Time};
use crate::host::{Call, Line, Plan, Planned, PoolPlan};
use crate::registry::Running;
use freehold_linux::child::end_with_parent;
use freehold_tmem::Pool;
use freehold_tmem::board::Board;
use freehold_tmem::channel::{Caller, Channel};
use rustix::process::Signal;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Process {
    components: Vec<usize>,
    /// Where it notes jobs of its own: what it writes there is said of its jobs alone.
    board: Board,
    child: Child,
    /// Open for as long as the process is to live.
    input: Option<ChildStdin>,
    line: Vec<u8>,
    restarts: u32,
    began: Instant,
    /// Times in a row that it ended soon after its start.
    quick_ends: u32,
    /// It was killed because it hung: that says nothing of whether it can run.
    killed: bool,
}

/// How long a process may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// A process that lives so long ended by some event, and not because it cannot run.
const LIVES: Duration = Duration::from_millis(200);
/// Quick ends in a row after which a component is given up.
const MOST_QUICK_ENDS: u32 = 5;

/// All processes; dropping it ends them.
#[derive(Debug)]
pub(super) struct Processes {
    edges: Vec<Edge>,
    all: Vec<Process>,
    host: Command,
}

impl Processes {
    pub(super) fn start(
        composition: &Composition,
        settings: &Settings,
        memory: &UnitManager,
    ) -> Result<Self, RunError> {
        let mut host = Command::new(&settings.host.0);
        host.args(&settings.host.1).stdin(Stdio::piped());
        // A terminal's SIGINT is the manager's: it ends them, stopped ones too.
        end_with_parent(&mut host, Signal::KILL);
        let mut processes = Self {
            edges: edges(composition, settings.shared)?,
            all: Vec::new(),
            host,
        };
        // The order was checked when the file was read.
        let order = composition.callees_first().unwrap_or_default();
        let groups: Vec<Vec<usize>> = if settings.shared {
            vec![order]
        } else {
            order.into_iter().map(|at| vec![at]).collect()
        };
        for components in groups {
            let board = Board::create()?;
            let plan = processes.plan(composition, settings, memory, &components, &board);
            let mut line =
                serde_json::to_vec(&plan).map_err(|error| start_error(composition, &components, error.into()))?;
            line.push(b'\n');
            let started = launch(&mut processes.host, &line);
            let (child, input) = started.map_err(|error| start_error(composition, &components, error))?;
            processes.all.push(Process {
                components,
                board,
                child,
                input,
                line,
                restarts: 0,
                began: Instant::now(),
                quick_ends: 0,
                killed: false,
            });
        }
        processes.wait_until_served(composition)?;
        Ok(processes)
    }

    fn wait_until_served(&mut self, composition: &Composition) -> Result<(), RunError> {
        let began = Instant::now();
        while let Some(edge) = self.edges.iter().find(|edge| !edge.channel.is_served()) {
            let name = composition.components[edge.to].name.clone();
            let process = self
                .all
                .iter_mut()
                .find(|process| process.components.contains(&edge.to));
            let ended = process.and_then(|process| process.child.try_wait().ok().flatten());
            if let Some(status) = ended {
                return Err(RunError::Ended(name, status.to_string()));
            }
            if began.elapsed() > PATIENCE {
                return Err(RunError::Ended(name, "it does not serve".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts again what has died; whether anything has.
    pub(super) fn look_after(&mut self, composition: &Composition, memory: &UnitManager) -> Result<bool, RunError> {
        let mut changed = false;
        for at in 0..self.all.len() {
            if self.has_ended_and_may_start(at, composition)? {
                self.reset_memory(at, memory);
                self.start_again(at, composition)?;
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Whether a process has ended.
    ///
    /// # Errors
    /// It has, and is not to be started again.
    fn has_ended_and_may_start(&mut self, at: usize, composition: &Composition) -> Result<bool, RunError> {
        let process = &mut self.all[at];
        let first = &composition.components[process.components[0]];
        let ended = process
            .child
            .try_wait()
            .map_err(|error| RunError::Start(first.name.clone(), error))?;
        let Some(status) = ended else { return Ok(false) };
        let by_itself = !std::mem::take(&mut process.killed);
        process.quick_ends = if by_itself && process.began.elapsed() < LIVES {
            process.quick_ends + 1
        } else {
            0
        };
        // A plan that is refused would be so again.
        let given_up = !first.restart || process.quick_ends > MOST_QUICK_ENDS;
        if given_up || status.code() == Some(i32::from(crate::host::REFUSED)) {
            return Err(RunError::Ended(first.name.clone(), status.to_string()));
        }
        Ok(true)
    }

    /// Makes what a process that has ended shared as new for the next: it may have written anything there.
    fn reset_memory(&self, at: usize, memory: &UnitManager) {
        let components = &self.all[at].components;
        for component in components {
            let pools = [Kind::Stack, Kind::Buffer].map(|kind| memory.of(*component, kind));
            pools.iter().flatten().for_each(|pool| pool.reset());
        }
        for edge in &self.edges {
            if edge.from.is_some_and(|from| components.contains(&from)) {
                edge.reset_claims(None);
            } else if components.contains(&edge.to) {
                edge.reset_claims(Some(self.process_of(edge.from)));
            }
        }
    }

    fn start_again(&mut self, at: usize, composition: &Composition) -> Result<(), RunError> {
        let process = &mut self.all[at];
        let started = launch(&mut self.host, &process.line);
        let (child, input) = started.map_err(|error| start_error(composition, &process.components, error))?;
        (process.child, process.input) = (child, input);
        process.began = Instant::now();
        process.restarts += 1;
        Ok(())
    }

    /// The process of a component, or the manager's.
    fn process_of(&self, component: Option<usize>) -> u32 {
        let of =
            component.and_then(|component| self.all.iter().find(|process| process.components.contains(&component)));
        of.map_or_else(std::process::id, |process| process.child.id())
    }

    /// A caller for a thread of the manager.
    pub(super) fn caller(&self, composition: &Composition, to: usize) -> Result<Caller, RunError> {
        let edge = self.edges.iter().find(|edge| edge.from.is_none() && edge.to == to);
        let missing = || RunError::Ended(composition.components[to].name.clone(), "no thread calls it".to_owned());
        let channel = &edge.ok_or_else(missing)?.channel;
        let again = channel
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| RunError::Start("a thread".to_owned(), error))?;
        let channel = Channel::open(again, channel.contexts())?;
        Ok(Caller::new(channel, composition.components[to].bound.0))
    }

    /// Where these components note jobs of their own.
    pub(super) fn boards(&self, of: &[usize]) -> impl Iterator<Item = &Board> {
        let processes = self.all.iter();
        let theirs = processes.filter(|process| process.components.iter().any(|component| of.contains(component)));
        theirs.map(|process| &process.board)
    }

    /// Calls to a component that were served on another CPU than their caller's.
    pub(super) fn cross_cpu_calls(&self, component: usize) -> u64 {
        let edges = self.edges.iter().filter(|edge| edge.to == component);
        edges.map(|edge| u64::from(edge.channel.cross_cpu_calls())).sum()
    }

    pub(super) fn restarts(&self, component: usize) -> u32 {
        let process = self.all.iter().find(|process| process.components.contains(&component));
        process.map_or(0, |process| process.restarts)
    }

    /// Threads that wait for calls.
    pub(super) fn contexts(&self) -> usize {
        self.edges.iter().map(|edge| edge.channel.contexts()).sum()
    }

    pub(super) fn running(&self, composition: &Composition, memory: &UnitManager) -> Running {
        let rows = self.all.iter().flat_map(|process| {
            let name = |at: &usize| composition.components[*at].name.clone();
            process
                .components
                .iter()
                .map(move |at| (name(at), process.child.id(), process.restarts))
        });
        Running {
            composition: composition.name.clone(),
            manager: std::process::id(),
            components: rows.collect(),
            units: memory.states(composition),
            waits: memory.waits(composition),
        }
    }

    /// Kills what hangs with a unit, and what hangs in a call past its caller's bound, and for as long once more, where
    /// the composition says so: what waits in a call of its own, or has just waited in vain, does not hang, whom it
    /// calls does. O(channels²).
    pub(super) fn kill_hung(&mut self, composition: &Composition, memory: &UnitManager, with_units: Vec<usize>) {
        let late: Vec<bool> = self.edges.iter_mut().map(Edge::take_late).collect();
        let mut hung = Vec::new();
        for (edge, late) in self.edges.iter_mut().zip(&late) {
            let bound = composition.components[edge.to].bound.0;
            if edge.take_hung(*late, bound, memory.of(edge.to, Kind::Stack)) {
                hung.push(edge.to);
            }
        }
        let waits = |component: usize| {
            let mut edges = self.edges.iter().zip(&late);
            edges.any(|(edge, late)| edge.from == Some(component) && (*late || edge.channel.is_waited_for()))
        };
        // What was late before its present process began was another's doing.
        hung.retain(|at| {
            let component = &composition.components[*at];
            component.restart_hung && !waits(*at) && self.age(*at) >= component.bound.0
        });
        hung.extend(with_units);
        hung.into_iter().for_each(|component| self.kill(component));
    }

    /// How long the present process of a component has been there.
    fn age(&self, component: usize) -> Duration {
        let process = self.all.iter().find(|process| process.components.contains(&component));
        process.map_or(Duration::ZERO, |process| process.began.elapsed())
    }

    /// Kills the process of a component, which is started again as after any end of it.
    pub(super) fn kill(&mut self, component: usize) {
        let process = self
            .all
            .iter_mut()
            .find(|process| process.components.contains(&component));
        if let Some(process) = process {
            // It may have ended already.
            process.killed = process.child.kill().is_ok();
        }
    }

    /// Ends all, and waits for that.
    pub(super) fn end(self) {
        drop(self);
    }

    fn plan(
        &self,
        composition: &Composition,
        settings: &Settings,
        memory: &UnitManager,
        components: &[usize],
        board: &Board,
    ) -> Plan {
        let elsewhere = (0..composition.components.len()).filter(|at| !components.contains(at));
        let planned = components.iter().filter_map(|at| {
            // All have stacks.
            let component = &composition.components[*at];
            let serves = self.edges.iter().filter(|edge| edge.to == *at);
            let calls = component.calls.iter().filter_map(|name| composition.place(name));
            Some(Planned {
                name: component.name.clone(),
                number: u16::try_from(at + 1).unwrap_or(u16::MAX),
                object: absolute(&settings.folder, &component.object),
                stacks: pool_plan(memory.of(*at, Kind::Stack)?),
                buffers: memory.of(*at, Kind::Buffer).map(pool_plan),
                serves: serves.map(|edge| line(&edge.channel)).collect(),
                calls: calls
                    .filter_map(|to| self.call(composition, components, *at, to))
                    .collect(),
                classes: component
                    .classes
                    .iter()
                    .filter_map(|name| class(composition, name))
                    .collect(),
                cpu: component.cpu,
            })
        });
        Plan {
            board: path(board),
            components: planned.collect(),
            readable: elsewhere
                .filter_map(|at| memory.of(at, Kind::Buffer))
                .map(pool_plan)
                .collect(),
        }
    }

    fn call(&self, composition: &Composition, components: &[usize], from: usize, to: usize) -> Option<Call> {
        if let Some(place) = components.iter().position(|at| *at == to) {
            return Some(Call::Here(place));
        }
        let edge = self
            .edges
            .iter()
            .find(|edge| edge.from == Some(from) && edge.to == to)?;
        let bound = composition.components[to].bound.0;
        Some(Call::Apart {
            line: line(&edge.channel),
            bound_nanos: u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.all {
            // Its input ends with this; what hangs is killed.
            drop(process.input.take());
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn class(composition: &Composition, name: &str) -> Option<(u32, Option<u64>)> {
    let (number, class) = composition.class(name)?;
    let nanos = |time: Time| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX);
    Some((number, class.target.map(nanos)))
}

fn launch(host: &mut Command, line: &[u8]) -> std::io::Result<(Child, Option<ChildStdin>)> {
    let mut child = host.spawn()?;
    let mut input = child.stdin.take();
    if let Some(input) = &mut input {
        match input.write_all(line) {
            // It has ended already, which is seen as any end of it is.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
    }
    Ok((child, input))
}

fn start_error(composition: &Composition, components: &[usize], error: std::io::Error) -> RunError {
    RunError::Start(composition.components[components[0]].name.clone(), error)
}

fn line(channel: &Channel) -> Line {
    Line {
        path: path(channel),
        contexts: channel.contexts(),
    }
}

fn pool_plan(pool: &Pool) -> PoolPlan {
    PoolPlan::new(path(pool), pool.settings())
}

/// The name under which another process of the user opens a memory object of this one.
fn path(object: &impl AsFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), object.as_fd().as_raw_fd())
}
