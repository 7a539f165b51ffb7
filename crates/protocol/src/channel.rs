//! The channel: orders to a client's agent, and its answers, in memory that both map.
//!
//! Only a process itself can remove pages from its address space, so the server orders it and the client's agent thread
//! does it. The channel is one memory object of [`BYTES`] bytes, sealed against a change of size: a [`Ring`] of orders
//! from the server, and one of answers from the agent. Each ring has one writer and one reader.
//!
//! A page that leaves a program's private memory goes into the *transfer memory*, a second object, of which the server
//! names the page (`slot`). Who owns a slot is the server's business; a client can spoil only what is its own.
//!
//! The server reads answers as claims: a sequence number that it has not given out, or gave out for something else,
//! ends the connection. It never waits for an answer with anything locked, and without a bound.
//!
//! To wake the agent the server increments [`Channel::doorbell`] and wakes its futex if [`Channel::asleep`] is set
//! ([`announce`]; the agent's side is [`doze`] and [`woke`]); the agent writes to the event descriptor after its
//! answers.

use core::sync::atomic::AtomicU32;
pub use freehold_shm::doorbell::{announce, doze, woke};
pub use freehold_shm::entry_ring::{Broken, ENTRIES as ORDERS, EntryRing as Ring, Position, Word3, is_before};

/// Bytes of the memory object that holds a [`Channel`]: whole pages.
pub const BYTES: usize = size_of::<Channel>().next_multiple_of(crate::PAGE_SIZE);

/// What an agent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove the mappings of `pages` pages of a shared object from `address` on. They are not lost.
    Zap,
    /// Move the private page at `address` out of the address space, so that no thread can touch it any more, and then
    /// copy it to `slot` of the transfer memory.
    Surrender,
    /// Move the private page at `address` out and forget it: the server has its content.
    Drop,
    /// Say on the program's standard error what it cannot be given: `slot` is the number of a [`Shortage`]. An error
    /// for the thread at `address`, or the end of the program, follows the answer.
    Tell,
    /// Take [`CHARGED`] pages of its own and give them back. So the kernel makes room below the limit of the process's
    /// memory cgroup while a thread of the process waits, and not while the server does.
    Charge,
}

/// Pages for which a process makes room at a time.
pub const CHARGED: usize = 64;

impl Action {
    /// Whether it takes a private page out.
    #[must_use]
    pub const fn takes_a_page(self) -> bool {
        matches!(self, Self::Surrender | Self::Drop)
    }
}

/// What the server cannot give a program: no room in its tables, or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shortage {
    /// More pages or objects, for anybody.
    Tables,
    /// More of them for this user.
    User,
    /// More pieces of one program's address space.
    Segments,
    /// More threads that wait for pages at a time.
    Waiting,
    /// A forked child.
    Children,
    /// What a page holds, which cannot be read back.
    Content,
    /// A frame, because a page that was to leave cannot be written to the store.
    Writing,
    /// A frame, because no page of the reservation can leave.
    Frames,
}

impl Shortage {
    /// All of them, each in the place of its number.
    pub const ALL: [Self; 8] = [
        Self::Tables,
        Self::User,
        Self::Segments,
        Self::Waiting,
        Self::Children,
        Self::Content,
        Self::Writing,
        Self::Frames,
    ];

