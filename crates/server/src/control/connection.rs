//! One connection: packets in, answers out, and what it waits for.

use crate::control::accounts::Charge;
use crate::control::bucket::Bucket;
use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::control::reply::{self, Outcome, Reply, Waiting};
use crate::control::session::{Peer, Session};
use crate::control::tickets::Ticket;
use crate::control::users::Letter;
use crate::control::wait::Wait;
use crate::engine::Membership;
use crate::error::EngineError;
use freehold_core::error::AdmitError;
use freehold_core::limits::ReservationSpec;
use freehold_linux::Errno;
use freehold_linux::socket::{Packet, PacketSocket};
use freehold_protocol::device::is_request;
use freehold_protocol::message::{LIMIT, Refusal, Request};
use freehold_protocol::packet::messages;
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};
use std::vec;
use tracing::{debug, info, warn};

/// How often what a request waits for is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// What a step leaves of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It goes on.
    Open,
    /// It is to be closed.
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: PacketSocket,
    session: Session,
    bucket: Bucket,
    wait: Option<Wait>,
    /// It has asked too much, and is read again then.
    paused: Option<Instant>,
    /// It must have said who it is by then.
    greeted_by: Instant,
    /// For the connection itself, wherever it goes on.
    charge: Option<Charge>,
}

impl Connection {
    /// A connection that the kernel has just made.
    pub(super) fn new((socket, peer, charge): Letter, registry: &Registry, now: Instant) -> Self {
        let limits = &registry.limits;
        Self {
            socket,
            session: Session::new(peer),
            bucket: Bucket::new(limits.requests_per_second, limits.requests_at_once, now),
            wait: None,
            paused: None,
            greeted_by: now + limits.greeting,
            charge: Some(charge),
        }
    }

    /// Who is at the other end.
    pub(super) fn peer(&self) -> &Peer {
        self.session.peer()
    }

    /// Whether the next request is wanted now.
    pub(super) fn reads(&self) -> bool {
        self.wait.is_none() && self.paused.is_none()
    }

    /// When [`on_time`](Self::on_time) is to be called next.
    pub(super) fn next(&self) -> Option<Instant> {
        let greeting = (!self.session.is_greeted()).then_some(self.greeted_by);
        let look = self.wait.as_ref().map(|wait| wait.look.min(wait.until));
        [greeting, look, self.paused].into_iter().flatten().min()
    }

    /// The socket can be read: takes the packets that are there, until they held `most` requests.
    pub(super) fn on_readable(&mut self, registry: &Registry, most: usize) -> Left {
        let mut taken = 0;
        while taken < most {
            let now = Instant::now();
            // Whether there is another is not known: nobody is paused for one that may not be there.
            let mut bucket = self.bucket;
            if taken > 0 && !(self.reads() && bucket.take(1, now).is_ok()) {
                break;
            }
            match self.take_packet(registry, now) {
                Some((requests, Left::Open)) => taken += requests,
                Some((_, Left::Closed)) => return Left::Closed,
                None => break,
            }
        }
        Left::Open
    }

    /// Takes one packet, and how many requests it held; `None` where none is there, or none may be taken now.
    fn take_packet(&mut self, registry: &Registry, now: Instant) -> Option<(usize, Left)> {
        let before = self.bucket;
        if let Err(pause) = self.bucket.take(1, now) {
            self.paused = Some(now + pause);
            self.complain(registry, "asks faster than it may: it waits");
            return None;
        }
        let mut buffer = [0; LIMIT];
        match self.socket.receive(&mut buffer) {
            Ok(Some(packet)) => Some(self.on_packet(registry, &buffer, packet, now)),
            Err(Errno::AGAIN) => {
                self.bucket = before;
                None
            }
            Ok(None) | Err(_) => Some((0, Left::Closed)),
        }
    }

