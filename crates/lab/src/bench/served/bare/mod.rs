//! The bare message mode: a `SCHED_FIFO` thread waits in the read of a message, does what is to be done with the fewest
//! system calls, and keeps no books.
//!
//! As a memory server it is a process of its own, with the client's userfaultfd and memory of its own behind the
//! client's mapping: that is the floor. A thread of the client's process does the same without a change of address
//! spaces; it is measured beside it.

mod serve;

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use freehold_linux::child::end_with_parent;
use freehold_linux::memory::{Access, Memfd, ServedMapping, SharedMapping};
use freehold_linux::socket::PacketSocket;
use freehold_linux::thread::Thread;
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{PageRange, service};
use rustix::process::Signal;

use super::on_one_cpu;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::world::WORDS;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::process::own_executable;

/// What is done about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Work {
    /// Every page has a frame, which is mapped
    Soft,
    /// No page has one: a frame with 4 KiB from a store, mapped
    Fill,
    /// As fill, with half as many frames as pages: the oldest pages leave, a batch at a time
    Evict,
}

/// Where it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Process,
    Thread,
}

/// Options of the hidden subcommand. Its standard input is the socket to the client.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    work: Work,
    /// Pages of the client's mapping
    #[arg(long)]
    pages: usize,
    /// The client's CPU
    #[arg(long)]
    cpu: usize,
}

/// Serves a client until that has enough.
pub(crate) fn perform(arguments: &Arguments) -> Result<Status, Failure> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(refused)?;
    serve::serve(&PacketSocket::from_fd(input), arguments)?;
    Ok(Status::Done)
}

/// Who serves.
#[derive(Debug)]
enum Server {
    Process(Child),
    Thread(Thread<Result<(), Failure>>),
}

/// A client of it. The page behind the last tells the server that it is over.
pub(super) struct Bare {
    mapping: ServedMapping,
    object: Memfd,
    server: Option<Server>,
    pages: usize,
    // Closed last: see `ServedMapping`.
    _userfault: Userfault,
}

impl Bare {
    /// Memory of `pages` pages whose faults are served on `cpu`, where the calling thread runs.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn start(place: Place, work: Work, pages: usize, cpu: usize) -> Result<Self, Failure> {
        let (socket, other) = PacketSocket::pair().map_err(refused)?;
        let arguments = Arguments { work, pages, cpu };
        let server = match place {
            Place::Process => Server::Process(process(&arguments, other)?),
            Place::Thread => {
                let thread = service::spawn("floor", move || serve::serve(&other, &arguments));
                Server::Thread(thread.map_err(refused)?)
            }
        };
        let object = Memfd::adopt(descriptor(&socket)?, pages + 1).map_err(refused)?;
        let userfault = Userfault::open(Features::SERVED).map_err(refused)?;
        let shared = SharedMapping::of_whole(&object, Access::ReadWrite).map_err(refused)?;
        let mapping = ServedMapping::new(shared, &userfault, Modes::ALL).map_err(refused)?;
        let base = mapping.base().addr().to_ne_bytes();
        socket.send(&base, &[userfault.as_fd()]).map_err(refused)?;
        // It waits for the first message now.
        let ready = socket.receive(&mut [0]).map_err(refused)?;
        ready.ok_or_else(|| refused("the bare server has ended"))?;
        Ok(Self {
            mapping,
            object,
            server: Some(server),
            pages,
            _userfault: userfault,
        })
    }

    /// Writes a word of a page.
    pub(super) fn write(&self, page: usize) {
        // Within the mapping, whose length the caller chose.
        let _ = self.mapping.write_word(page * WORDS, 1);
    }

    /// Unmaps all pages.
    pub(super) fn zap(&self) -> Result<(), Failure> {
        self.mapping.zap(PageRange::new(0, self.pages)).map_err(refused)
    }

    /// Drops all frames.
    pub(super) fn punch(&self) -> Result<(), Failure> {
        self.object.punch_hole(PageRange::new(0, self.pages)).map_err(refused)
    }

    /// Ends the server.
    ///
    /// # Errors
    /// It could not serve a fault.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.write(self.pages);
        match self.server.take() {
            Some(Server::Process(mut child)) => match child.wait().map_err(refused)? {
                status if status.success() => Ok(()),
                status => Err(refused(format!("the bare server: {status}"))),
            },
            Some(Server::Thread(thread)) => thread.join().map_err(|_| refused("the floor's thread panicked"))?,
            None => Ok(()),
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        match &mut self.server {
            Some(Server::Process(child)) => {
                // Both fail for a process that has ended and was waited for.
                let _ = child.kill();
                let _ = child.wait();
            }
            Some(Server::Thread(_)) => self.write(self.pages),
            None => {}
        }
    }
}

fn process(arguments: &Arguments, socket: PacketSocket) -> Result<Child, Failure> {
    let work = arguments.work.to_possible_value();
    let mut command = Command::new(own_executable()?);
    command
        .arg("bench-bare")
        .arg(work.map_or_else(String::new, |work| work.get_name().to_owned()))
        .arg("--pages")
        .arg(arguments.pages.to_string())
        .arg("--cpu")
        .arg(arguments.cpu.to_string())
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null());
    end_with_parent(&mut command, Signal::KILL);
    command.spawn().map_err(refused)
}

/// The one descriptor of the next packet.
fn descriptor(socket: &PacketSocket) -> Result<OwnedFd, Failure> {
    let packet = socket.receive(&mut [0]).map_err(refused)?;
    let descriptors = packet.map(|packet| packet.descriptors).unwrap_or_default();
    let descriptor = descriptors.into_iter().next();
    descriptor.ok_or_else(|| refused("the bare server has ended"))
}

/// Measures the memory server beside the bare one, in a process and in a thread of this process, and beside the pager
/// in the faulting thread (`embedded`). All of it takes place on one CPU.
pub(super) fn compare(
    effort: Effort,
    (work, pages): (Work, u32),
    floor: impl Fn(&Bare, &mut Samples) -> Result<(), Failure>,
    mut embedded: impl FnMut(&mut Samples) -> Result<(), Failure>,
    mut ours: impl FnMut(&mut Samples) -> Result<(), Failure>,
) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let (mut threads, mut in_process) = (Samples::new()?, Samples::new()?);
    on_one_cpu(|cpu| {
        let run = |place, samples: &mut Samples| {
            let bare = Bare::start(place, work, pages as usize, cpu)?;
            floor(&bare, samples)?;
            bare.finish()
        };
        found.alternate(
            effort,
            |samples| {
                run(Place::Process, samples)?;
                run(Place::Thread, &mut threads)
            },
            |samples| {
                embedded(&mut in_process)?;
                ours(samples)
            },
        )
    })?;
    found.add_side("same process", &threads);
    found.add_side("embedded", &in_process);
    Ok(found)
}
