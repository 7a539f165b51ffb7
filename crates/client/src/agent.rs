//! The agent: the thread that removes pages from this address space when the server says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use freehold_linux::event::Event;
use freehold_linux::memory::{ChannelMapping, ServedMapping};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{PAGE_SIZE, PageRange, ThreadId, futex, stack};
use freehold_protocol::channel::{Action, Broken, Order, Outcome, Position, Reply};

use crate::error::ConnectError;

/// What is mapped here, by address.
#[derive(Debug)]
pub(crate) struct Table {
    mappings: PiMutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    by_start: BTreeMap<usize, Arc<ServedMapping>>,
    closed: bool,
}

impl Table {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self {
            mappings: PiMutex::new(Rows::default()),
        }
    }

    /// Notes a mapping, before the server hears of it; false where the server is gone.
    pub(crate) fn add(&self, mapping: &Arc<ServedMapping>) -> bool {
        let mut rows = self.mappings.lock();
        if rows.closed {
            return false;
        }
        rows.by_start.insert(mapping.base().addr(), Arc::clone(mapping));
        true
    }

    /// Forgets a mapping: from now on no order reaches it.
    pub(crate) fn remove(&self, mapping: &ServedMapping) {
        let row = self.mappings.lock().by_start.remove(&mapping.base().addr());
        // Unmapped, if this was the last, without the lock.
        drop(row);
    }

    /// The server is gone; whether anything is mapped.
    pub(crate) fn close(&self) -> bool {
        let mut rows = self.mappings.lock();
        rows.closed = true;
        !rows.by_start.is_empty()
    }

    /// Removes `pages` pages from `address` on, which must be in one mapping.
    fn zap(&self, address: u64, pages: u32) -> Outcome {
        let rows = self.mappings.lock();
        let (Ok(address), Ok(pages)) = (usize::try_from(address), usize::try_from(pages)) else {
            return Outcome::Refused;
        };
        let Some((start, mapping)) = rows.by_start.range(..=address).next_back() else {
            return Outcome::Absent;
        };
        let range = PageRange::new((address - start) / PAGE_SIZE, pages);
        if !address.is_multiple_of(PAGE_SIZE) || !range.fits(mapping.pages()) {
            // Unmapped here, and the order was on its way.
            return Outcome::Absent;
        }
        match mapping.zap(range) {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Refused,
        }
    }
}

/// What the agent's thread works with, once the server has sent it.
#[derive(Debug)]
struct Channel {
    mapping: ChannelMapping,
    /// Signalled after answers.
    server: Event,
}

/// The agent's thread, started but without a channel yet.
#[derive(Debug)]
pub(crate) struct Recruit {
    thread: ThreadId,
    begin: Sender<Arc<Channel>>,
    handle: JoinHandle<()>,
    quit: Arc<AtomicBool>,
    /// What the thread could not have.
    pub(crate) shortfalls: Vec<String>,
}

/// The agent at work; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Agent {
    channel: Arc<Channel>,
    quit: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
    /// The process that has the thread.
    owner: u32,
}

impl Recruit {
    /// Starts the thread, at real-time priority `priority` where that is allowed.
    pub(crate) fn start(table: &Arc<Table>, priority: Option<u32>) -> Result<Self, ConnectError> {
        let (ready, readiness) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let quit = Arc::new(AtomicBool::new(false));
        let (table, stop) = (Arc::clone(table), Arc::clone(&quit));
        let handle = std::thread::Builder::new()
            .name("freehold-agent".to_owned())
            .stack_size(128 << 10)
            .spawn(move || main(&table, priority, &ready, &begun, &stop))
            .map_err(ConnectError::Thread)?;
        let (thread, shortfalls) = readiness
            .recv()
            .map_err(|_| ConnectError::Thread(std::io::Error::other("the thread ended")))?;
        Ok(Self {
            thread,
            begin,
            handle,
            quit,
            shortfalls,
        })
    }

    /// The thread, as the server is told.
    pub(crate) fn thread(&self) -> u32 {
        self.thread.get()
    }

