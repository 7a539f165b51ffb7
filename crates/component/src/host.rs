//! A process of components: loads their objects, serves their channels, and ends with its manager.

use freehold_linux::ThreadId;
use freehold_linux::pi_word::Scope;
use freehold_linux::sched::{self, AffinityError, CpuSet};
use freehold_tmem::board::Board;
use freehold_tmem::channel::{Callee, Caller, Channel, ChannelError};
use freehold_tmem::object::{Component, Environment, Jobs, Object, ObjectError, Target};
use freehold_tmem::pool::Reader;
use freehold_tmem::registry::{self, Known, RegisterError};
use freehold_tmem::{Pool, PoolError, PoolSettings};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The exit status of a process that cannot be what its plan says.
pub const REFUSED: u8 = 64;

/// What a process is to be: one line of JSON on its standard input, which stays open for as long as its manager lives.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    /// The components, each after those that it calls.
    pub(crate) components: Vec<Planned>,
    /// Pools of buffers of components elsewhere.
    pub(crate) readable: Vec<PoolPlan>,
    /// Where jobs of components are noted.
    pub(crate) board: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) number: u16,
    pub(crate) object: PathBuf,
    pub(crate) stacks: PoolPlan,
    pub(crate) buffers: Option<PoolPlan>,
    pub(crate) serves: Vec<Line>,
    pub(crate) calls: Vec<Call>,
    /// The number of each class of jobs, and how many nanoseconds one may take.
    pub(crate) classes: Vec<(u32, Option<u64>)>,
    /// The only CPU on which its threads run.
    pub(crate) cpu: Option<usize>,
}

/// A pool, and how it was made: what stands in its memory is the word of the component that uses it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PoolPlan {
    path: String,
    component: u16,
    units: usize,
    unit_bytes: usize,
    minimum: usize,
    guard_pages: usize,
    bound_nanos: u64,
}

impl PoolPlan {
    pub(crate) fn new(path: String, settings: &PoolSettings) -> Self {
        Self {
            path,
            component: settings.component,
            units: settings.units,
            unit_bytes: settings.unit_bytes,
            minimum: settings.minimum,
            guard_pages: settings.guard_pages,
            bound_nanos: u64::try_from(settings.bound.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings {
            component: self.component,
            units: self.units,
            unit_bytes: self.unit_bytes,
            minimum: self.minimum,
            guard_pages: self.guard_pages,
            bound: Duration::from_nanos(self.bound_nanos),
            scope: Scope::Shared,
        }
    }

    fn open(&self) -> Result<Pool, HostError> {
        Ok(Pool::open_as(open(&self.path)?, self.settings())?)
    }

    fn open_to_read(&self) -> Result<Reader, HostError> {
        Ok(Pool::open_to_read_as(open_to_read(&self.path)?, self.settings())?)
    }
}

/// A channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) path: String,
    pub(crate) contexts: usize,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Call {
    Apart { line: Line, bound_nanos: u64 },
    Here(usize),
}

/// A process cannot be what its plan says.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The plan.
    #[error("the plan cannot be read: {0}")]
    Plan(String),
    /// Something that the plan names.
    #[error("{0}: {1}")]
    Open(String, std::io::Error),
    /// A component's object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A pool's number.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A channel.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The CPU of a component.
    #[error("the CPU of `{0}`: {1}")]
    Cpu(String, AffinityError),
}

/// Runs the components of the plan on standard input until that ends.
///
/// # Errors
/// See [`HostError`]; nothing is served then.
pub fn run() -> Result<(), HostError> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| HostError::Plan(error.to_string()))?;
    let plan: Plan = serde_json::from_str(&line).map_err(|error| HostError::Plan(error.to_string()))?;
    for pool in &plan.readable {
        registry::register(Known::Reader(pool.open_to_read()?))?;
    }
    let mut components: Vec<Arc<Component>> = Vec::new();
    let board = Arc::new(Board::open(open(&plan.board)?)?);
    for planned in &plan.components {
        let component = make(planned, &components, &board)?;
        components.push(Arc::new(component));
    }
    let all = sched::affinity(ThreadId::current()).map_err(|error| HostError::Cpu("its process".to_owned(), error))?;
    let mut callees = Vec::new();
    for (planned, component) in plan.components.iter().zip(&components) {
        stay_on(planned, &all)?;
        for line in &planned.serves {
            callees.push(serve(planned, line, component)?);
        }
    }
    for (planned, component) in plan.components.iter().zip(&components) {
        stay_on(planned, &all)?;
        let component = Arc::clone(component);
        let started = std::thread::Builder::new().spawn(move || component.object.start(&component.environment));
        started.map_err(|error| HostError::Open("a thread".to_owned(), error))?;
    }
    // Whatever comes is no news; its end is that of the manager.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Has the threads of a component, which this one starts next, run on its CPU.
fn stay_on(planned: &Planned, all: &CpuSet) -> Result<(), HostError> {
    let own = ThreadId::current();
    let moved = planned
        .cpu
        .map_or_else(|| sched::set_affinity(own, all), |cpu| sched::pin(own, cpu));
    moved.map_err(|error| HostError::Cpu(planned.name.clone(), error))
}

fn make(planned: &Planned, before: &[Arc<Component>], board: &Arc<Board>) -> Result<Component, HostError> {
    let object = Object::load(&planned.object)?;
    let stacks = Arc::new(planned.stacks.open()?);
    let buffers = match &planned.buffers {
        Some(plan) => match registry::register(Known::Own(plan.open()?))? {
            Known::Own(pool) => Some(pool),
            Known::Reader(_) => None,
        },
        None => None,
    };
    let targets: Result<Vec<Target>, HostError> = planned.calls.iter().map(|call| target(call, before)).collect();
    let classes = planned.classes.iter();
    let jobs = Jobs {
        board: Arc::clone(board),
        classes: classes
            .map(|(job, target)| (*job, target.map(Duration::from_nanos)))
            .collect(),
    };
    Ok(Component {
        object,
        stacks,
        environment: Environment::new(planned.number, buffers, targets?, Some(jobs)),
    })
}

fn target(call: &Call, before: &[Arc<Component>]) -> Result<Target, HostError> {
    match call {
        Call::Apart { line, bound_nanos } => {
            let channel = Channel::open(open(&line.path)?, line.contexts)?;
            let caller = Caller::new(channel, Duration::from_nanos(*bound_nanos));
            Ok(Target::Apart(Arc::new(caller)))
        }
        Call::Here(place) => {
            let component = before
                .get(*place)
                .ok_or_else(|| HostError::Plan("a component that comes later".to_owned()))?;
            Ok(Target::Here(Arc::clone(component)))
        }
    }
}

fn serve(planned: &Planned, line: &Line, component: &Arc<Component>) -> Result<Callee, HostError> {
    let channel = Channel::open(open(&line.path)?, line.contexts)?;
    let (stacks, component) = (Arc::clone(&component.stacks), Arc::clone(component));
    let callee = Callee::start(&planned.name, channel, stacks, move |request| component.serve(request));
    callee.map_err(|error| HostError::Open(planned.name.clone(), error))
}

fn open(path: &str) -> Result<OwnedFd, HostError> {
    open_by(path, File::options().read(true).write(true))
}

fn open_to_read(path: &str) -> Result<OwnedFd, HostError> {
    open_by(path, File::options().read(true))
}

fn open_by(path: &str, options: &OpenOptions) -> Result<OwnedFd, HostError> {
    let file = options.open(path);
    file.map(Into::into)
        .map_err(|error| HostError::Open(path.to_owned(), error))
}
