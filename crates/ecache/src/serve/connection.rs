//! One connection: requests in, answers and memory out, and the device closed at its end.

use super::Service;
use super::rights::Rights;
use crate::contiguity::Contiguity;
use crate::device::Client;
use crate::error::OpenError;
use crate::hand_over::{Grant, Opened};
use freehold_core::victim_cache::error::OpenError as Refused;
use freehold_linux::Errno;
use freehold_linux::memory::seal_document;
use freehold_linux::peer_exit::ready;
use freehold_linux::socket::{MOST_DESCRIPTORS, PacketSocket};
use freehold_protocol::device::{self, DeviceAnswer, DeviceRefusal, DeviceRequest, Lies, Opening};
use freehold_protocol::field::TEXT_LIMIT;
use freehold_protocol::message::LIMIT;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};
use serde_json::{Map, Value};
use std::time::Duration;
use tracing::info;

/// How long a connection without a device may say nothing, in seconds.
const SILENCE: i64 = 30;
/// How long a client may take to read its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a connection ends.
struct Ended;

type Step = Result<(), Ended>;

/// A request is refused.
type Refusal = (DeviceRefusal, String);

/// Serves a connection to its end.
pub(super) fn run(service: &Service, socket: &PacketSocket, rights: Rights, first: Option<Vec<u8>>) {
    let mut connection = Connection {
        service,
        socket,
        rights,
        opened: None,
    };
    if let Some(packet) = first
        && connection.on_packet(&packet).is_err()
    {
        return;
    }
    while connection.step().is_ok() {}
}

/// Answers a connection that is not served.
pub(super) fn refuse(socket: &PacketSocket) {
    let answer = DeviceAnswer::Refused {
        reason: DeviceRefusal::Protocol,
        text: "too many connections: close one",
    };
    let mut buffer = [0; LIMIT];
    if let Ok(length) = answer.encode(0, &mut buffer) {
        let _ = socket.send(&buffer[..length], &[]);
    }
}

struct Connection<'a> {
    service: &'a Service,
    socket: &'a PacketSocket,
    rights: Rights,
    opened: Option<Opened>,
}

