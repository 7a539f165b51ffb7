//! One connection: packets in, answers out, and what it waits for.

use super::accounts::Charge;
use super::bucket::Bucket;
use super::refused::Refused;
use super::reply::{self, Outcome, Reply, Waiting};
use super::session::{Peer, Session};
use super::tickets::Ticket;
use super::users::Letter;
use super::world::World;
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

/// A request that waits.
#[derive(Debug)]
struct Wait {
    serial: u32,
    what: Waiting,
    look: Instant,
    until: Instant,
    /// Pages of a lock that had come when its time was last over.
    come: u32,
}

impl Wait {
    /// The time is over: whether there is more, because a lock has gone on in it.
    fn goes_on(&mut self, world: &World, now: Instant) -> bool {
        let locked = match &self.what {
            Waiting::Lock(locked) => locked,
            Waiting::Relinquish { .. } => {
                self.until = now + world.limits.patience;
                return true;
            }
            Waiting::Admission { .. } | Waiting::Fork { .. } => return false,
        };
        let lists = world.shared.engine().core().reservation(locked.reservation);
        let before = std::mem::replace(&mut self.come, lists.map_or(0, |lists| lists.locked.get()));
        let goes_on = self.come != before;
        if goes_on {
            self.until = now + world.limits.patience;
        }
        goes_on
    }
}

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
    pub(super) fn new((socket, peer, charge): Letter, world: &World, now: Instant) -> Self {
        let limits = &world.limits;
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
    pub(super) fn on_readable(&mut self, world: &World, most: usize) -> Left {
        let mut taken = 0;
        while taken < most {
            let now = Instant::now();
            // Whether there is another is not known: nobody is paused for one that may not be there.
            let mut bucket = self.bucket;
            if taken > 0 && !(self.reads() && bucket.take(1, now).is_ok()) {
                break;
            }
            match self.take_packet(world, now) {
                Some((requests, Left::Open)) => taken += requests,
                Some((_, Left::Closed)) => return Left::Closed,
                None => break,
            }
        }
        Left::Open
    }

    /// Takes one packet, and how many requests it held; `None` where none is there, or none may be taken now.
    fn take_packet(&mut self, world: &World, now: Instant) -> Option<(usize, Left)> {
        let before = self.bucket;
        if let Err(pause) = self.bucket.take(1, now) {
            self.paused = Some(now + pause);
            self.complain(world, "asks faster than it may: it waits");
            return None;
        }
        let mut buffer = [0; LIMIT];
        match self.socket.receive(&mut buffer) {
            Ok(Some(packet)) => Some(self.on_packet(world, &buffer, packet, now)),
            Err(Errno::AGAIN) => {
                self.bucket = before;
                None
            }
            Ok(None) | Err(_) => Some((0, Left::Closed)),
        }
    }

    fn on_packet(&mut self, world: &World, buffer: &[u8; LIMIT], packet: Packet, now: Instant) -> (usize, Left) {
        let bytes = buffer.get(..packet.length).unwrap_or_default();
        if packet.cut_off {
            let refused = Refused::closing(
                Refusal::Malformed,
                "the message is too long, has too many descriptors, or the server has none left",
            );
            return (1, self.answer(world, serial(bytes), Err(refused)));
        }
        if !self.session.is_greeted() && is_request(bytes) {
            return (1, self.hand_to_devices(world, bytes));
        }
        if messages(bytes).nth(1).is_none() {
            (1, self.on_request(world, bytes, packet.descriptors, now))
        } else {
            self.on_several(world, bytes, packet.descriptors, now)
        }
    }

    /// A client of devices, whose connection goes on there and is over here.
    fn hand_to_devices(&mut self, world: &World, bytes: &[u8]) -> Left {
        match &world.devices {
            Some(devices) => {
                if let Err(errno) = devices.serve(&self.socket, bytes, self.charge.take()) {
                    self.complain(world, &format!("cannot be handed to the devices: {errno}"));
                }
                Left::Closed
            }
            None => {
                let text = "this server has no devices: start it with `--devices FILE`";
                self.answer(world, serial(bytes), Err(Refused::closing(Refusal::Unknown, text)))
            }
        }
    }

    fn on_request(&mut self, world: &World, bytes: &[u8], descriptors: Vec<OwnedFd>, now: Instant) -> Left {
        let (serial, request) = match decode(world, bytes) {
            Ok(decoded) => decoded,
            Err((serial, refused)) => return self.answer(world, serial, Err(refused)),
        };
        let greeting = matches!(request, Request::Hello { .. });
        let outcome = self.session.handle(world, &request, descriptors);
        if !matches!(request, Request::Ask { .. }) {
            world.snapshots.spoil();
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
                    until: now + world.limits.patience,
                    come: 0,
                });
                self.look(world, now)
            }
            outcome => self.answer(world, serial, outcome),
        }
    }

    /// Several requests in a packet, none of which waits. One that ends the connection is the last.
    fn on_several(&mut self, world: &World, bytes: &[u8], descriptors: Vec<OwnedFd>, now: Instant) -> (usize, Left) {
        let (mut descriptors, mut outcomes) = (descriptors.into_iter(), Vec::new());
        let mut messages = messages(bytes).peekable();
        while let Some(message) = messages.next().filter(|_| !outcomes.last().is_some_and(closes)) {
            let is_last = messages.peek().is_none();
            outcomes.push(self.on_one_of_several(world, message, is_last, &mut descriptors));
        }
        world.snapshots.spoil();
        // One was paid for with the packet.
        let others = u32::try_from(outcomes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        self.bucket.charge(others, now);
        (outcomes.len(), self.answer_all(world, &outcomes))
    }

    fn on_one_of_several(
        &mut self,
        world: &World,
        bytes: &[u8],
        is_last: bool,
        all: &mut vec::IntoIter<OwnedFd>,
    ) -> Outcome {
        let (serial, request) = match decode(world, bytes) {
            Ok(decoded) => decoded,
            Err((serial, refused)) => return (serial, Err(refused)),
        };
        let Some(count) = request.in_company() else {
            let text = "this request comes alone in its packet";
            return (serial, Err(Refused::closing(Refusal::Malformed, text)));
        };
        // What is too much is the last one's, which refuses it.
        let descriptors = all.take(if is_last { usize::MAX } else { count }).collect();
        (serial, self.session.handle(world, &request, descriptors))
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
    pub(super) fn on_time(&mut self, world: &World, now: Instant) -> Left {
        if !self.session.is_greeted() && now >= self.greeted_by {
            self.complain(world, "did not say who it is in time");
            return Left::Closed;
        }
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        self.look(world, now)
    }

    /// Looks whether what a request waits for has come.
    fn look(&mut self, world: &World, now: Instant) -> Left {
        let Some(mut wait) = self.wait.take_if(|wait| now >= wait.look || now >= wait.until) else {
            return Left::Open;
        };
        let late = now >= wait.until && !wait.goes_on(world, now);
        match advance(&mut self.session, world, &mut wait.what, late) {
            None => {
                // Each look at a lock brings some pages in: the reserve's thread, which does that too, is nice.
                let goes_on = match &wait.what {
                    Waiting::Lock(_) => world.shared.engine().core().wants_locking(),
                    Waiting::Relinquish { client, .. } => world.shared.engine().has_more_to_give(*client),
                    Waiting::Admission { .. } | Waiting::Fork { .. } => false,
                };
                wait.look = if goes_on { now } else { now + LOOK };
                self.wait = Some(wait);
                Left::Open
            }
            Some(outcome) => {
                world.snapshots.spoil();
                self.answer(world, wait.serial, outcome)
            }
        }
    }

    fn answer(&self, world: &World, serial: u32, outcome: Result<Reply, Refused>) -> Left {
        self.answer_all(world, &[(serial, outcome)])
    }

    /// Answers requests. Whoever does not read answers is not waited for.
    fn answer_all(&self, world: &World, outcomes: &[Outcome]) -> Left {
        for (_, outcome) in outcomes {
            if let Err(Refused { why, text, .. }) = outcome
                && let Some(unsaid) = world.rate_limited_log.allows()
            {
                let peer = self.session.peer();
                warn!(pid = peer.pid, user = peer.user, ?why, ?text, unsaid, "request refused");
            }
        }
        match reply::send(&self.socket, outcomes) {
            Ok(()) if outcomes.iter().any(closes) => Left::Closed,
            Ok(()) => Left::Open,
            Err(Errno::AGAIN) => {
                self.complain(world, "does not read its answers: its connection is closed");
                Left::Closed
            }
            Err(_) => Left::Closed,
        }
    }

    fn complain(&self, world: &World, what: &str) {
        let peer = self.session.peer();
        if let Some(unsaid) = world.rate_limited_log.allows() {
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
    pub(super) fn close(mut self, world: &World) {
        if let Some(wait) = self.wait.take() {
            abandon(world, &wait.what);
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
        self.session.end(world);
        world.snapshots.spoil();
    }
}

/// The request that a message is, while requests are met.
fn decode<'a>(world: &World, bytes: &'a [u8]) -> Result<(u32, Request<'a>), (u32, Refused)> {
    let (serial, request) = Request::decode(bytes).map_err(|error| (serial(bytes), error.into()))?;
    if world.is_ending() {
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
fn advance(session: &mut Session, world: &World, what: &mut Waiting, late: bool) -> Option<Result<Reply, Refused>> {
    match what {
        Waiting::Admission {
            place,
            name,
            spec,
            charge,
        } => admit(session, world, (*place, name, *spec), charge, late),
        Waiting::Lock(locked) => {
            let state = world.shared.engine().is_locked(locked.reservation);
            match state {
                Ok(true) => {
                    session.grants.locks.push(*locked);
                    Some(Ok(Reply::Done(Vec::new())))
                }
                Ok(false) if !late => None,
                Ok(false) => {
                    abandon(world, what);
                    let text = "the pages are still on their way in: the store is slow; try again";
                    Some(Err(Refused::new(Refusal::State, text)))
                }
                Err(error) => Some(Err(error.into())),
            }
        }
        Waiting::Relinquish { client, count } => match world.shared.engine().relinquished(*client, *count) {
            Ok(true) => Some(Ok(Reply::Done(Vec::new()))),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        },
        Waiting::Fork { client, parent } => {
            let kin = world.kin(session.peer(), *parent);
            let forked = world.shared.engine().forked(*client, kin.parent, kin.own);
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
    world: &World,
    (place, name, spec): (u64, &str, ReservationSpec),
    charge: &mut Option<Charge>,
    late: bool,
) -> Option<Result<Reply, Refused>> {
    if !world.is_first(place) && !late {
        return None;
    }
    let frames = spec.capacity.get();
    // Who is refused may ask again as soon as the answer is there: the charge returns before it.
    let paid = charge.take()?;
    let give_up = |refused: Refused| {
        world.leave_queue(place, false);
        Some(Err(refused))
    };
    // Frames of those who have just ended are as good as free.
    world.shared.vacate();
    let admitted = world.shared.engine().admit(name, spec);
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
    world.leave_queue(place, true);
    match Ticket::draw() {
        Ok(ticket) => {
            let peer = session.peer();
            let id = Membership::Reservation(id);
            world.note(id, ticket, paid);
            info!(pid = peer.pid, user = peer.user, ?name, frames, "reservation admitted");
            Some(session.hold(world, id, frames, ticket))
        }
        Err(errno) => {
            world.shared.engine().release(id);
            let text = format!("no ticket can be drawn: {errno}");
            Some(Err(Refused::new(Refusal::State, text)))
        }
    }
}

/// Nobody waits any more.
fn abandon(world: &World, what: &Waiting) {
    match what {
        Waiting::Admission { place, .. } => world.leave_queue(*place, false),
        Waiting::Lock(locked) => {
            // Pages still on their way in cannot be unlocked; they are when the reservation ends.
            let (reservation, object) = (locked.reservation, locked.object);
            let _ = world.shared.engine().unlock(reservation, object, locked.range);
        }
        // What has begun to be given back goes on by itself.
        Waiting::Fork { .. } | Waiting::Relinquish { .. } => {}
    }
}