    /// Sets the agent to work.
    pub(crate) fn employ(self, mapping: ChannelMapping, server: Event) -> Agent {
        let channel = Arc::new(Channel { mapping, server });
        // A thread that is gone shows when it is joined.
        let _ = self.begin.send(Arc::clone(&channel));
        Agent {
            channel,
            quit: self.quit,
            handle: Some(self.handle),
            owner: std::process::id(),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::process::id() != self.owner {
            // A child of a fork has not got the thread.
            std::mem::forget(self.handle.take());
            return;
        }
        self.quit.store(true, Ordering::Release);
        let doorbell = &self.channel.mapping.doorbell;
        doorbell.fetch_add(1, Ordering::SeqCst);
        futex::wake_shared(doorbell, u32::MAX);
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

fn main(
    table: &Table,
    priority: Option<u32>,
    ready: &Sender<(ThreadId, Vec<String>)>,
    begun: &Receiver<Arc<Channel>>,
    quit: &AtomicBool,
) {
    let thread = ThreadId::current();
    let mut shortfalls = Vec::new();
    if let Some(priority) = priority
        && let Err(error) = sched::set_policy(thread, Policy::Fifo { priority })
    {
        shortfalls.push(format!("the agent's thread has no real-time priority: {error}"));
    }
    if let Err(error) = stack::lock_current() {
        shortfalls.push(format!("the agent's stack is not locked: {error}"));
    }
    let _ = ready.send((thread, shortfalls));
    if let Ok(channel) = begun.recv() {
        // Broken: the server does not keep to the protocol, and closes the connection when no answer comes.
        let _ = obey(&channel, table, quit);
    }
}

/// Carries out orders until told to quit. Allocates nothing.
fn obey(channel: &Channel, table: &Table, quit: &AtomicBool) -> Result<(), Broken> {
    let (mut read, mut written) = (Position::default(), Position::default());
    let shared = &*channel.mapping;
    loop {
        while work(channel, table, &mut read, &mut written)? {}
        let seen = shared.doorbell.load(Ordering::SeqCst);
        shared.asleep.store(1, Ordering::SeqCst);
        // Once more: orders that came before this were not signalled.
        let worked = work(channel, table, &mut read, &mut written)?;
        if quit.load(Ordering::Acquire) {
            return Ok(());
        }
        if !worked {
            // Changed, woken or interrupted: the ring says whether there are orders.
            let _ = futex::wait_shared(&shared.doorbell, seen, None);
        }
        shared.asleep.store(0, Ordering::SeqCst);
    }
}

/// Carries out the orders that are there; whether there were any.
fn work(channel: &Channel, table: &Table, read: &mut Position, written: &mut Position) -> Result<bool, Broken> {
    let shared = &*channel.mapping;
    let mut worked = false;
    while let Some(order) = shared.orders.pop::<Order>(read)? {
        let outcome = match order.action {
            Action::Zap => table.zap(order.address, order.pages),
            // A library's memory is all in objects of the server.
            Action::Surrender | Action::Drop | Action::Tell | Action::Charge => Outcome::Refused,
        };
        let sequence = order.sequence;
        // There are never more answers than orders, and the rings are equally long.
        if !shared.replies.push(written, Reply { sequence, outcome }) {
            return Err(Broken);
        }
        worked = true;
    }
    if worked {
        channel.server.signal(1);
    }
    Ok(worked)
}

#[cfg(test)]
mod tests {
    use super::{Recruit, Table};
    use freehold_linux::event::Event;
    use freehold_linux::memory::{Access, ChannelMapping, Memfd, ServedMapping, SharedMapping};
    use freehold_linux::userfault::{Features, Modes, Userfault};
    use freehold_linux::{AddressRange, PAGE_SIZE, futex};
    use freehold_protocol::channel::{Action, Order, Outcome, Position, Reply};
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    /// A server's side of the channel.
    struct Server {
        channel: ChannelMapping,
        event: Event,
        written: Position,
        read: Position,
    }

    impl Server {
        fn order(&mut self, order: Order) -> Reply {
            assert!(self.channel.orders.push(&mut self.written, order));
            self.channel.doorbell.fetch_add(1, Ordering::SeqCst);
            if self.channel.asleep.load(Ordering::SeqCst) == 1 {
                futex::wake_shared(&self.channel.doorbell, 1);
            }
            self.event.wait().unwrap();
            self.channel.replies.pop(&mut self.read).unwrap().unwrap()
        }
    }

    fn order(sequence: u32, action: Action, address: usize, pages: u32) -> Order {
        Order {
            sequence,
            action,
            pages,
            slot: 0,
            address: address as u64,
        }
    }

    #[test]
    fn the_agent_removes_what_is_mapped_and_refuses_the_rest() {
        let userfault = Userfault::open(Features::SERVED).unwrap();
        let object = Memfd::create(c"region", 4).unwrap();
        let alias = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
        alias.populate(alias.whole()).unwrap();
        let table = Arc::new(Table::new());
        let shared = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
        let mapping = Arc::new(ServedMapping::new(shared, &userfault, Modes::ALL).unwrap());
        assert!(table.add(&mapping));
        let page = AddressRange::new(mapping.base().addr() + PAGE_SIZE, PAGE_SIZE).unwrap();
        userfault.continue_(page, false).unwrap();
        mapping.write_word(512, 7).unwrap();

        let memory = Memfd::create(c"channel", ChannelMapping::pages()).unwrap();
        let event = Event::new().unwrap();
        let heard = event.as_fd().try_clone_to_owned().unwrap();
        let recruit = Recruit::start(&table, None).unwrap();
        assert_ne!(recruit.thread(), 0);
        let agent = recruit.employ(ChannelMapping::new(&memory).unwrap(), Event::adopt(heard));
        let mut server = Server {
            channel: ChannelMapping::new(&memory).unwrap(),
            event,
            written: Position::default(),
            read: Position::default(),
        };
        for sequence in 0..2000 {
            let reply = server.order(order(sequence, Action::Zap, page.start(), 1));
            let outcome = Outcome::Done;
            assert_eq!(reply, Reply { sequence, outcome });
        }
        // It is gone: a touch waits until somebody brings it back.
        std::thread::scope(|scope| {
            let touch = scope.spawn(|| mapping.read_word(512));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!touch.is_finished());
            userfault.continue_(page, false).unwrap();
            assert_eq!(touch.join().unwrap(), Some(7));
        });
        for (wrong, outcome) in [
            (order(1, Action::Zap, page.start(), 4), Outcome::Absent),
            (order(2, Action::Zap, page.start() + 8, 1), Outcome::Absent),
            (order(3, Action::Zap, PAGE_SIZE, 1), Outcome::Absent),
            (order(4, Action::Zap, page.start(), 0), Outcome::Refused),
            (order(5, Action::Surrender, page.start(), 1), Outcome::Refused),
            (order(6, Action::Drop, page.start(), 1), Outcome::Refused),
        ] {
            let sequence = wrong.sequence;
            assert_eq!(server.order(wrong), Reply { sequence, outcome });
        }
        table.remove(&mapping);
        let reply = server.order(order(7, Action::Zap, page.start(), 1));
        assert_eq!(reply.outcome, Outcome::Absent);
        assert!(!table.close());
        assert!(!table.add(&mapping));
        drop(agent);
    }
}
