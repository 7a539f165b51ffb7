//! What is known of an address space.

use super::{PAGE, kernel};
use freehold_protocol::channel::{Action, Channel, ORDERS, Order, Position, Reply};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const SLOTS: u32 = 8192;

/// A file's content.
pub(crate) struct Object {
    pub(crate) memory: OwnedFd,
    pub(crate) file: File,
    pub(crate) pages: u32,
    pub(crate) filled: Mutex<Vec<bool>>,
}

impl Object {
    /// Runs `act` with the page in place, which it stays meanwhile.
    pub(crate) fn with_page<T>(&self, page: u32, act: impl FnOnce() -> T) -> T {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if !filled[page as usize] {
            let mut content = [0; 4096];
            let at = u64::from(page) * PAGE;
            let mut done = 0;
            while let Ok(count @ 1..) = self.file.read_at(&mut content[done..], at + done as u64) {
                done += count;
            }
            let memory = File::from(self.memory.try_clone().expect("a descriptor"));
            memory.write_all_at(&content, at).expect("memory");
            filled[page as usize] = true;
        }
        act()
    }

    pub(crate) fn punch(&self, page: u32) {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        kernel::punch(&self.memory, u64::from(page) * PAGE, PAGE);
        filled[page as usize] = false;
    }
}

/// Where a private page is. A page that is nowhere is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Client,
    Slot(u32),
    Ordered { sequence: u32, slot: u32 },
}

/// A surrender under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surrender {
    /// Where it was ordered.
    pub(crate) at: u64,
    /// Where the page is now, as the program has moved it; nowhere where the program has given it up.
    pub(crate) now: Option<u64>,
    pub(crate) slot: u32,
    /// How often the kernel told that it was dropped.
    pub(crate) dropped: u32,
}

/// What answers orders.
pub(crate) struct Client {
    pub(crate) channel: *const Channel,
    pub(crate) transfer: *mut u8,
    pub(crate) event: OwnedFd,
    pub(crate) orders: Position,
    pub(crate) replies: Position,
    pub(crate) free: Vec<u32>,
    pub(crate) under_way: BTreeMap<u32, Surrender>,
    /// Orders without an answer: never more than there is room for answers, as with the server itself.
    pub(crate) open: usize,
    pub(crate) handed: [OwnedFd; 2],
    pub(crate) agent_thread: u32,
}

// SAFETY: the mappings stay for the process's life.
unsafe impl Send for Client {}

impl Client {
    pub(crate) fn new(agent_thread: u32) -> Self {
        let channel = kernel::memfd(c"channel", freehold_protocol::channel::BYTES as u64);
        let transfer = kernel::memfd(c"transfer", u64::from(SLOTS) * PAGE);
        Self {
            channel: kernel::map(&channel, freehold_protocol::channel::BYTES).cast(),
            transfer: kernel::map(&transfer, SLOTS as usize * 4096),
            event: kernel::event(),
            orders: Position::default(),
            replies: Position::default(),
            free: (0..SLOTS).collect(),
            under_way: BTreeMap::new(),
            open: 0,
            handed: [channel, transfer],
            agent_thread,
        }
    }

    pub(crate) fn channel(&self) -> &'static Channel {
        // SAFETY: mapped by `new`, for good.
        unsafe { &*self.channel }
    }

    pub(crate) fn slot(&self, slot: u32) -> *const u8 {
        // SAFETY: inside the mapping.
        unsafe { self.transfer.add(slot as usize * 4096) }
    }

    pub(crate) fn order(&mut self, sequence: u32, action: Action, address: u64, pages: u32, slot: u32) -> bool {
        let order = Order {
            sequence,
            action,
            pages,
            slot,
            address,
        };
        let given = self.open < ORDERS && self.channel().orders.push(&mut self.orders, order);
        self.open += usize::from(given);
        given
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Option<Reply> {
        let reply = self.channel().replies.pop::<Reply>(&mut self.replies).expect("answers");
        self.open -= usize::from(reply.is_some());
        reply
    }

    pub(crate) fn wake(&self) {
        self.channel().doorbell.fetch_add(1, Ordering::SeqCst);
        if self.channel().asleep.load(Ordering::SeqCst) != 0 {
            kernel::futex_wake(&self.channel().doorbell);
        }
    }
}

