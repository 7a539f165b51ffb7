//! Calls from one component to another, in separate address spaces, with inherited priority.
//!
//! A channel has some *contexts*, each a thread of the callee with a *call word* that it owns while it serves. A caller
//! claims a context, leaves its request, rings, and waits for the call word: the kernel has the callee's thread run
//! with the caller's priority or deadline until it releases the word, however many calls it makes meanwhile, and the
//! callees of those likewise. A context without a call has a small stack; for each call it takes one from a pool.
//!
//! The word of a call and the request are a claim to the other side. A callee that dies ends the wait at once, and one
//! that hangs ends it at the bound. A caller that dies leaves its context to the next, when the callee is done with it.

mod call;
mod context;
mod protocol;
mod serve;
mod system;

pub use call::Caller;
pub use protocol::{CallError, Request};
pub use serve::Callee;

use context::Context;
use freehold_linux::ThreadId;
use freehold_linux::memory::{Access, MapError, Memfd, MemfdError, SharedMapping};
use freehold_linux::pi_word::{Scope, unlock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Words of arguments of a call.
pub const ARGUMENTS: usize = 6;
/// Contexts of a channel, at most: as many as a page has.
pub const MOST_CONTEXTS: usize = freehold_linux::PAGE_SIZE / size_of::<Context>();

/// A channel cannot be made or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The caller's mistake.
    #[error("a channel has 1 to {MOST_CONTEXTS} contexts")]
    Contexts,
    /// No memory object, or one that is no channel.
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    /// No mapping.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The memory that caller and callee share: one page, and one pair of components.
#[derive(Debug)]
pub struct Channel {
    memory: Memfd,
    mapping: SharedMapping,
    contexts: usize,
}

impl Channel {
    /// Makes a channel with so many contexts. Both sides get its descriptor, and say the same number.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub fn create(contexts: usize) -> Result<Self, ChannelError> {
        Self::map(Memfd::create_sealed(c"freehold-channel", 1, false)?, contexts)
    }

    /// Opens a channel whose descriptor was passed on.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub fn open(memory: OwnedFd, contexts: usize) -> Result<Self, ChannelError> {
        Self::map(Memfd::adopt(memory, 1)?, contexts)
    }

    fn map(memory: Memfd, contexts: usize) -> Result<Self, ChannelError> {
        if !(1..=MOST_CONTEXTS).contains(&contexts) {
            return Err(ChannelError::Contexts);
        }
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite)?;
        Ok(Self {
            memory,
            mapping,
            contexts,
        })
    }

    /// How many contexts it has.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.contexts
    }

    /// Whether every context has a callee, if the other side is to be believed.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let mut contexts = self.all().iter();
        contexts.all(|context| context.callee.load(std::sync::atomic::Ordering::Acquire) != 0)
    }

    /// Calls that the callee had not ended at their callers' bounds, around the wrap, if the other sides are to be
    /// believed. Callers that found no context free are not among them.
    #[must_use]
    pub fn late(&self) -> u32 {
        let late = self.all().iter().map(Context::late);
        late.fold(0, u32::wrapping_add)
    }

    /// Whether a caller waits for the callee now, if the other sides are to be believed.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.all().iter().any(Context::is_waited_for)
    }

    /// Calls that were served on another CPU than their caller's, around the wrap, if the other sides are to be
    /// believed.
    #[must_use]
    pub fn cross_cpu_calls(&self) -> u32 {
        let cross = self.all().iter().map(Context::cross_cpu);
        cross.fold(0, u32::wrapping_add)
    }

    /// Frees contexts that are claimed by threads of which `lives` says that they are none of the caller's: where the
    /// other side has died, and may have written anything before.
    pub fn reset_claims(&self, lives: impl Fn(u32) -> bool) {
        let thread = ThreadId::current().get();
        for context in self.all() {
            // Whom the kernel has wait for the thread that the claim named waits in vain, until its bound.
            if context.take_stray_claim(thread, &lives) && unlock(context.claim.raw(), Scope::Shared).is_err() {
                context.claim.reset();
            }
        }
    }

    fn all(&self) -> &[Context] {
        // SAFETY: the page has room for as many, as was checked, and lives as long as `self`; they are atomics.
        unsafe { std::slice::from_raw_parts(self.mapping.base().cast::<Context>(), self.contexts) }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