impl Connection<'_> {
    /// Waits for a packet, and answers it.
    fn step(&mut self) -> Step {
        let mut sources = [
            PollFd::from_borrowed_fd(self.service.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
        ];
        let silence = Timespec {
            tv_sec: SILENCE,
            tv_nsec: 0,
        };
        let limit = self.opened.is_none().then_some(silence);
        let polled = rustix::io::retry_on_intr(|| rustix::event::poll(&mut sources, limit.as_ref()));
        if polled.map_err(|_| Ended)? == 0 || !sources[0].revents().is_empty() {
            return Err(Ended);
        }
        let mut buffer = [0; LIMIT];
        match self.socket.receive(&mut buffer) {
            // Whatever came along is closed again.
            Ok(Some(packet)) if !packet.cut_off => self.on_packet(buffer.get(..packet.length).unwrap_or_default()),
            Err(Errno::AGAIN) => Ok(()),
            _ => Err(Ended),
        }
    }

    fn on_packet(&mut self, packet: &[u8]) -> Step {
        let Ok((serial, request)) = DeviceRequest::decode(packet) else {
            let _ = self.refuse(
                0,
                &(DeviceRefusal::Protocol, "this is no request of a device".to_owned()),
            );
            return Err(Ended);
        };
        let done = match request {
            DeviceRequest::Open { name, used } => self.open(name, used),
            DeviceRequest::Grow { used } => self.grow(used),
            DeviceRequest::Close {} => return self.close(serial),
            DeviceRequest::Status {} => return self.status(serial),
        };
        match done {
            Ok(grant) => self.grant(serial, grant),
            Err(refusal) => self.refuse(serial, &refusal),
        }
    }

    fn open(&mut self, name: &str, used: u32) -> Result<Grant, Refusal> {
        if self.opened.is_some() {
            return Err(order("this connection has a device open: close it first"));
        }
        let users = self.service.cache.users_of(name);
        if !users.is_some_and(|users| self.rights.may_open(&users)) {
            let text = format!("there is no device `{}` that you may open", name.escape_debug());
            return Err((DeviceRefusal::Unknown, text));
        }
        let peer = self.rights.peer;
        let client = Client {
            pid: peer.pid,
            uid: peer.uid,
        };
        let mut opened = self.service.cache.open(name, used, client).map_err(refusal)?;
        info!(device = name, pid = peer.pid, pages = opened.grant.used, "device open");
        let grant = opened.take_grant();
        self.opened = Some(opened);
        Ok(grant)
    }

    fn grow(&mut self, used: u32) -> Result<Grant, Refusal> {
        match &self.opened {
            Some(opened) => opened.grow(used).map_err(refusal),
            None => Err(order("this connection has no device open")),
        }
    }

    fn close(&mut self, serial: u32) -> Step {
        if self.opened.take().is_some() {
            self.send(serial, &DeviceAnswer::Closed {}, &[])
        } else {
            self.refuse(serial, &order("this connection has no device open"))
        }
    }

    fn status(&self, serial: u32) -> Step {
        let document = Value::Object(self.document()).to_string();
        match seal_document(c"freehold-status", document.as_bytes()) {
            Ok(sealed) => {
                let length = document.len() as u64;
                self.send(serial, &DeviceAnswer::Document { length }, &[sealed.as_fd()])
            }
            Err(errno) => self.refuse(serial, &(DeviceRefusal::System, errno.to_string())),
        }
    }

    /// What the peer may know: all, or the devices that it may open.
    fn document(&self) -> Map<String, Value> {
        let cache = &self.service.cache;
        let mut rows = cache.device_rows();
        let mut document = Map::new();
        if self.rights.all {
            document = (self.service.more)();
            document.insert("victim_cache".to_owned(), json(&cache.region_row()));
        } else {
            rows.retain(|row| self.rights.may_open(&row.users));
            document.insert("partial".to_owned(), Value::Bool(true));
        }
        document.insert("devices".to_owned(), json(&rows));
        document
    }

    /// The descriptors go, several at a time; this process keeps none.
    fn grant(&self, serial: u32, grant: Grant) -> Step {
        let fds: Vec<BorrowedFd<'_>> = grant.descriptors.iter().map(AsFd::as_fd).collect();
        let mut packets = fds.chunks(MOST_DESCRIPTORS);
        self.send(serial, &answer(&grant), packets.next().unwrap_or_default())?;
        packets.try_for_each(|packet| self.send(serial, &DeviceAnswer::More {}, packet))
    }

    fn refuse(&self, serial: u32, (reason, text): &Refusal) -> Step {
        let text: String = text.chars().take(TEXT_LIMIT / char::MAX.len_utf8()).collect();
        let answer = DeviceAnswer::Refused {
            reason: *reason,
            text: &text,
        };
        self.send(serial, &answer, &[])
    }

    /// A client that does not read is not waited for long.
    fn send(&self, serial: u32, answer: &DeviceAnswer<'_>, descriptors: &[BorrowedFd<'_>]) -> Step {
        let mut buffer = [0; LIMIT];
        let length = answer.encode(serial, &mut buffer).map_err(|_| Ended)?;
        let bytes = buffer.get(..length).ok_or(Ended)?;
        loop {
            match self.socket.send(bytes, descriptors) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) if ready(self.socket.as_fd(), true, Some(PATIENCE)).unwrap_or(false) => {}
                Err(_) => return Err(Ended),
            }
        }
    }
}

fn answer(grant: &Grant) -> DeviceAnswer<'static> {
    let opening = Opening {
        most: grant.pages,
        used: grant.used,
        lies: match grant.layout.contiguity {
            Contiguity::Physical => Lies::Physical,
            Contiguity::Pieces => Lies::Pieces,
            Contiguity::Unknown => Lies::Unknown,
        },
        pieces: grant.layout.pieces,
        trusted: grant.trusted,
        zeroed: grant.zeroed,
        discarded: grant.discarded,
        wait: grant.took.wait,
        choose: grant.took.choose,
        zero: grant.took.zero,
        total: grant.took.total,
    };
    let grant = device::Grant {
        first: grant.first,
        pages: grant.count,
        descriptors: u32::try_from(grant.descriptors.len()).unwrap_or(u32::MAX),
    };
    DeviceAnswer::Granted { grant, opening }
}

fn order(text: &str) -> Refusal {
    (DeviceRefusal::Order, text.to_owned())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn refusal(error: OpenError) -> Refusal {
    let reason = match &error {
        OpenError::Unknown(_) => DeviceRefusal::Unknown,
        OpenError::InUse { .. } => DeviceRefusal::InUse,
        OpenError::Held { .. } => DeviceRefusal::Held,
        OpenError::Refused(Refused::TooLarge { .. }) => DeviceRefusal::TooLarge,
        OpenError::Refused(_) => DeviceRefusal::Order,
        OpenError::System(_) => DeviceRefusal::System,
    };
    (reason, error.to_string())
}

fn json(row: &impl serde::Serialize) -> Value {
    serde_json::to_value(row).unwrap_or_default()
}
