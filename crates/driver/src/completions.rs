//! Requests of the core that have ended, until the core is told.

use freehold_core::Memory;
use freehold_core::error::CompletionError;
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::Instant;
use std::collections::VecDeque;

/// How a request of the core ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was carried out.
    Done,
    /// It could not be carried out.
    Failed,
    /// The page cannot leave now.
    Kept,
}

/// A request that has ended, to be told to the core.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The page.
    pub page: PageRef,
    /// What was asked for.
    pub request: Request,
    /// How it ended.
    pub end: End,
}

impl Ended {
    /// Tells the core.
    ///
    /// # Errors
    /// The core's refusal: it had not asked for it.
    pub fn tell(self, core: &mut Memory, now: Instant) -> Result<(), CompletionError> {
        match self.end {
            End::Done => core.handle_done(now, self.page, self.request),
            End::Failed => core.handle_failed(now, self.page, self.request),
            End::Kept => core.handle_kept(now, self.page),
        }
    }
}

/// What has ended and the core was not told of, in the order in which it ended.
#[derive(Debug, Default)]
pub struct Completions {
    ended: VecDeque<Ended>,
    is_bounded: bool,
}

impl Completions {
    /// Room for so many at a time and no more: nothing is allocated afterwards.
    #[must_use]
    pub fn bounded(most: usize) -> Self {
        Self {
            ended: VecDeque::with_capacity(most),
            is_bounded: true,
        }
    }

    /// A request has ended; the core is yet to be told.
    pub fn end(&mut self, page: PageRef, request: Request, end: End) {
        debug_assert!(
            !self.is_bounded || self.ended.len() < self.ended.capacity(),
            "more ends than the stated bound"
        );
        self.ended.push_back(Ended { page, request, end });
    }

    /// Whether the core has been told of everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    /// The next request that has ended.
    pub fn next_end(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }
}
