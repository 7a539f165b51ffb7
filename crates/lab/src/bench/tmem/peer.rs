//! The other side of calls, in a process of its own.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use freehold_linux::ThreadId;
use freehold_linux::bare_word::BareWords;
use freehold_linux::sched::{self, Policy};
use freehold_tmem::Pool;
use freehold_tmem::channel::{Callee, Caller, Channel};

use super::passing::MESSAGE;
use super::{BOUND, pool};
use crate::bench::rounds::refused;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::process::own_executable;

/// Options of the hidden subcommand. It ends with its standard input.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The CPU on which it runs
    #[arg(long)]
    cpu: usize,
    /// Answers a bare futex in this memory, and runs with this priority (0: none)
    #[arg(long, num_args = 2, value_names = ["FILE", "PRIORITY"])]
    bare: Option<Vec<String>>,
    /// Serves calls of this channel
    #[arg(long)]
    channel: Option<String>,
    /// With a real-time priority of its own
    #[arg(long, requires = "channel")]
    own_priority: Option<u32>,
    /// Passes each call on to this channel
    #[arg(long)]
    next: Option<String>,
    /// Looks at buffers of this pool
    #[arg(long)]
    buffers: Option<String>,
    /// Reads a message of 64 KiB from standard input and writes it to standard output; the last answers a byte
    #[arg(long)]
    relay: Option<bool>,
}

/// The name under which another process of the user opens a memory object of this one.
pub(super) fn path(object: &impl AsFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), object.as_fd().as_raw_fd())
}

fn open(path: &str) -> Result<OwnedFd, Failure> {
    let file = std::fs::File::options().read(true).write(true).open(path);
    file.map(OwnedFd::from).map_err(refused)
}

/// Serves until standard input ends.
pub(crate) fn perform(arguments: &Arguments) -> Result<Status, Failure> {
    sched::pin(ThreadId::current(), arguments.cpu).map_err(refused)?;
    if let Some(last) = arguments.relay {
        return relay(last);
    }
    if let Some([path, priority]) = arguments.bare.as_deref() {
        let words = BareWords::open(open(path)?).map_err(refused)?;
        let priority: u32 = priority.parse().map_err(refused)?;
        std::thread::spawn(move || {
            if priority > 0 {
                // Without the right to it the caller has none either.
                let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority });
            }
            words.answer();
        });
    }
    let callee = arguments
        .channel
        .as_deref()
        .map(|path| serve(path, arguments))
        .transpose()?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(callee);
    Ok(Status::Done)
}

fn serve(path: &str, arguments: &Arguments) -> Result<Callee, Failure> {
    let channel = Channel::open(open(path)?, 1).map_err(refused)?;
    let next = match &arguments.next {
        Some(path) => Some(Caller::new(Channel::open(open(path)?, 1).map_err(refused)?, BOUND)),
        None => None,
    };
    let buffers = match &arguments.buffers {
        Some(path) => Some(Pool::open_to_read(open(path)?).map_err(refused)?),
        None => None,
    };
    let stacks = Arc::new(pool(1, 16, 1)?);
    if let Some(priority) = arguments.own_priority {
        // Its threads have what who starts them has.
        sched::set_policy(ThreadId::current(), Policy::Fifo { priority }).map_err(refused)?;
    }
    let handler = move |request: freehold_tmem::channel::Request| {
        if let Some(buffers) = &buffers {
            let id = freehold_tmem::BufferId::from_raw(request.arguments[0]);
            if buffers.find(id, MESSAGE).is_none() {
                return -1;
            }
        }
        next.as_ref().map_or(0, |next| {
            // One more for each component that was called.
            next.call(request.function, request.arguments)
                .map_or(-1, |below| if below < 0 { below } else { below + 1 })
        })
    };
    Callee::start("bench callee", channel, stacks, handler).map_err(refused)
}

fn relay(last: bool) -> Result<Status, Failure> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut message = vec![0; MESSAGE];
    while input.read_exact(&mut message).is_ok() {
        let answer = if last { &message[..1] } else { &message };
        output
            .write_all(answer)
            .and_then(|()| output.flush())
            .map_err(refused)?;
    }
    Ok(Status::Done)
}

/// A process of the other side; dropping it ends it.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
}

impl Peer {
    pub(super) fn start(cpu: usize, options: &[&str]) -> Result<Self, Failure> {
        let mut command = command(cpu)?;
        let mut child = command.args(options).stdin(Stdio::piped()).spawn().map_err(refused)?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// A relay between two sockets.
    pub(super) fn relay(cpu: usize, last: bool, from: OwnedFd, to: OwnedFd) -> Result<Self, Failure> {
        let mut command = command(cpu)?;
        command.args(["--relay", if last { "true" } else { "false" }]);
        let child = command
            .stdin(Stdio::from(from))
            .stdout(Stdio::from(to))
            .spawn()
            .map_err(refused)?;
        Ok(Self { child, input: None })
    }
}

fn command(cpu: usize) -> Result<Command, Failure> {
    let mut command = Command::new(own_executable()?);
    command.args(["bench-callee", "--cpu", &cpu.to_string()]);
    Ok(command)
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