    fn on_packet(&mut self, registry: &Registry, buffer: &[u8; LIMIT], packet: Packet, now: Instant) -> (usize, Left) {
        let bytes = buffer.get(..packet.length).unwrap_or_default();
        if packet.cut_off {
            let refused = Refused::closing(
                Refusal::Malformed,
                "the message is too long, has too many descriptors, or the server has none left",
            );
            return (1, self.answer(registry, serial(bytes), Err(refused)));
        }
        if !self.session.is_greeted() && is_request(bytes) {
            return (1, self.hand_to_devices(registry, bytes));
        }
        if messages(bytes).nth(1).is_none() {
            (1, self.on_request(registry, bytes, packet.descriptors, now))
        } else {
            self.on_several(registry, bytes, packet.descriptors, now)
        }
    }

    /// A client of devices, whose connection goes on there and is over here.
    fn hand_to_devices(&mut self, registry: &Registry, bytes: &[u8]) -> Left {
        match &registry.devices {
            Some(devices) => {
                if let Err(errno) = devices.serve(&self.socket, bytes, self.charge.take()) {
                    self.complain(registry, &format!("cannot be handed to the devices: {errno}"));
                }
                Left::Closed
            }
            None => {
                let text = "this server has no devices: start it with `--devices FILE`";
                self.answer(registry, serial(bytes), Err(Refused::closing(Refusal::Unknown, text)))
            }
        }
    }

    fn on_request(&mut self, registry: &Registry, bytes: &[u8], descriptors: Vec<OwnedFd>, now: Instant) -> Left {
        let (serial, request) = match decode(registry, bytes) {
            Ok(decoded) => decoded,
            Err((serial, refused)) => return self.answer(registry, serial, Err(refused)),
        };
        let greeting = matches!(request, Request::Hello { .. });
        let outcome = self.session.handle(registry, &request, descriptors);
        if !matches!(request, Request::Ask { .. }) {
            registry.snapshots.spoil();
        }
        if greeting && outcome.is_ok() {
            self.say_hello();
        }
        match outcome {
            Ok(Reply::Wait(what)) => {
                self.wait = Some(Wait {
                    serial,
                    what,
                    look: now,
                    until: now + registry.limits.patience,
                    come: 0,
                });
                self.look(registry, now)
            }
            outcome => self.answer(registry, serial, outcome),
        }
    }

