//! A client process that does what it is told: it speaks the protocol as it is given, maps what it has opened, touches
//! it, and carries out the server's orders. The test binary once more, as another user.
#![allow(dead_code, reason = "not every test file uses everything")]

use freehold_linux::memory::{Access, ChannelMapping, Memfd, ServedMapping, SharedMapping, read_document};
use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{Errno, PAGE_SIZE, PageRange, futex};
use freehold_protocol::channel::{Order, Outcome, Position, Reply, doze, woke};
use freehold_protocol::message::{Answer, LIMIT, Regime, RegionKind, Request};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where a player connects to; set in players only.
pub(crate) const SOCKET: &str = "FREEHOLD_TEST_PLAYER";
/// Says a request as it is, without descriptors; the answer is the server's.
const ASK: u8 = 0;
/// The same, with its userfaultfd.
const GREET: u8 = 1;
/// The same, with a file.
const FILE: u8 = 2;
/// Says a request and does not wait for its answer; answers at once.
const POST: u8 = 3;
/// Task, object, first page, pages: maps, and says so to the server.
const MAP: u8 = 4;
/// Mapping: unmaps, and says so.
const UNMAP: u8 = 5;
/// Mapping, page, value: writes it.
const WRITE: u8 = 6;
/// Mapping, page: reads it.
const READ: u8 = 7;
/// Mapping: unmaps, and says nothing.
const DROP: u8 = 8;
/// Mapping: where it is.
const PLACE: u8 = 9;
/// Runs the program named in its own place, which has the connection still.
const BECOME: u8 = 10;
/// Asks a question: the text of the document in pieces, after each whether there are more.
const DOCUMENT: u8 = 11;

type Mappings = Arc<Mutex<Vec<Arc<ServedMapping>>>>;

/// A player as the test sees it; killed when dropped.
pub(crate) struct Player {
    process: Child,
    socket: PacketSocket,
    pub(crate) user: u32,
}

/// An answer of the server, as far as histories look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Done,
    Reserved(u32, (u64, u64)),
    Made(u32),
    Opened(u32),
    Refused(freehold_protocol::message::Refusal, String),
    Other,
    /// The connection is over.
    Nothing,
}