/// A mapping of an object.
#[derive(Clone)]
pub(crate) struct Mapping {
    pub(crate) pages: u32,
    pub(crate) first: u32,
    pub(crate) object: Arc<Object>,
}

/// One process.
pub(crate) struct Space {
    pub(crate) private: Arc<OwnedFd>,
    pub(crate) shared: Option<Arc<OwnedFd>>,
    pub(crate) parent: Option<Arc<OwnedFd>>,
    pub(crate) process: Option<u32>,
    pub(crate) client: Option<Client>,
    pub(crate) pages: BTreeMap<u64, Place>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// Faults on pages that are being surrendered, or while the kernel tells of changes.
    pub(crate) waiting: Vec<(u64, u32)>,
    pub(crate) ended: bool,
}

impl Space {
    pub(crate) fn mapping(&self, address: u64) -> Option<(u32, Arc<Object>)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        let page = u32::try_from((address - start) / PAGE).ok()?;
        (page < mapping.pages).then(|| (mapping.first + page, mapping.object.clone()))
    }

    /// Whether an order for this address is under way: nothing may be put there meanwhile.
    pub(crate) fn is_ordered(&self, address: u64) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| client.under_way.values().any(|order| order.at == address))
    }

    /// One page is dropped: whether that may be by an order, of which the answer says more.
    pub(crate) fn note_dropped(&mut self, start: u64, end: u64) -> bool {
        let orders = self.client.as_mut().map(|client| client.under_way.values_mut());
        let mut orders = orders.into_iter().flatten();
        match orders.find(|order| order.at == start && end == start + PAGE) {
            Some(order) => {
                order.dropped += 1;
                true
            }
            None => false,
        }
    }

    /// The program has given the range up.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        let pages: Vec<u64> = self.pages.range(start..end).map(|(at, _)| *at).collect();
        for at in pages {
            match self.pages.remove(&at) {
                Some(Place::Slot(slot)) => self.free_slot(slot),
                Some(Place::Ordered { sequence, .. }) => self.set_now(sequence, None),
                _ => {}
            }
        }
    }

    pub(crate) fn unmap(&mut self, start: u64, end: u64) {
        self.forget(start, end);
        let starts: Vec<u64> = self.mappings.range(..end).map(|(at, _)| *at).collect();
        for at in starts {
            let mapping = self.mappings[&at].clone();
            let to = at + u64::from(mapping.pages) * PAGE;
            if to <= start {
                continue;
            }
            self.mappings.remove(&at);
            if at < start {
                let pages = u32::try_from((start - at) / PAGE).expect("pages");
                self.mappings.insert(
                    at,
                    Mapping {
                        pages,
                        ..mapping.clone()
                    },
                );
            }
            if to > end {
                let pages = u32::try_from((to - end) / PAGE).expect("pages");
                let first = mapping.first + u32::try_from((end - at) / PAGE).expect("pages");
                self.mappings.insert(
                    end,
                    Mapping {
                        pages,
                        first,
                        ..mapping
                    },
                );
            }
        }
    }

    pub(crate) fn remap(&mut self, from: u64, to: u64, length: u64) {
        let pages: Vec<u64> = self.pages.range(from..from + length).map(|(at, _)| *at).collect();
        let moved: Vec<(u64, Place)> = pages.iter().filter_map(|at| self.pages.remove_entry(at)).collect();
        for (at, place) in moved {
            if let Place::Ordered { sequence, .. } = place {
                self.set_now(sequence, Some(at - from + to));
            }
            self.pages.insert(at - from + to, place);
        }
    }

    fn set_now(&mut self, sequence: u32, now: Option<u64>) {
        if let Some(order) = self
            .client
            .as_mut()
            .and_then(|client| client.under_way.get_mut(&sequence))
        {
            order.now = now;
        }
    }

    pub(crate) fn free_slot(&mut self, slot: u32) {
        if let Some(client) = &mut self.client {
            client.free.push(slot);
        }
    }
}
