//! Where one access step of a task stands: the next page of its pattern.

use super::rng::SplitMix64;
use super::zipf::Zipf;
use crate::model::{AccessStep, Pattern, TraceEntry};
use freehold_core::units::PageIndex;
use std::sync::Arc;

/// Consecutive pages of one region, all read or all written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) first: u32,
    pub(super) len: u32,
    pub(super) write: bool,
}

/// The state of one pattern over a region of `pages` pages.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    pages: u32,
    write: bool,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    Sequential {
        next: u32,
    },
    Random {
        rng: SplitMix64,
    },
    Zipf {
        rng: SplitMix64,
        zipf: Zipf,
    },
    Window {
        base: u32,
        size: u32,
        shift: u32,
        every: u32,
        /// Jobs since it moved.
        stayed: u32,
        offset: u32,
    },
    Trace {
        entries: Arc<[TraceEntry]>,
        next: usize,
    },
}

impl Cursor {
    pub(super) fn new(step: &AccessStep, pages: u32, rng: SplitMix64) -> Self {
        let pages = pages.max(1);
        let order = match &step.pattern {
            Pattern::Sequential => Order::Sequential { next: 0 },
            Pattern::Random => Order::Random { rng },
            Pattern::Zipf { exponent } => Order::Zipf {
                rng,
                zipf: Zipf::new(pages, *exponent),
            },
            Pattern::Window { size, shift, every } => {
                let bounded = |bytes: freehold_core::units::ByteLen| bytes.to_pages().map_or(0, |p| p.get()).min(pages);
                Order::Window {
                    base: 0,
                    size: bounded(*size).max(1),
                    shift: bounded(*shift),
                    every: *every,
                    stayed: 0,
                    offset: 0,
                }
            }
            Pattern::Trace { entries, .. } => Order::Trace {
                entries: Arc::clone(entries),
                next: 0,
            },
        };
        Self {
            pages,
            write: step.write,
            order,
        }
    }

    /// A job ended and the next begins.
    pub(super) fn next_job(&mut self) {
        if let Order::Window {
            base,
            shift,
            every,
            stayed,
            offset,
            ..
        } = &mut self.order
        {
            *offset = 0;
            *stayed = stayed.saturating_add(1);
            if *stayed >= *every {
                *base = wrapped(*base, *shift, self.pages);
                *stayed = 0;
            }
        }
    }

    /// The next stretch of at most `max` pages (at least 1), ascending without wrap.
    pub(super) fn take(&mut self, max: u32) -> Stretch {
        let one = |page| Stretch {
            first: page,
            len: 1,
            write: self.write,
        };
        match &mut self.order {
            Order::Sequential { next } => {
                let (first, len) = (*next, max.min(self.pages - *next));
                *next = wrapped(first, len, self.pages);
                Stretch {
                    first,
                    len,
                    write: self.write,
                }
            }
            Order::Random { rng } => one(rng.below(self.pages)),
            Order::Zipf { rng, zipf } => one(zipf.sample(rng)),
            Order::Window { base, size, offset, .. } => {
                let first = wrapped(*base, *offset, self.pages);
                let len = max.min(*size - *offset).min(self.pages - first);
                *offset = wrapped(*offset, len, *size);
                Stretch {
                    first,
                    len,
                    write: self.write,
                }
            }
            Order::Trace { entries, next } => trace_stretch(entries, next, max),
        }
    }
}

/// `position + step` on a ring; both at most `ring`.
fn wrapped(position: u32, step: u32, ring: u32) -> u32 {
    let sum = (u64::from(position) + u64::from(step)) % u64::from(ring.max(1));
    u32::try_from(sum).unwrap_or(0)
}

fn trace_stretch(entries: &[TraceEntry], next: &mut usize, max: u32) -> Stretch {
    let Some(head) = entries.get(*next).or_else(|| entries.first()) else {
        return Stretch {
            first: 0,
            len: 1,
            write: false,
        };
    };
    let start = if *next < entries.len() { *next } else { 0 };
    let mut len = 1;
    while len < max {
        let follower = entries.get(start + len as usize);
        let expected = head.page.get().checked_add(len).map(PageIndex::new);
        if !follower.is_some_and(|entry| Some(entry.page) == expected && entry.write == head.write) {
            break;
        }
        len += 1;
    }
    *next = (start + len as usize) % entries.len();
    Stretch {
        first: head.page.get(),
        len,
        write: head.write,
    }
}