    /// The number in an order.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Tables => 0,
            Self::User => 1,
            Self::Segments => 2,
            Self::Waiting => 3,
            Self::Children => 4,
            Self::Content => 5,
            Self::Writing => 6,
            Self::Frames => 7,
        }
    }

    /// What is missing, and what would have to give.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Tables => {
                "the memory server's tables have no room for more pages of the program: other programs have to end, or \
                 the server needs a larger pool (--pool, of a server of its own --reserve)"
            }
            Self::User => {
                "this user's programs have their part of the memory server's tables: one of them has to end, or the \
                 server needs a larger pool (--pool)"
            }
            Self::Segments => {
                "the program uses its memory in more separate pieces than the memory server tells apart: it has to \
                 use fewer"
            }
            Self::Waiting => {
                "more threads of the program wait for pages at a time than the memory server has room for: it has to \
                 use fewer"
            }
            Self::Children => {
                "the memory server has no room for one more child: processes of this user have to end first"
            }
            Self::Content => "a page of the program cannot be read back: the memory server's log says why",
            Self::Writing => {
                "no frame is to be had for a page of the program, because another cannot be written to the store: the \
                 memory server's log says why"
            }
            Self::Frames => {
                "no frame is to be had for a page of the program, because none of its reservation can leave: it has to \
                 lock less, or needs a larger one (--reserve)"
            }
        }
    }
}

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Given by the server, returned with the answer.
    pub sequence: u32,
    /// What to do.
    pub action: Action,
    /// How many pages; one but for `Zap`.
    pub pages: u32,
    /// The page of the transfer memory, for `Surrender`; what to say, for `Tell`.
    pub slot: u32,
    /// Where.
    pub address: u64,
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Done,
    /// Done, and the page was all zeros: nothing was copied.
    Zero,
    /// Done by copying the page, where it could not be moved, and dropping it, of which the kernel has told once.
    Dropped,
    /// The kernel holds the page, for input or output or because it is locked; it is still where it was.
    Busy,
    /// No page was there.
    Absent,
    /// The kernel refused; the page is still where it was.
    Refused,
}

/// The answer to one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The order's.
    pub sequence: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl Word3 for Order {
    fn to_words(self) -> [u64; 3] {
        let action: u64 = match self.action {
            Action::Zap => 1,
            Action::Surrender => 2,
            Action::Drop => 3,
            Action::Tell => 4,
            Action::Charge => 5,
        };
        let first = u64::from(self.sequence) << 32 | action;
        [first, u64::from(self.pages) << 32 | u64::from(self.slot), self.address]
    }

    fn from_words(words: [u64; 3]) -> Option<Self> {
        let action = match low(words[0]) {
            1 => Action::Zap,
            2 => Action::Surrender,
            3 => Action::Drop,
            4 => Action::Tell,
            5 => Action::Charge,
            _ => return None,
        };
        let [_, _, address] = words;
        Some(Self {
            sequence: high(words[0]),
            action,
            pages: high(words[1]),
            slot: low(words[1]),
            address,
        })
    }
}

impl Word3 for Reply {
    fn to_words(self) -> [u64; 3] {
        let outcome = match self.outcome {
            Outcome::Done => 1,
            Outcome::Zero => 2,
            Outcome::Busy => 3,
            Outcome::Absent => 4,
            Outcome::Refused => 5,
            Outcome::Dropped => 6,
        };
        [u64::from(self.sequence) << 32 | outcome, 0, 0]
    }

    fn from_words(words: [u64; 3]) -> Option<Self> {
        let outcome = match low(words[0]) {
            1 => Outcome::Done,
            2 => Outcome::Zero,
            3 => Outcome::Busy,
            4 => Outcome::Absent,
            5 => Outcome::Refused,
            6 => Outcome::Dropped,
            _ => return None,
        };
        Some(Self {
            sequence: high(words[0]),
            outcome,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    low(word >> 32)
}

/// What the memory object holds. All zeros is a channel without orders.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Channel {
    /// Incremented by the server after orders; the futex that the agent sleeps on.
    pub doorbell: AtomicU32,
    /// 1 while the agent sleeps or is about to.
    pub asleep: AtomicU32,
    /// 1 while the server has no place for one more child of the program.
    pub full: AtomicU32,
    /// 1 once the program's private memory is the kernel's for good, also what is to come.
    pub outside: AtomicU32,
    _apart: [AtomicU32; 12],
    /// From the server to the agent.
    pub orders: Ring,
    /// From the agent to the server.
    pub replies: Ring,
}
