//! Clients that do to what they share with the server whatever the kernel lets them: it lives, and others are served.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::limits::PageRange as Pages;
use freehold_core::units::{PageCount, PageIndex};
use freehold_linux::charge::ChargeLimits;
use freehold_linux::memory::{Access, ChannelMapping, Memfd, ServedMapping, SharedMapping};
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_server::{ClientId, ClientRole, Handover, MapRequest, NewClient, ObjectKey};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// Where a channel says how many answers there are.
const ANSWERED: u64 = 64 + 128 + 512 * 24;
/// Pages of the region that all share.
const PAGES: u32 = 40;

/// A client whose process does nothing: this one has its memory, and does with what it shares what it likes.
struct Hostile {
    process: Child,
    userfault: Userfault,
    id: ClientId,
    handover: Handover,
}

impl Hostile {
    /// `role`: of a program, both userfaultfds are one and the same.
    fn new(server: &Server, role: ClientRole) -> Self {
        let process = Command::new("sleep").arg("1000").spawn().unwrap();
        let userfault = Userfault::open(Features::SERVED).unwrap();
        let another = || Some(userfault.as_fd().try_clone_to_owned().unwrap());
        let new = NewClient {
            role,
            pid: process.id(),
            uid: 0,
            pidfd: rustix::process::pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).unwrap(),
            name: "hostile".to_owned(),
            agent_thread: 0,
            limits: ChargeLimits::default(),
            private: another().filter(|_| role == ClientRole::Program),
            shared: another(),
        };
        let (id, handover) = server.shared.engine().add_client(new).unwrap();
        Self {
            process,
            userfault,
            id,
            handover,
        }
    }

    /// Maps a region with a task of its own.
    fn map(&self, server: &Server, object: ObjectKey, descriptor: &OwnedFd) -> Arc<ServedMapping> {
        let memory = Memfd::adopt(descriptor.try_clone().unwrap(), PAGES as usize).unwrap();
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
        let served = ServedMapping::new(mapping, &self.userfault, Modes::ALL).unwrap();
        let mut engine = server.shared.engine();
        let request = MapRequest {
            task: engine.add_task(self.id, None, 0, "hostile").unwrap(),
            object,
            address: served.base().addr() as u64,
            range: Pages {
                first: PageIndex::new(0),
                count: PageCount::new(PAGES),
            },
            writable: true,
        };
        engine.map(self.id, &request).unwrap();
        Arc::new(served)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads a word in a thread of its own, which may wait for ever.
fn read(mapping: &Arc<ServedMapping>, page: usize) -> Receiver<Option<u64>> {
    let (tell, told) = channel();
    let mapping = Arc::clone(mapping);
    std::thread::spawn(move || tell.send(mapping.read_word(page * 512)));
    told
}

/// A server, a region, and a client that has it filled: twice as many pages as the reservation.
fn beside(server: &Server) -> (Client, u64, (ObjectKey, OwnedFd)) {
    let region = server.region("shared", PAGES, true);
    let honest = Client::start(server, "client_main");
    let task = honest.task(Some(server.reserve(PAGES / 2)));
    let mapped = honest.map(task, region.0, &region.1, PAGES);
    honest.fill(mapped.number, 0, PAGES.into(), 5);
    (honest, mapped.number, region)
}

#[test]
fn a_userfaultfd_that_is_made_to_wait_ends_its_client_and_stops_nobody() {
    let server = Server::start(256);
    let (honest, number, (object, descriptor)) = beside(&server);
    for role in [ClientRole::Library, ClientRole::Program] {
        let hostile = Hostile::new(&server, role);
        let mapping = hostile.map(&server, object, &descriptor);
        rustix::fs::fcntl_setfl(&hostile.userfault, OFlags::empty()).unwrap();
        let told = read(&mapping, 3);
        server.until("it is gone", |engine| !engine.has_client(hostile.id));
        let notices = server.shared.engine().take_notices();
        assert!(
            notices.iter().any(|notice| notice.text.contains("by its own doing")),
            "{notices:?}"
        );
        assert_eq!(honest.wrong(number, 0, PAGES.into(), 5), 0);
        drop(told);
    }
    server.check();
}

#[test]
fn whatever_is_written_to_a_channel_ends_its_client_at_most() {
    let seed = std::process::id();
    println!("seed {seed}");
    let mut random = u64::from(seed) | 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let server = Server::start(256);
    let (honest, number, (object, descriptor)) = beside(&server);
    let mut ended = 0;
    for round in 0..40 {
        let hostile = Hostile::new(&server, ClientRole::Library);
        let mapping = hostile.map(&server, object, &descriptor);
        assert_ne!(read(&mapping, round % PAGES as usize).recv().unwrap(), None);
        let length = (ChannelMapping::pages() * 4096) as u64;
        for _ in 0..200 {
            let place = if next() % 8 == 0 {
                ANSWERED
            } else {
                next() % (length / 8) * 8
            };
            // Small numbers are what positions and sequences are.
            let word = if next() % 2 == 0 { next() } else { next() % 600 };
            rustix::io::pwrite(&hostile.handover.channel, &word.to_ne_bytes(), place).unwrap();
            let _ = rustix::io::write(&hostile.handover.event, &1_u64.to_ne_bytes());
        }
        assert_eq!(honest.wrong(number, 0, PAGES.into(), 5), 0);
        ended += u32::from(!server.shared.engine().has_client(hostile.id));
        server.shared.engine().remove_client(hostile.id);
        server.check();
    }
    assert!(ended > 10, "{ended} of 40 were noticed");
}

#[test]
fn nothing_that_is_shared_can_be_cut_off_and_holes_are_zeros() {
    let server = Server::start(256);
    let (honest, number, (object, descriptor)) = beside(&server);
    let hostile = Hostile::new(&server, ClientRole::Program);
    let mapping = hostile.map(&server, object, &descriptor);
    for shared in [&hostile.handover.channel, &hostile.handover.transfer, &descriptor] {
        assert_eq!(rustix::fs::ftruncate(shared, 0), Err(Errno::PERM));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(shared, hole, 0, 4096).unwrap();
    }
    // Who may write the region may also write zeros; it is the same for all.
    let found = read(&mapping, 0).recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(found == Some(0) || found == Some(client::pattern(5, 0)), "{found:?}");
    assert_eq!(honest.read_at(number, 0), found.unwrap());
    assert_eq!(honest.wrong(number, 1, u64::from(PAGES) - 1, 5), 0);
    honest.fill(number, 0, PAGES.into(), 6);
    assert_eq!(honest.wrong(number, 0, PAGES.into(), 6), 0);
    server.check();
}
