//! What a request leads to: an answer, or a wait.

use super::accounts::Charge;
use super::grants::Locked;
use super::refused::Refused;
use crate::engine::{ClientId, Handover};
use crate::view::JudgedJob;
use freehold_core::limits::ReservationSpec;
use freehold_core::view::TaskCounts;
use freehold_linux::Errno;
use freehold_linux::socket::{MOST_DESCRIPTORS, PacketSocket};
use freehold_protocol::message::{Answer, Grant, LIMIT};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// A request that has been met, or waits.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Done; with descriptors only after `Forked`.
    Done(Vec<OwnedFd>),
    /// The answer to `Hello`.
    Welcome { client: Option<(ClientId, Handover)> },
    /// A reservation, made or joined.
    Reserved {
        handle: u32,
        frames: u32,
        ticket: super::tickets::Ticket,
    },
    /// A task or mapping.
    Made(u32),
    /// An object.
    Opened {
        handle: u32,
        pages: u32,
        descriptor: OwnedFd,
    },
    /// What happened to a task.
    Counts(TaskCounts),
    /// A document.
    Document { length: u64, descriptor: OwnedFd },
    /// What follows from a job.
    Judged(JudgedJob),
    /// Nothing yet.
    Wait(Waiting),
}

/// What a request waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Frames for a reservation; a place in the queue of admissions.
    Admission {
        place: u64,
        name: String,
        spec: ReservationSpec,
        /// For its frames, until there is a reservation.
        charge: Option<Charge>,
    },
    /// Pages that come in to be locked.
    Lock(Locked),
    /// The kernel's word of a fork.
    Fork { client: ClientId, parent: u32 },
    /// Private memory that is given back to the kernel: what of, and how many ranges of its client's must have been.
    Relinquish { client: ClientId, count: u64 },
}

/// What a request with this serial number comes to.
pub(crate) type Outcome = (u32, Result<Reply, Refused>);

/// Sends answers, several in a packet where there are several. The socket does not block: a peer that does not read
/// loses its connection.
///
/// # Errors
/// The kernel's refusal; `AGAIN` where the peer does not read.
pub(crate) fn send(socket: &PacketSocket, outcomes: &[Outcome]) -> Result<(), Errno> {
    let (mut packet, mut length, mut descriptors) = ([0; LIMIT], 0, Vec::new());
    for (serial, outcome) in outcomes {
        let (answer, more) = match outcome {
            Ok(reply) => shape(reply),
            Err(Refused { why, text, .. }) => (Answer::Refused { why: *why, text }, Vec::new()),
        };
        let mut put = answer.encode(*serial, packet.get_mut(length..).unwrap_or_default());
        if length > 0 && (put.is_err() || descriptors.len() + more.len() > MOST_DESCRIPTORS) {
            socket.send(packet.get(..length).unwrap_or_default(), &descriptors)?;
            length = 0;
            descriptors.clear();
            put = answer.encode(*serial, &mut packet);
        }
        // An answer alone always fits: its texts are cut, its descriptors are few.
        length += put.map_err(|_| Errno::MSGSIZE)?;
        descriptors.extend(more);
    }
    socket.send(packet.get(..length).unwrap_or_default(), &descriptors)
}

fn shape(reply: &Reply) -> (Answer<'static>, Vec<BorrowedFd<'_>>) {
    match reply {
        Reply::Done(descriptors) => (Answer::Done {}, descriptors.iter().map(AsFd::as_fd).collect()),
        Reply::Welcome { client } => welcome(client.as_ref()),
        Reply::Reserved { handle, frames, ticket } => {
            let answer = Answer::Reserved {
                reservation: *handle,
                frames: *frames,
                ticket_high: ticket.high,
                ticket_low: ticket.low,
            };
            (answer, Vec::new())
        }
        Reply::Made(handle) => (Answer::Made { handle: *handle }, Vec::new()),
        Reply::Opened {
            handle,
            pages,
            descriptor,
        } => {
            let grant = Grant {
                first: 0,
                pages: *pages,
                descriptors: 1,
            };
            (Answer::Opened { object: *handle, grant }, vec![descriptor.as_fd()])
        }
        Reply::Counts(counts) => (Answer::Counts { counts: *counts }, Vec::new()),
        Reply::Document { length, descriptor } => (Answer::Document { length: *length }, vec![descriptor.as_fd()]),
        Reply::Judged(job) => {
            let answer = Answer::Judged {
                judgement: job.judgement,
                pinned: job.pinned,
                restored: job.restored,
            };
            (answer, Vec::new())
        }
        // Whoever waits is not answered yet; the loop never sends this.
        Reply::Wait(_) => (Answer::Done {}, Vec::new()),
    }
}

fn welcome(client: Option<&(ClientId, Handover)>) -> (Answer<'static>, Vec<BorrowedFd<'_>>) {
    let server = std::process::id();
    match client {
        None => (
            Answer::Welcome {
                server,
                transfer_pages: 0,
                client: 0,
            },
            Vec::new(),
        ),
        Some((id, handover)) => (
            Answer::Welcome {
                server,
                transfer_pages: handover.transfer_pages,
                client: u32::try_from(id.index()).unwrap_or(u32::MAX),
            },
            vec![
                handover.channel.as_fd(),
                handover.transfer.as_fd(),
                handover.event.as_fd(),
            ],
        ),
    }
}
