//! The side that serves.

use std::os::fd::AsFd;

use freehold_linux::memory::{Filler, PagedMemfd};
use freehold_linux::sched::{self, Policy};
use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Message, Userfault};
use freehold_linux::{AddressRange, PAGE_SIZE, PageRange, ThreadId};

use super::{Arguments, Work};
use crate::bench::evict::BATCH;
use crate::bench::rounds::refused;
use freehold_command::exit_status::Failure;

/// Of the thread that serves: the memory server's own.
const PRIORITY: u32 = 60;

/// Serves the faults of the client at the other end of the socket until it touches the page behind its last.
pub(super) fn serve(socket: &PacketSocket, arguments: &Arguments) -> Result<(), Failure> {
    let mut memory = PagedMemfd::create(c"floor", arguments.pages + 1, false).map_err(refused)?;
    memory.fill_through(&Filler::new().map_err(refused)?).map_err(refused)?;
    let descriptor = memory.descriptor().map_err(refused)?;
    socket.send(&[0], &[descriptor.as_fd()]).map_err(refused)?;
    let mut base = [0; size_of::<usize>()];
    let packet = socket.receive(&mut base).map_err(refused)?;
    let sent = packet.and_then(|packet| packet.descriptors.into_iter().next());
    let sent = sent.ok_or_else(|| refused("the client has ended"))?;
    let userfault = Userfault::adopt(sent, Features::SERVED).map_err(refused)?;
    rustix::io::ioctl_fionbio(userfault.as_fd(), false).map_err(refused)?;
    let mut server = Server {
        userfault,
        base: usize::from_ne_bytes(base),
        store: vec![[0x5a; PAGE_SIZE]; arguments.pages],
        oldest: 0,
        held: 0,
        memory,
    };
    let me = ThreadId::current();
    sched::pin(me, arguments.cpu).map_err(refused)?;
    sched::set_policy(me, Policy::Fifo { priority: PRIORITY }).map_err(refused)?;
    let served = server.serve(socket, arguments);
    // Nobody waits for what does not come any more.
    let whole = server.range(0, arguments.pages + 1)?;
    server.userfault.unregister(whole).map_err(refused)?;
    served
}

/// What it works with.
struct Server {
    userfault: Userfault,
    memory: PagedMemfd,
    /// Where the client has mapped it.
    base: usize,
    store: Vec<[u8; PAGE_SIZE]>,
    /// The pages that have frames are `held` ones from here on.
    oldest: usize,
    held: usize,
}

impl Server {
    fn serve(&mut self, socket: &PacketSocket, arguments: &Arguments) -> Result<(), Failure> {
        let pages = arguments.pages;
        if arguments.work == Work::Soft {
            self.memory.populate(PageRange::new(0, pages)).map_err(refused)?;
        }
        socket.send(&[0], &[]).map_err(refused)?;
        loop {
            match self.faulted()? {
                Some(page) if page < pages => self.bring(arguments.work, page)?,
                Some(_) => return Ok(()),
                None => {}
            }
        }
    }

    /// The page of a message; none for messages of other things.
    fn faulted(&self) -> Result<Option<usize>, Failure> {
        let mut page = None;
        let read = self.userfault.await_messages(1, |message| {
            if let Message::Fault { address, .. } = message {
                page = usize::try_from(address).ok();
            }
        });
        read.map_err(refused)?;
        Ok(page.map(|address| address.saturating_sub(self.base) / PAGE_SIZE))
    }

    fn bring(&mut self, work: Work, page: usize) -> Result<(), Failure> {
        if work == Work::Evict && self.held == self.store.len() / 2 {
            self.evict()?;
        }
        if work != Work::Soft {
            let content = self.store.get(page).ok_or_else(|| refused("no such page"))?;
            self.memory.fill(page, content).map_err(refused)?;
            self.held += 1;
        }
        // What it waits for is there now.
        self.userfault.continue_(self.range(page, 1)?, false).map_err(refused)
    }

    /// The oldest pages leave together. Nobody may write them while they are copied, and they vanish from every mapping
    /// with their frames.
    fn evict(&mut self) -> Result<(), Failure> {
        let batch = PageRange::new(self.oldest, BATCH);
        let range = self.range(self.oldest, BATCH)?;
        self.userfault.write_protect(range, true).map_err(refused)?;
        self.memory.populate(batch).map_err(refused)?;
        for (page, record) in (self.oldest..).zip(self.store.iter_mut().skip(self.oldest).take(BATCH)) {
            self.memory.read_populated(page, record).map_err(refused)?;
        }
        self.memory.punch(batch).map_err(refused)?;
        self.oldest = (self.oldest + BATCH) % self.store.len();
        self.held -= BATCH;
        Ok(())
    }

    fn range(&self, page: usize, pages: usize) -> Result<AddressRange, Failure> {
        let range = AddressRange::new(self.base + page * PAGE_SIZE, pages * PAGE_SIZE);
        range.ok_or_else(|| refused("no address"))
    }
}
