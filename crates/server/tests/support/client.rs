//! What a client process does.

use freehold_linux::memory::{Access, ChannelMapping, Memfd, ServedMapping, SharedMapping};
use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{PAGE_SIZE, PageRange, futex};
use freehold_protocol::channel::{Action, Order, Outcome, Position, Reply};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Commands: what, then its arguments; the answer is one word.
pub(crate) const MAP: u64 = 1;
/// Of a mapping's number.
pub(crate) const ADDRESS: u64 = 2;
/// Mapping, page, value.
pub(crate) const WRITE: u64 = 3;
/// Mapping, page.
pub(crate) const READ: u64 = 4;
/// Mapping, first page, count, seed: writes a value of its own to each page, several threads at once.
pub(crate) const FILL: u64 = 5;
/// Mapping, first page, count, seed: how many pages do not hold what `FILL` wrote; several threads at once.
pub(crate) const CHECK: u64 = 6;
/// From now on orders are taken and not answered.
pub(crate) const DEAF: u64 = 7;
/// Mapping, pages, seed: reads and writes at random until killed; every value read must be one that was written.
pub(crate) const CHURN: u64 = 8;

/// Mapping, page: reads it; when that was, in nanoseconds of the monotonic clock.
pub(crate) const WHEN: u64 = 9;

/// From now on memory that is served is mapped and unmapped all the time.
pub(crate) const UNSETTLE: u64 = 30;
/// Mapping, pages, visits: two threads write words of their own all over the pages, and check what they wrote before;
/// how often that was lost.
pub(crate) const REWRITE: u64 = 31;
/// With a file that can be written, and whose file system never answers that: from now on the address space cannot be
/// changed, nor looked at by whoever would have to wait for that.
pub(crate) const HOLD: u64 = 32;

// Programs only.
/// Pages: maps private memory.
pub(crate) const ANONYMOUS: u64 = 10;
/// Mapping, first page, count: drops them.
pub(crate) const DROP: u64 = 11;
/// Mapping, first page, count: unmaps them.
pub(crate) const UNMAP: u64 = 12;
/// Mapping: moves it elsewhere.
pub(crate) const MOVE: u64 = 13;
/// Mapping, first page, count, seed: forks a child that looks for the pattern, while the parent writes another to every
/// second page; how many pages were wrong.
pub(crate) const FORK: u64 = 14;

/// Whether: from now on orders are answered "the kernel holds the page".
pub(crate) const BUSY: u64 = 15;
/// Mapping, page: its word; [`ERROR`] where reading it raised SIGBUS there.
pub(crate) const TOUCH: u64 = 16;
/// Mapping, first page, count, seed: from now on the agent loses what it is to give up; then forks, and answers 0. The
/// child answers when the parent was killed: how many pages are errors, and 2^32 for each that is wrong.
pub(crate) const LOSE: u64 = 17;
/// Mapping, page: the agent itself touches the page before each order, and drops it again.
pub(crate) const CLUMSY: u64 = 18;
/// Whether: from now on the agent takes what it is to give up, and does not answer.
pub(crate) const LOSING: u64 = 19;
/// Mapping, first page, count, seed: forks, and goes on as after [`LOSE`].
pub(crate) const TELL: u64 = 20;
/// As [`CHECK`], one thread.
pub(crate) const CHECK_ALONE: u64 = 21;
/// Mapping, first page, count, seed: another thread looks at these pages, and the program forks when its agent has
/// dropped one and not said so. 1 if that came about, and 2 for each page that was wrong in the child.
pub(crate) const FORK_BETWEEN: u64 = 22;
/// Mapping, first page, count, seed: forks a child that ends at once, and looks at the pages; how many were wrong.
pub(crate) const FORK_IN_VAIN: u64 = 23;
/// Reading raised SIGBUS.
pub(crate) const ERROR: u64 = u64::MAX;

const WORDS: usize = PAGE_SIZE / 8;

