//! Private memory that is given back to the kernel, with its content and for good.
//!
//! There is memory that the kernel needs where it cannot wait for a server: what a core file is made of, what a
//! debugger reads, what is written as a thread ends, what the program watches itself. It is brought in as a forked
//! child is given what it inherits: the client is its own fork child for that time. So its threads wait at absent
//! pages until all is there, and what cannot be had is an error for whoever touches it. Then the kernel alone serves
//! the range, in frames of the machine's, and the server forgets it.

use crate::closing::LentFile;
use crate::engine::Engine;
use crate::engine::forks::fork_pending::Part;
use crate::engine::forks::withheld::{Addresses, addresses};
use crate::engine::keys::ClientId;
use crate::engine::objects::Content;
use crate::engine::prefetch::Stretch;
use crate::engine::spaces::apart::Apart;
use crate::engine::spaces::{Segment, SegmentKind};
use crate::error::EngineError;
use freehold_linux::Errno;
use freehold_linux::userfault::Stopped;
use freehold_linux::{AddressRange, PAGE_SIZE};
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything that a program can have.
const ALL: Addresses = (0, 1 << 47);
/// Ranges that wait behind the one that is being given back, at most.
const MOST_WANTED: usize = 64;
/// Rounds of copies that one step makes.
const ROUNDS: usize = 8;

/// What a client has given back, or is giving back.
#[derive(Debug, Default)]
pub(crate) struct Relinquished {
    /// All of it, also what is to come.
    all: bool,
    /// It has pages of its own of its text, and they stay.
    text: bool,
    under_way: Option<Addresses>,
    wanted: VecDeque<Addresses>,
    /// Ranges given back so far.
    finished: u64,
    apart: Apart,
}

/// A mapping of a file that is served: where, how many bytes, and which.
#[derive(Debug)]
pub(crate) struct TextPiece {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) file: LentFile,
}

impl Relinquished {
    /// Whether nothing of the client's is managed any more.
    pub(crate) fn has_all(&self) -> bool {
        self.all
    }

    /// What of it is not managed, and why; for people.
    pub(crate) fn reasons(&self) -> Vec<String> {
        if self.all {
            return vec!["its private memory: given back to the kernel, because it was traced or died".to_owned()];
        }
        let some = (self.finished > 0).then(|| {
            let ranges = self.finished;
            format!("{ranges} ranges given back to the kernel: robust mutexes, stacks, what it watches itself")
        });
        some.into_iter().collect()
    }

    /// Whether what the client is given is not inherited, but its own.
    pub(crate) fn is_own_fork_child(&self) -> bool {
        self.all || self.under_way.is_some()
    }

    /// Whether text stays where it is.
    pub(crate) fn has_text(&self) -> bool {
        self.text
    }

    /// Whether the page at an address stays where it is, because it is the kernel's in a moment.
    pub(crate) fn takes(&self, address: u64) -> bool {
        let inside = |(start, end): Addresses| (start..end).contains(&address);
        self.all || self.under_way.is_some_and(inside)
    }

    /// The client's userfaultfd has asked for the page at an address, so that is the server's.
    pub(crate) fn asked_for(&mut self, address: u64) {
        self.apart.take_back(address);
    }

    /// What of a stretch around an address may be brought along with its page.
    pub(in crate::engine) fn clip(&self, address: u64, stretch: Stretch) -> Stretch {
        self.apart.clip(address, stretch)
    }
}

impl Engine {
    /// Begins to give a range of private memory back; all of it where `length` is 0. Returns what
    /// [`relinquished`](Self::relinquished) is to be asked about.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::Range`], [`EngineError::Limit`].
    pub fn relinquish(&mut self, id: ClientId, address: u64, length: u64) -> Result<u64, EngineError> {
        let all = length == 0;
        let range = if all { ALL } else { addresses(address, length)? };
        let row = self.client_mut(id).filter(|row| row.has_agent());
        let row = row.ok_or(EngineError::NoSuchClient)?;
        let what = &mut row.family.relinquished;
        if what.wanted.len() >= MOST_WANTED {
            return Err(EngineError::Limit {
                what: "ranges that are being given back",
            });
        }
        what.wanted.push_back(range);
        Ok(what.finished + u64::from(what.under_way.is_some()) + what.wanted.len() as u64)
    }

    /// Goes on with it; whether so many ranges have been given back.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`].
    pub fn relinquished(&mut self, id: ClientId, count: u64) -> Result<bool, EngineError> {
        self.step(|engine| {
            for _ in 0..ROUNDS {
                engine.begin_relinquishing(id);
                if !engine.is_relinquishing(id) || !engine.give_fork_copies_to(id) {
                    break;
                }
            }
        });
        let row = self.client(id).ok_or(EngineError::NoSuchClient)?;
        Ok(row.family.relinquished.finished >= count)
    }

    /// The programs of which private memory is managed: each with its process.
    pub(crate) fn managed_processes(&self) -> Vec<(ClientId, u32)> {
        let rows = self.clients.iter().map(|(_, client)| client);
        let managed = rows.filter(|client| client.userfaults.private.is_some() && client.has_agent());
        let left = managed.filter(|client| !client.family.relinquished.text);
        left.map(|client| (client.id, client.process.pid)).collect()
    }