    /// Several requests in a packet, none of which waits. One that ends the connection is the last.
    fn on_several(
        &mut self,
        registry: &Registry,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> (usize, Left) {
        let (mut descriptors, mut outcomes) = (descriptors.into_iter(), Vec::new());
        let mut messages = messages(bytes).peekable();
        while let Some(message) = messages.next().filter(|_| !outcomes.last().is_some_and(closes)) {
            let is_last = messages.peek().is_none();
            outcomes.push(self.on_one_of_several(registry, message, is_last, &mut descriptors));
        }
        registry.snapshots.spoil();
        // One was paid for with the packet.
        let others = u32::try_from(outcomes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        self.bucket.charge(others, now);
        (outcomes.len(), self.answer_all(registry, &outcomes))
    }

    fn on_one_of_several(
        &mut self,
        registry: &Registry,
        bytes: &[u8],
        is_last: bool,
        all: &mut vec::IntoIter<OwnedFd>,
    ) -> Outcome {
        let (serial, request) = match decode(registry, bytes) {
            Ok(decoded) => decoded,
            Err((serial, refused)) => return (serial, Err(refused)),
        };
        let Some(count) = request.in_company() else {
            let text = "this request comes alone in its packet";
            return (serial, Err(Refused::closing(Refusal::Malformed, text)));
        };
        // What is too much is the last one's, which refuses it.
        let descriptors = all.take(if is_last { usize::MAX } else { count }).collect();
        (serial, self.session.handle(registry, &request, descriptors))
    }

    fn say_hello(&self) {
        let peer = self.session.peer();
        let name = self.session.name();
        match self.session.client() {
            Some(client) => info!(
                pid = peer.pid,
                user = peer.user,
                ?name,
                client = client.index(),
                "client connected"
            ),
            None => debug!(pid = peer.pid, user = peer.user, ?name, "observer connected"),
        }
    }

    /// Some time has come.
    pub(super) fn on_time(&mut self, registry: &Registry, now: Instant) -> Left {
        if !self.session.is_greeted() && now >= self.greeted_by {
            // It may have said so while the server had no time to listen.
            if self.on_readable(registry, 1) == Left::Closed {
                return Left::Closed;
            }
            if !self.session.is_greeted() {
                self.complain(registry, "did not say who it is in time");
                return Left::Closed;
            }
        }
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        self.look(registry, now)
    }

    /// Looks whether what a request waits for has come.
    fn look(&mut self, registry: &Registry, now: Instant) -> Left {
        let Some(mut wait) = self.wait.take_if(|wait| now >= wait.look || now >= wait.until) else {
            return Left::Open;
        };
        let late = now >= wait.until && !wait.goes_on(registry, now);
        match advance(&mut self.session, registry, &mut wait.what, late) {
            None => {
                // Each look at a lock brings some pages in: the backing's thread, which does that too, is nice.
                let goes_on = match &wait.what {
                    Waiting::Lock(_) => registry.shared.engine().core().wants_locking(),
                    Waiting::Relinquish { client, .. } => registry.shared.engine().has_more_to_give(*client),
                    Waiting::Admission { .. } | Waiting::Fork { .. } => false,
                };
                wait.look = if goes_on { now } else { now + LOOK };
                self.wait = Some(wait);
                Left::Open
            }
            Some(outcome) => {
                registry.snapshots.spoil();
                self.answer(registry, wait.serial, outcome)
            }
        }
    }

    fn answer(&self, registry: &Registry, serial: u32, outcome: Result<Reply, Refused>) -> Left {
        self.answer_all(registry, &[(serial, outcome)])
    }

    /// Answers requests. Whoever does not read answers is not waited for.
    fn answer_all(&self, registry: &Registry, outcomes: &[Outcome]) -> Left {
        for (_, outcome) in outcomes {
            if let Err(Refused { why, text, .. }) = outcome
                && let Some(unsaid) = registry.rate_limited_log.allows()
            {
                let peer = self.session.peer();
                warn!(pid = peer.pid, user = peer.user, ?why, ?text, unsaid, "request refused");
            }
        }
        match reply::send(&self.socket, outcomes) {
            Ok(()) if outcomes.iter().any(closes) => Left::Closed,
            Ok(()) => Left::Open,
            Err(Errno::AGAIN) => {
                self.complain(registry, "does not read its answers: its connection is closed");
                Left::Closed
            }
            Err(_) => Left::Closed,
        }
    }

    fn complain(&self, registry: &Registry, what: &str) {
        let peer = self.session.peer();
        if let Some(unsaid) = registry.rate_limited_log.allows() {
            warn!(pid = peer.pid, user = peer.user, name = ?self.session.name(), unsaid, "client {what}");
        }
    }

    /// Says that the server ends.
    pub(super) fn say_goodbye(&self) {
        let refused = Refused::closing(Refusal::Ending, "the server is ending");
        // Whoever cannot be told sees the connection end.
        let _ = reply::send(&self.socket, &[(0, Err(refused))]);
    }

    /// The connection is over.
    pub(super) fn close(mut self, registry: &Registry) {
        if let Some(wait) = self.wait.take() {
            abandon(registry, &wait.what);
        }
        let peer = self.session.peer();
        if let Some(client) = self.session.client() {
            let name = self.session.name();
            info!(
                pid = peer.pid,
                user = peer.user,
                ?name,
                client = client.index(),
                "client left"
            );
        }
        self.session.end(registry);
        registry.snapshots.spoil();
    }
}

/// The request that a message is, while requests are met.
fn decode<'a>(registry: &Registry, bytes: &'a [u8]) -> Result<(u32, Request<'a>), (u32, Refused)> {
    let (serial, request) = Request::decode(bytes).map_err(|error| (serial(bytes), error.into()))?;
    if registry.is_ending() {
        return Err((serial, Refused::closing(Refusal::Ending, "the server is ending")));
    }
    Ok((serial, request))
}

/// Whether the connection ends with this.
fn closes((_, outcome): &Outcome) -> bool {
    outcome.as_ref().is_err_and(|refused| refused.close)
}

/// The serial number in bytes that are no message, as far as there is one.
fn serial(bytes: &[u8]) -> u32 {
    let field = bytes.get(8..12).and_then(|field| field.try_into().ok());
    field.map_or(0, u32::from_le_bytes)
}

/// Looks whether what is waited for has come; `None` where it has not. `late`: it must come now or never.
fn advance(
    session: &mut Session,
    registry: &Registry,
    what: &mut Waiting,
    late: bool,
) -> Option<Result<Reply, Refused>> {
    match what {
        Waiting::Admission {
            place,
            name,
            spec,
            charge,
        } => admit(session, registry, (*place, name, *spec), charge, late),
        Waiting::Lock(locked) => {
            let state = registry.shared.engine().is_locked(locked.reservation);
            match state {
                Ok(true) => {
                    session.grants.locks.push(*locked);
                    Some(Ok(Reply::Done(Vec::new())))
                }
                Ok(false) if !late => None,
                Ok(false) => {
                    abandon(registry, what);
                    let text = "the pages are still on their way in: the store is slow; try again";
                    Some(Err(Refused::new(Refusal::State, text)))
                }
                Err(error) => Some(Err(error.into())),
            }
        }
        Waiting::Relinquish { client, count } => match registry.shared.engine().relinquished(*client, *count) {
            Ok(true) => Some(Ok(Reply::Done(Vec::new()))),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        },
        Waiting::Fork { client, parent } => {
            let kin = registry.kin(session.peer(), *parent);
            let forked = registry.shared.engine().forked(*client, kin.parent, kin.own);
            match forked {
                Ok(descriptors) => Some(Ok(Reply::Done(descriptors))),
                Err(EngineError::WouldWait) if !late => None,
                Err(EngineError::WouldWait) => {
                    let text = "the kernel has not told of such a fork";
                    Some(Err(Refused::new(Refusal::State, text)))
                }
                Err(error) => Some(Err(error.into())),
            }
        }
    }
}

fn admit(
    session: &mut Session,
    registry: &Registry,
    (place, name, spec): (u64, &str, ReservationSpec),
    charge: &mut Option<Charge>,
    late: bool,
) -> Option<Result<Reply, Refused>> {
    if !registry.is_first(place) && !late {
        return None;
    }
    let frames = spec.capacity.get();
    // Who is refused may ask again as soon as the answer is there: the charge returns before it.
    let paid = charge.take()?;
    let give_up = |refused: Refused| {
        registry.leave_queue(place, false);
        Some(Err(refused))
    };
    // Frames of those who have just ended are as good as free.
    registry.shared.tear_down();
    let admitted = registry.shared.engine().admit(name, spec);
    let id = match admitted {
        Ok(id) => id,
        Err(EngineError::WouldWait | EngineError::Admit(AdmitError::InUse { .. })) if !late => {
            *charge = Some(paid);
            return None;
        }
        Err(EngineError::WouldWait | EngineError::Admit(AdmitError::InUse { .. })) => {
            let refused = Refused::new(
                Refusal::Exhausted,
                format!("the {frames} frames are in use and were not back in time: try again, or ask for fewer"),
            );
            return give_up(refused);
        }
        Err(error) => return give_up(error.into()),
    };
    registry.leave_queue(place, true);
    match Ticket::draw() {
        Ok(ticket) => {
            let peer = session.peer();
            let id = Membership::Reservation(id);
            registry.note(id, ticket, paid);
            info!(pid = peer.pid, user = peer.user, ?name, frames, "reservation admitted");
            Some(session.hold(registry, id, frames, ticket))
        }
        Err(errno) => {
            registry.shared.engine().release(id);
            let text = format!("no ticket can be drawn: {errno}");
            Some(Err(Refused::new(Refusal::State, text)))
        }
    }
}

/// Nobody waits any more.
fn abandon(registry: &Registry, what: &Waiting) {
    match what {
        Waiting::Admission { place, .. } => registry.leave_queue(*place, false),
        Waiting::Lock(locked) => {
            // Pages still on their way in cannot be unlocked; they are when the reservation ends.
            let (reservation, object) = (locked.reservation, locked.object);
            let _ = registry.shared.engine().unlock(reservation, object, locked.range);
        }
        // What has begun to be given back goes on by itself.
        Waiting::Fork { .. } | Waiting::Relinquish { .. } => {}
    }
}