impl Player {
    /// Starts `program`, a copy of the test binary, as `user`.
    pub(crate) fn start(program: &Path, server: &Path, user: u32) -> Self {
        let (mine, its) = PacketSocket::pair().expect("a pair of sockets");
        set_socket_timeout(&mine, Timeout::Recv, Some(PATIENCE)).expect("a socket");
        let mut command = Command::new(program);
        command
            .args(["--exact", "player_main", "--nocapture", "--test-threads=1"])
            .env(SOCKET, server)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        Self {
            process: command.spawn().expect("a player starts"),
            socket: mine,
            user,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn tell(&self, what: u8, rest: &[u8]) {
        let mut packet = vec![what];
        packet.extend_from_slice(rest);
        // One that has died does not answer either.
        let _ = self.socket.send(&packet, &[]);
    }

    /// How long its answer is; nothing where it has died.
    fn answer(&self, buffer: &mut [u8; LIMIT]) -> Option<usize> {
        match self.socket.receive(buffer) {
            Ok(packet) => Some(packet?.length),
            Err(Errno::AGAIN) => panic!("process {} has waited for longer than {PATIENCE:?}", self.pid()),
            Err(_) => None,
        }
    }

    /// How it has ended, once it has.
    pub(crate) fn end(&mut self) -> std::process::ExitStatus {
        self.process.wait().expect("a child")
    }

    fn hear(&self) -> Heard {
        let mut buffer = [0; LIMIT];
        let Some(length) = self.answer(&mut buffer).filter(|length| *length > 1) else {
            return Heard::Nothing;
        };
        match Answer::decode(&buffer[..length])
            .expect("the server speaks the protocol")
            .1
        {
            Answer::Done {} => Heard::Done,
            Answer::Reserved {
                reservation,
                ticket_high,
                ticket_low,
                ..
            } => Heard::Reserved(reservation, (ticket_high, ticket_low)),
            Answer::Made { handle } => Heard::Made(handle),
            Answer::Opened { object, .. } => Heard::Opened(object),
            Answer::Refused { why, text } => Heard::Refused(why, text.to_owned()),
            _ => Heard::Other,
        }
    }

    pub(crate) fn ask(&self, request: &Request<'_>) -> Heard {
        self.tell(ASK, &super::server::bytes(request, 1));
        self.hear()
    }

    /// The document that a question is answered with, where it is.
    pub(crate) fn document(&self, request: &Request<'_>) -> Option<String> {
        self.tell(DOCUMENT, &super::server::bytes(request, 1));
        let mut text = Vec::new();
        let mut buffer = [0; LIMIT];
        loop {
            let length = self.answer(&mut buffer)?;
            text.extend_from_slice(&buffer[1..length]);
            if buffer[0] == 0 {
                break;
            }
        }
        String::from_utf8(text).ok().filter(|text| !text.is_empty())
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("a child");
    }

    /// Says hello as a process that has memory.
    pub(crate) fn greet(&self, request: &Request<'_>) -> Heard {
        self.tell(GREET, &super::server::bytes(request, 1));
        self.hear()
    }

    pub(crate) fn open_file(&self, request: &Request<'_>) -> Heard {
        self.tell(FILE, &super::server::bytes(request, 1));
        self.hear()
    }

    /// Has a request said, whose answer nobody will hear: kill the player next.
    pub(crate) fn post(&self, request: &Request<'_>) {
        self.tell(POST, &super::server::bytes(request, 1));
        self.answer(&mut [0; LIMIT]);
    }

    pub(crate) fn map(&self, words: [u64; 4]) -> Heard {
        self.tell(MAP, &bytes_of(&words));
        self.hear()
    }

    pub(crate) fn unmap(&self, mapping: u32) -> Heard {
        self.tell(UNMAP, &bytes_of(&[mapping.into()]));
        self.hear()
    }

    pub(crate) fn drop_mapping(&self, mapping: u32) {
        self.tell(DROP, &bytes_of(&[mapping.into()]));
        self.answer(&mut [0; LIMIT]);
    }

    /// Nothing where it has died of it.
    pub(crate) fn write(&self, mapping: u32, page: u32, value: u64) -> Option<()> {
        self.tell(WRITE, &bytes_of(&[mapping.into(), page.into(), value]));
        self.answer(&mut [0; LIMIT]).map(|_| ())
    }

    /// Where a mapping is in its address space.
    pub(crate) fn place(&self, mapping: u32) -> u64 {
        self.tell(PLACE, &bytes_of(&[mapping.into()]));
        let mut buffer = [0; LIMIT];
        assert_eq!(self.answer(&mut buffer), Some(8));
        u64::from_le_bytes(buffer[..8].try_into().unwrap())
    }

    /// It becomes another program, with its connection open.
    pub(crate) fn become_program(&self, program: &Path) {
        self.tell(BECOME, program.to_str().expect("text").as_bytes());
    }

    /// Begins to write; the player is to be killed meanwhile.
    pub(crate) fn begin_to_write(&self, mapping: u32, page: u32, value: u64) {
        self.tell(WRITE, &bytes_of(&[mapping.into(), page.into(), value]));
    }

    /// Nothing where it has died of it.
    pub(crate) fn read(&self, mapping: u32, page: u32) -> Option<u64> {
        self.tell(READ, &bytes_of(&[mapping.into(), page.into()]));
        let mut buffer = [0; LIMIT];
        self.answer(&mut buffer).filter(|length| *length == 8)?;
        Some(u64::from_le_bytes(buffer[..8].try_into().unwrap()))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The player's side.
struct State {
    server: PacketSocket,
    userfault: Userfault,
    objects: BTreeMap<u32, (OwnedFd, u32)>,
    mappings: BTreeMap<u32, Arc<ServedMapping>>,
    shared: Mappings,
}

/// The player's main function: returns at once where the process is none.
pub(crate) fn main() {
    let Some(path) = std::env::var_os(SOCKET) else {
        return;
    };
    let tells = PacketSocket::from_fd(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut state = State {
        server: PacketSocket::connect(Path::new(&path)).expect("the server listens"),
        userfault: Userfault::open(Features::SERVED).expect("a userfaultfd"),
        objects: BTreeMap::new(),
        mappings: BTreeMap::new(),
        shared: Mappings::default(),
    };
    let mut buffer = [0; LIMIT + 1];
    while let Ok(Some(packet)) = tells.receive(&mut buffer) {
        if buffer[0] == DOCUMENT {
            let text = state.document(&buffer[1..packet.length]);
            for piece in text.as_bytes().chunks(LIMIT - 1) {
                tells.send(&[&[1], piece].concat(), &[]).unwrap();
            }
            tells.send(&[0], &[]).unwrap();
            continue;
        }
        let answer = state.obey(buffer[0], &buffer[1..packet.length]);
        tells.send(&answer, &[]).unwrap();
    }
    std::process::exit(0);
}

impl State {
    fn obey(&mut self, what: u8, rest: &[u8]) -> Vec<u8> {
        if what <= POST {
            return self.say(what, rest);
        }
        if what == BECOME {
            rustix::io::fcntl_setfd(&self.server, rustix::io::FdFlags::empty()).unwrap();
            let error = Command::new(std::str::from_utf8(rest).unwrap()).arg("1000").exec();
            panic!("{error}");
        }
        let words: Vec<u64> = rest
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let number = |word: u64| u32::try_from(word).unwrap();
        match (what, &words[..]) {
            (MAP, &[task, object, first, pages]) => {
                self.map(number(task), number(object), number(first), number(pages))
            }
            (UNMAP, &[mapping]) => {
                self.drop_mapping(number(mapping));
                let mapping = number(mapping);
                self.ask(&super::server::bytes(&Request::Unmap { mapping }, 1), &[])
            }
            (WRITE, &[mapping, page, value]) => {
                self.mappings[&number(mapping)].write_word(at(page), value).unwrap();
                vec![0; 8]
            }
            (READ, &[mapping, page]) => self.mappings[&number(mapping)]
                .read_word(at(page))
                .unwrap()
                .to_le_bytes()
                .to_vec(),
            (PLACE, &[mapping]) => (self.mappings[&number(mapping)].base().addr() as u64)
                .to_le_bytes()
                .to_vec(),
            (DROP, &[mapping]) => {
                self.drop_mapping(number(mapping));
                vec![0]
            }
            other => panic!("{other:?}"),
        }
    }

    fn say(&mut self, what: u8, request: &[u8]) -> Vec<u8> {
        match what {
            ASK => self.ask(request, &[]),
            GREET => {
                let userfault = self.userfault.as_fd().try_clone_to_owned().unwrap();
                self.ask(request, &[userfault.as_fd()])
            }
            FILE => {
                let file = File::open("/proc/self/exe").unwrap();
                self.ask(request, &[file.as_fd()])
            }
            _ => {
                let _ = self.server.send(request, &[]);
                vec![0]
            }
        }
    }

    /// The server's answer as it is; one byte where there is none.
    fn ask(&mut self, request: &[u8], descriptors: &[BorrowedFd<'_>]) -> Vec<u8> {
        if self.server.send(request, descriptors).is_err() {
            return vec![0];
        }
        let mut buffer = [0; LIMIT];
        let Ok(Some(packet)) = self.server.receive(&mut buffer) else {
            return vec![0];
        };
        let (bytes, descriptors_sent) = (&buffer[..packet.length], descriptors.len());
        let mut descriptors = packet.descriptors.into_iter();
        match Answer::decode(bytes).map(|(_, answer)| answer) {
            // Files are never mapped.
            Ok(Answer::Opened { object, grant }) if descriptors_sent == 0 => {
                self.objects.insert(object, (descriptors.next().unwrap(), grant.pages));
            }
            Ok(Answer::Welcome { .. }) if descriptors.len() > 0 => self.employ(descriptors.collect()),
            _ => {}
        }
        bytes.to_vec()
    }

    fn document(&self, request: &[u8]) -> String {
        self.server.send(request, &[]).unwrap();
        let mut buffer = [0; LIMIT];
        let packet = self.server.receive(&mut buffer).unwrap().unwrap();
        match Answer::decode(&buffer[..packet.length]).unwrap().1 {
            Answer::Document { length } => {
                let bytes = read_document(&packet.descriptors[0], length, 1 << 24).unwrap();
                String::from_utf8(bytes).unwrap()
            }
            _ => String::new(),
        }
    }

    fn employ(&self, mut descriptors: Vec<OwnedFd>) {
        let (event, channel) = (descriptors.pop().unwrap(), descriptors.swap_remove(0));
        let channel = Memfd::adopt(channel, ChannelMapping::pages()).unwrap();
        let channel = ChannelMapping::new(&channel).unwrap();
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || agent(&channel, &event, &shared));
    }

    fn map(&mut self, task: u32, object: u32, first: u32, pages: u32) -> Vec<u8> {
        // A handle that names nothing maps any other object: the server refuses.
        let Some((descriptor, size)) = self.objects.get(&object).or_else(|| self.objects.values().next()) else {
            return vec![0];
        };
        let size = *size as usize;
        let range = PageRange::new(first as usize, pages as usize);
        let range = if range.fits(size) {
            range
        } else {
            PageRange::new(0, size)
        };
        let memory = Memfd::adopt(descriptor.try_clone().unwrap(), size).unwrap();
        let mapping = SharedMapping::new(&memory, range, Access::ReadWrite).unwrap();
        let served = Arc::new(ServedMapping::new(mapping, &self.userfault, Modes::ALL).unwrap());
        self.shared.lock().unwrap().push(Arc::clone(&served));
        let request = Request::Map {
            task,
            object,
            address: served.base().addr() as u64,
            first,
            pages,
            writable: true,
        };
        let answer = self.ask(&super::server::bytes(&request, 1), &[]);
        match Answer::decode(&answer) {
            Ok((_, Answer::Made { handle })) => {
                self.mappings.insert(handle, served);
            }
            _ => self.forget(&served),
        }
        answer
    }

    fn drop_mapping(&mut self, mapping: u32) {
        if let Some(served) = self.mappings.remove(&mapping) {
            self.forget(&served);
        }
    }

    fn forget(&self, served: &Arc<ServedMapping>) {
        self.shared.lock().unwrap().retain(|other| !Arc::ptr_eq(other, served));
    }
}

fn at(page: u64) -> usize {
    usize::try_from(page).unwrap() * (PAGE_SIZE / 8)
}

/// Carries out orders.
fn agent(channel: &ChannelMapping, event: &OwnedFd, mappings: &Mappings) {
    let (mut read, mut written) = (Position::default(), Position::default());
    loop {
        while let Some(order) = channel.orders.pop::<Order>(&mut read).unwrap() {
            let reply = Reply {
                sequence: order.sequence,
                outcome: zap(mappings, &order),
            };
            assert!(channel.replies.push(&mut written, reply));
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap();
        }
        if let Some(doorbell) = doze(&channel.doorbell, &channel.asleep, || channel.orders.is_empty(&read)) {
            let _ = futex::wait_shared(&channel.doorbell, doorbell, None);
            woke(&channel.asleep);
        }
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

/// A request to open a region.
pub(crate) fn region_request(name: &str, pages: u32, shared: bool) -> Request<'_> {
    Request::OpenRegion {
        name,
        pages,
        kind: if shared {
            RegionKind::Shared
        } else {
            RegionKind::Private
        },
        regime: Regime::Conserve,
    }
}