    /// The text of a client, which is to have pages of its own of it: from now on none is taken from it.
    pub(crate) fn text_to_give(&mut self, id: ClientId) -> Vec<TextPiece> {
        let Some(client) = self.client_mut(id) else {
            return Vec::new();
        };
        client.family.relinquished.text = true;
        let segments: Vec<(u64, Segment)> = client.space.iter().map(|(start, row)| (*start, *row)).collect();
        let piece = |(address, segment): (u64, Segment)| match &self.object(segment.object)?.content {
            Content::File { file: Some(file), .. } => Some(TextPiece {
                address,
                length: segment.end - address,
                offset: u64::from(segment.first) * crate::PAGE,
                file: Arc::clone(file),
            }),
            _ => None,
        };
        segments.into_iter().filter_map(piece).collect()
    }

    /// Gives a client pages of text where it has none in its page table.
    pub(crate) fn give_text(&self, id: ClientId, address: u64, bytes: &[u8]) {
        let userfault = self.client(id).and_then(|client| client.userfaults.shared.as_ref());
        let (Some(userfault), Ok(mut address)) = (userfault, usize::try_from(address)) else {
            return;
        };
        let mut left = bytes;
        while let Err(Stopped {
            done,
            errno: Errno::EXIST,
        }) = userfault.copy(address, left, false)
        {
            let past = done + PAGE_SIZE;
            address += past;
            left = left.get(past..).unwrap_or_default();
            if left.is_empty() {
                return;
            }
        }
    }

    /// Whether more could be brought in at once.
    pub(crate) fn has_more_to_give(&self, id: ClientId) -> bool {
        let more = self
            .client(id)
            .is_some_and(|client| client.family.fork_pending.has_more());
        more && !self.fork_children.stopped
    }

    /// Pages of private memory that a client has elsewhere, at most.
    pub fn pages_elsewhere(&self, id: ClientId) -> u64 {
        let of = |client: &crate::engine::clients::Client| {
            u64::from(client.memory.bookings.pages).saturating_sub(client.memory.resident)
        };
        self.client(id).map_or(0, of)
    }

    fn is_relinquishing(&self, id: ClientId) -> bool {
        let under_way = self
            .client(id)
            .is_some_and(|client| client.family.relinquished.under_way.is_some());
        under_way && self.fork_children.owed.contains(&id)
    }

    /// Begins with the next range, once nobody is owed anything of this client's, nor it anything of its parent's.
    fn begin_relinquishing(&mut self, id: ClientId) {
        let Some(client) = self.client_mut(id) else { return };
        let family = &mut client.family;
        if family.relinquished.under_way.is_some() || family.fork_children > 0 || !family.fork_pending.is_over() {
            return;
        }
        let Some(range) = family.relinquished.wanted.pop_front() else {
            return;
        };
        family.relinquished.under_way = Some(range);
        family.relinquished.all |= range == ALL;
        if range == ALL {
            client.outbox.tell_of_end();
        }
        let private = client.space.iter().filter(|(start, segment)| {
            segment.kind == SegmentKind::Private && **start < range.1 && segment.end > range.0
        });
        let parts: Vec<Part> = private
            .map(|(start, segment)| {
                let within = (range.0.max(*start), range.1.min(segment.end));
                Part::within(*start, segment, within)
            })
            .collect();
        let family = &mut client.family;
        family.fork_pending.extend(parts);
        family.from = Some(id);
        family.fork_children = 1;
        // Its events are read as ever.
        family.heard = true;
        self.fork_children.owed.push(id);
    }

    /// All of the range is in the page table now: the kernel serves it from here on.
    pub(in crate::engine) fn finish_relinquishing(&mut self, id: ClientId) {
        let Some(client) = self.client_mut(id) else { return };
        let Some(range) = client.family.relinquished.under_way.take() else {
            return;
        };
        let all = range == ALL;
        if all || !self.unregister(id, range) {
            let Some(client) = self.client(id) else { return };
            let private = client
                .space
                .iter()
                .filter(|(_, segment)| segment.kind == SegmentKind::Private);
            let clipped = private.map(|(start, segment)| (range.0.max(*start), range.1.min(segment.end)));
            for piece in clipped.filter(|(from, to)| from < to).collect::<Vec<_>>() {
                self.unregister(id, piece);
            }
        }
        self.carve_private(id, range.0, range.1);
        let Some(client) = self.client_mut(id) else { return };
        client.family.relinquished.finished += 1;
        if !all {
            client.family.relinquished.apart.add(range);
            return;
        }
        let pid = client.process.pid;
        self.notice(format!(
            "process {pid} has its private memory from the kernel from now on, outside of its reservation"
        ));
    }

    fn unregister(&self, id: ClientId, (start, end): Addresses) -> bool {
        let userfault = self.client(id).and_then(|client| client.userfaults.private.as_ref());
        let (Ok(first), Ok(length)) = (usize::try_from(start), usize::try_from(end - start)) else {
            return false;
        };
        let range = AddressRange::new(first, length);
        let both = userfault.zip(range);
        both.is_some_and(|(userfault, range)| userfault.unregister(range).is_ok())
    }

    /// The client ends: nobody is owed what it was giving back.
    pub(in crate::engine) fn cease_relinquishing(&mut self, id: ClientId) {
        if !self.is_relinquishing(id) {
            return;
        }
        self.fork_children.owed.retain(|other| *other != id);
        let Some(client) = self.client_mut(id) else { return };
        client.family.fork_pending = Default::default();
        client.family.relinquished = Relinquished::default();
        client.family.fork_children = client.family.fork_children.saturating_sub(1);
    }
}
