//! Connecting, and what a connection makes.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freehold_linux::event::Event;
use freehold_linux::memory::{Access, ChannelMapping, Memfd, read_document};
use freehold_linux::userfault::{Features, Scope, Userfault};
use freehold_protocol::message::{
    Answer, PinningSettings, Question, Regime, Request, ReservationKind, Role, TaskCounts,
};

use crate::agent::{Agent, Recruit, Table};
use crate::error::{ConnectError, RequestError};
use crate::link::{GREETING, Link};
use crate::pool::PinnedPool;
use crate::region::{Region, RegionSpec};
use crate::reservation::{Reservation, Ticket};
use crate::socket_path::default_socket;
use crate::task::Task;
use crate::watch::Watch;

/// The agent's priority where nobody says another: the pager threads' own.
const AGENT_PRIORITY: u32 = 60;

/// The longest document taken, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's socket; [`default_socket`] where none is named.
    pub socket: Option<PathBuf>,
    /// What the program is called in reports.
    pub name: String,
    /// The SCHED_FIFO priority of the agent's thread, which a busy program must not keep from its work; none leaves it
    /// among ordinary threads. Where it is refused, [`Connection::shortfalls`] says so.
    pub agent_priority: Option<u32>,
}

impl Options {
    /// The defaults, and a name for reports.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            socket: None,
            name: name.to_owned(),
            agent_priority: Some(AGENT_PRIORITY),
        }
    }

    fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_socket)
    }
}

/// What everything made through a connection keeps alive. Fields are dropped in this order: the watching thread before
/// the socket closes, the userfaultfd after all mappings, which hold this.
#[derive(Debug)]
pub(crate) struct Inner {
    _watch: Watch,
    _agent: Agent,
    pub(crate) link: Arc<Link>,
    pub(crate) table: Arc<Table>,
    pub(crate) userfault: Userfault,
}

/// A connection whose program has memory from the server.
///
/// It lives until the last thing made through it is gone.
#[derive(Debug)]
pub struct Connection {
    inner: Arc<Inner>,
    server: u32,
    client: u32,
    shortfalls: Vec<String>,
}

/// A connection that asks, and holds reservations for others; without memory of its own.
#[derive(Debug)]
pub struct Observer {
    link: Arc<Link>,
}

/// What the server sends with its welcome.
struct Welcome {
    server: u32,
    client: u32,
    descriptors: Vec<OwnedFd>,
}

fn hello(
    link: &Link,
    role: Role,
    agent_thread: u32,
    name: &str,
    userfault: Option<&Userfault>,
) -> Result<Welcome, RequestError> {
    let request = Request::Hello {
        role,
        agent_thread,
        name,
    };
    let descriptors: Vec<_> = userfault.iter().map(|userfault| userfault.as_fd()).collect();
    link.ask_within(
        Some(GREETING),
        &request,
        &descriptors,
        |answer, descriptors| match answer {
            Answer::Welcome { server, client, .. } => Some(Welcome {
                server,
                client,
                descriptors,
            }),
            _ => None,
        },
    )
}