/// What `FILL` writes to a page.
pub(crate) fn pattern(seed: u64, page: u64) -> u64 {
    (seed << 32 | page).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

type Mappings = Arc<Mutex<Vec<Arc<ServedMapping>>>>;

struct State {
    userfault: Userfault,
    mappings: Mappings,
    deaf: Arc<std::sync::atomic::AtomicBool>,
}

/// The client's main function: returns at once where the process is no client.
pub(crate) fn main() {
    if std::env::var_os(super::CHILD).is_none() {
        return;
    }
    let socket = PacketSocket::from_fd(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let userfault = Userfault::open(Features::SERVED).unwrap();
    socket.send(b"hello", &[userfault.as_fd()]).unwrap();
    let mut buffer = [0; 64];
    let mut welcome = socket.receive(&mut buffer).unwrap().unwrap();
    let event = welcome.descriptors.pop().unwrap();
    let channel = welcome.descriptors.pop().unwrap();
    let channel = ChannelMapping::new(&Memfd::adopt(channel, ChannelMapping::pages()).unwrap()).unwrap();
    let mappings = Mappings::default();
    let deaf = Arc::default();
    let (shared, quiet) = (Arc::clone(&mappings), Arc::clone(&deaf));
    std::thread::spawn(move || agent(&channel, &event, &shared, &quiet));
    let state = State {
        userfault,
        mappings,
        deaf,
    };
    while let Ok(Some(mut packet)) = socket.receive(&mut buffer) {
        let words = buffer[..packet.length].chunks_exact(8);
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let answer = state.obey(&words, packet.descriptors.pop());
        socket.send(&answer.to_le_bytes(), &[]).unwrap();
    }
    std::process::exit(0);
}

/// Answers the channel.
fn agent(channel: &ChannelMapping, event: &OwnedFd, mappings: &Mappings, deaf: &std::sync::atomic::AtomicBool) {
    let (mut read, mut written) = (Position::default(), Position::default());
    loop {
        let doorbell = channel.doorbell.load(Ordering::SeqCst);
        let mut any = false;
        while let Some(order) = channel.orders.pop::<Order>(&mut read).unwrap() {
            if deaf.load(Ordering::SeqCst) {
                continue;
            }
            assert_eq!(order.action, Action::Zap);
            let outcome = zap(mappings, &order);
            let reply = Reply {
                sequence: order.sequence,
                outcome,
            };
            assert!(channel.replies.push(&mut written, reply));
            any = true;
        }
        if any {
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap();
            continue;
        }
        channel.asleep.store(1, Ordering::SeqCst);
        if channel.doorbell.load(Ordering::SeqCst) == doorbell {
            let _ = futex::wait_shared(&channel.doorbell, doorbell, None);
        }
        channel.asleep.store(0, Ordering::SeqCst);
    }
}

fn zap(mappings: &Mappings, order: &Order) -> Outcome {
    let address = usize::try_from(order.address).unwrap();
    for mapping in mappings.lock().unwrap().iter() {
        let start = mapping.base().addr();
        if (start..start + mapping.length()).contains(&address) {
            let range = PageRange::new((address - start) / PAGE_SIZE, order.pages as usize);
            mapping.zap(range).unwrap();
            return Outcome::Done;
        }
    }
    Outcome::Absent
}

impl State {
    fn mapping(&self, number: u64) -> Arc<ServedMapping> {
        Arc::clone(&self.mappings.lock().unwrap()[usize::try_from(number).unwrap()])
    }

    fn obey(&self, words: &[u64], descriptor: Option<OwnedFd>) -> u64 {
        match *words {
            [MAP, pages] => {
                let pages = usize::try_from(pages).unwrap();
                let memory = Memfd::adopt(descriptor.unwrap(), pages).unwrap();
                let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
                let served = ServedMapping::new(mapping, &self.userfault, Modes::ALL).unwrap();
                let mut mappings = self.mappings.lock().unwrap();
                mappings.push(Arc::new(served));
                mappings.len() as u64 - 1
            }
            [ADDRESS, number] => self.mapping(number).base().addr() as u64,
            [WRITE, number, page, value] => {
                self.mapping(number).write_word(at(page), value).unwrap();
                value
            }
            [READ, number, page] => self.mapping(number).read_word(at(page)).unwrap(),
            [WHEN, number, page] => {
                self.mapping(number).read_word(at(page)).unwrap();
                freehold_linux::clock::now().as_nanos()
            }
            [FILL, number, first, count, seed] => {
                let mapping = self.mapping(number);
                in_threads(first, count, |page| {
                    mapping.write_word(at(page), pattern(seed, page)).unwrap();
                    0
                })
            }
            [CHECK, number, first, count, seed] => {
                let mapping = self.mapping(number);
                in_threads(first, count, |page| {
                    u64::from(mapping.read_word(at(page)).unwrap() != pattern(seed, page))
                })
            }
            [DEAF] => {
                self.deaf.store(true, Ordering::SeqCst);
                0
            }
            [UNSETTLE] => {
                let another = self.userfault.as_fd().try_clone_to_owned().unwrap();
                std::thread::spawn(move || unsettle(&Userfault::adopt(another, Features::SERVED).unwrap()));
                0
            }
            [HOLD] => {
                hold(descriptor.unwrap());
                0
            }
            [REWRITE, number, pages, visits] => rewrite_all(&self.mapping(number), pages, visits),
            [CHURN, number, pages, seed] => {
                let mapping = self.mapping(number);
                std::thread::spawn(move || churn(&mapping, pages, seed));
                0
            }
            _ => panic!("{words:?}"),
        }
    }
}

fn at(page: u64) -> usize {
    usize::try_from(page).unwrap() * WORDS
}

/// Does something with each page, three threads taking turns; the sum.
fn in_threads(first: u64, count: u64, each: impl Fn(u64) -> u64 + Sync) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let each = &each;
                scope.spawn(move || (first + thread..first + count).step_by(3).map(each).sum::<u64>())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The kernel changes nothing for the server in an address space of which a change has not been read.
fn unsettle(userfault: &Userfault) {
    let memory = Memfd::create(c"unsettled", 1).unwrap();
    loop {
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
        drop(ServedMapping::new(mapping, userfault, Modes::ALL).unwrap());
    }
}

/// The kernel writes a page out as its mapping goes, and keeps the address space meanwhile.
fn hold(file: OwnedFd) {
    let mapping = SharedMapping::of_whole(&Memfd::adopt(file, 1).unwrap(), Access::ReadWrite).unwrap();
    mapping.populate(PageRange::single(0)).unwrap();
    std::thread::spawn(move || drop(mapping));
    std::thread::spawn(|| {
        let memory = Memfd::create(c"waits", 1).unwrap();
        loop {
            drop(SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap());
        }
    });
}

/// Two threads; how often one did not find what it had written.
fn rewrite_all(mapping: &ServedMapping, pages: u64, visits: u64) -> u64 {
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || rewrite(mapping, thread, pages, visits)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn rewrite(mapping: &ServedMapping, thread: usize, pages: u64, visits: u64) -> u64 {
    let mut written = vec![0; usize::try_from(pages).unwrap()];
    let (mut random, mut lost) = (0x9e37_79b9_7f4a_7c15 + thread as u64, 0);
    for _ in 0..visits {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let page = random % pages;
        let (word, value) = (at(page) + thread, &mut written[usize::try_from(page).unwrap()]);
        lost += u64::from(mapping.read_word(word) != Some(*value));
        // Again and again, so that some of it falls between the copy of a page that leaves and its end.
        for _ in 0..random >> 40 & 63 {
            *value += 1;
            mapping.write_word(word, *value).unwrap();
        }
    }
    lost
}

fn churn(mapping: &ServedMapping, pages: u64, seed: u64) {
    let mut random = seed | 1;
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let page = random % pages;
        if random & (1 << 40) == 0 {
            mapping.write_word(at(page), pattern(7, page)).unwrap();
        } else {
            let found = mapping.read_word(at(page)).unwrap();
            if found != 0 && found != pattern(7, page) {
                std::process::exit(3);
            }
        }
    }
}
