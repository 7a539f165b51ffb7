//! Frames in order of puts, oldest first. A hit takes a page out, so this is the order of use too (paper 003, 3.2).

use super::node::{NONE, Nodes};

/// One list through the rows of frames; the same links serve the lists of free frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameList {
    first: u32,
    last: u32,
}

impl FrameList {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn push_back(&mut self, nodes: &mut Nodes, frame: u32) {
        nodes[frame].previous = self.last;
        nodes[frame].next = NONE;
        match self.last {
            NONE => self.first = frame,
            last => nodes[last].next = frame,
        }
        self.last = frame;
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes, frame: u32) {
        let (previous, next) = (nodes[frame].previous, nodes[frame].next);
        match previous {
            NONE => self.first = next,
            previous => nodes[previous].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => nodes[next].previous = previous,
        }
    }

    pub(super) fn iter(self, nodes: &Nodes) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.first(), |frame| {
            Some(nodes[*frame].next).filter(|next| *next != NONE)
        })
    }
}