impl Connection {
    /// Connects to the server: opens a userfaultfd, starts the agent and the watching thread, says hello.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn open(options: &Options) -> Result<Self, ConnectError> {
        let path = options.path();
        let link = Arc::new(Link::connect(&path)?);
        let userfault = Userfault::open(Features::SERVED)?;
        let table = Arc::new(Table::new());
        let recruit = Recruit::start(&table, options.agent_priority)?;
        let mut shortfalls = recruit.shortfalls.clone();
        if userfault.scope() == Scope::UserModeOnly {
            shortfalls.push(
                "system calls that touch an absent page fail with EFAULT: the userfaultfd is for user mode only; grant \
                 CAP_SYS_PTRACE or access to /dev/userfaultfd"
                    .to_owned(),
            );
        }
        let welcome = hello(&link, Role::Library, recruit.thread(), &options.name, Some(&userfault))?;
        let mut descriptors = welcome.descriptors.into_iter();
        let (Some(channel), Some(_transfer), Some(event)) =
            (descriptors.next(), descriptors.next(), descriptors.next())
        else {
            return Err(RequestError::Answer("it lacks descriptors").into());
        };
        let channel = Memfd::adopt(channel, ChannelMapping::pages())?;
        let mut channel = ChannelMapping::new(&channel)?;
        if let Err(error) = channel.lock() {
            shortfalls.push(format!("the channel to the server is not locked: {error}"));
        }
        let watch = Watch::start(&link, &table, welcome.server).map_err(ConnectError::Thread)?;
        let inner = Inner {
            _watch: watch,
            _agent: recruit.employ(channel, Event::adopt(event)),
            link,
            table,
            userfault,
        };
        Ok(Self {
            inner: Arc::new(inner),
            server: welcome.server,
            client: welcome.client,
            shortfalls,
        })
    }

    /// The server's process id, in its own numbering.
    #[must_use]
    pub fn server(&self) -> u32 {
        self.server
    }

    /// What the server calls this client in reports.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.client
    }

    /// What the connection has to do without, in words.
    #[must_use]
    pub fn shortfalls(&self) -> &[String] {
        &self.shortfalls
    }

    /// Ends of jobs that the server was not told, because it was behind or refused them.
    #[must_use]
    pub fn lost_job_ends(&self) -> u64 {
        self.inner.link.lost()
    }

    /// Makes a reservation of `frames`. Waits while the server gathers frames that nobody has a claim to.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn reserve(&self, name: &str, frames: u32, kind: ReservationKind) -> Result<Reservation, RequestError> {
        Reservation::make(&self.inner.link, name, frames, kind)
    }

    /// Joins another's reservation.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn join(&self, ticket: Ticket) -> Result<Reservation, RequestError> {
        Reservation::join(&self.inner.link, ticket)
    }

    /// Opens a region of memory, zero at first; a shared one that exists already, with what it holds.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn open_region(&self, spec: &RegionSpec<'_>) -> Result<Region, RequestError> {
        let request = Request::OpenRegion {
            name: spec.name,
            pages: spec.pages,
            kind: spec.kind,
            regime: spec.regime,
        };
        Region::open(&self.inner, &request, &[], Access::ReadWrite)
    }

    /// Opens the object that holds a file's content, for reading, shared with everybody who opens the same file. `path`
    /// goes with the request; reports show what the server finds the file to be called.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn open_file(&self, file: &File, regime: Regime, path: &Path) -> Result<Region, RequestError> {
        let path = path.to_string_lossy();
        let request = Request::OpenFile { regime, path: &path };
        Region::open(&self.inner, &request, &[file.as_fd()], Access::ReadPrivately)
    }

    /// Makes a task, in a reservation or among those without one. Above 0, `urgency` needs the right to be real-time.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn add_task(&self, reservation: Option<&Reservation>, urgency: u8, name: &str) -> Result<Task, RequestError> {
        Task::make(&self.inner, reservation, urgency, name)
    }

    /// Samples which pages of shared objects this program references in each `period`; none ends that.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn sample(&self, period: Option<Duration>) -> Result<(), RequestError> {
        sample(&self.inner.link, 0, period)
    }

    /// Asks for a document.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn ask(&self, question: Question, target: &str) -> Result<String, RequestError> {
        ask(&self.inner.link, question, target)
    }
}

impl Observer {
    /// Connects without memory.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::connect(&options.path())?);
        hello(&link, Role::Observer, 0, &options.name, None)?;
        Ok(Self { link })
    }

    /// As [`Connection::reserve`].
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn reserve(&self, name: &str, frames: u32, kind: ReservationKind) -> Result<Reservation, RequestError> {
        Reservation::make(&self.link, name, frames, kind)
    }

    /// Opens a pinned page pool for a periodic program, which joins it by its ticket.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn open_pool(&self, name: &str, settings: PinningSettings) -> Result<PinnedPool, RequestError> {
        PinnedPool::open(&self.link, name, settings)
    }

    /// Samples which pages of shared objects another process references in each `period`; none ends that.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn sample(&self, process: u32, period: Option<Duration>) -> Result<(), RequestError> {
        sample(&self.link, process, period)
    }

    /// As [`Connection::ask`].
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn ask(&self, question: Question, target: &str) -> Result<String, RequestError> {
        ask(&self.link, question, target)
    }

    /// What happened to all tasks of a process of the same user so far.
    ///
    /// # Errors
    /// See [`RequestError`]; refused of a process that is no client of the server.
    pub fn counts_of(&self, process: u32) -> Result<TaskCounts, RequestError> {
        crate::task::ask_counts(&self.link, &Request::CountProcess { process })
    }
}

fn sample(link: &Link, process: u32, period: Option<Duration>) -> Result<(), RequestError> {
    let period = period.map_or(0, |period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
    link.ask_done(&Request::Sample { period, process })
}

fn ask(link: &Link, question: Question, target: &str) -> Result<String, RequestError> {
    let (length, object) = link.ask(&Request::Ask { question, target }, &[], |answer, descriptors| {
        let object = descriptors.into_iter().next()?;
        match answer {
            Answer::Document { length } => Some((length, object)),
            _ => None,
        }
    })?;
    let bytes = read_document(&object, length, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(|_| RequestError::Answer("the document is not text"))
}
