//! Copies under way: a page into a frame, or out of it. No other page gets the frame before the copy has ended.

use super::spec::FrameRange;
use alloc::vec::Vec;

/// What becomes of a frame when its copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A page that was copied into it is cached; from where one was copied out it is free.
    Usual,
    /// It is free: the page was flushed meanwhile.
    Free,
    /// It is a device's.
    Lend,
}

/// A copy under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) frame: u32,
    pub(super) fate: Fate,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Copies {
    rows: Vec<Copy>,
    most: usize,
}

impl Copies {
    pub(super) fn new(most: u16) -> Option<Self> {
        let mut rows = Vec::new();
        rows.try_reserve_exact(usize::from(most)).ok()?;
        Some(Self {
            rows,
            most: usize::from(most),
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= self.most
    }

    pub(super) fn begin(&mut self, frame: u32) {
        self.rows.push(Copy {
            frame,
            fate: Fate::Usual,
        });
    }

    /// O(copies).
    pub(super) fn end(&mut self, frame: u32) -> Option<Fate> {
        let at = self.rows.iter().position(|copy| copy.frame == frame)?;
        Some(self.rows.swap_remove(at).fate)
    }

    pub(super) fn rows(&self) -> &[Copy] {
        &self.rows
    }

    pub(super) fn set_fate(&mut self, frame: u32, fate: Fate) {
        if let Some(copy) = self.rows.iter_mut().find(|copy| copy.frame == frame) {
            copy.fate = fate;
        }
    }

    /// All frames of a range in which one is under way get this fate; returns how many.
    pub(super) fn set_fates(&mut self, range: FrameRange, fate: Fate) -> u32 {
        let mut found = 0;
        for copy in self.rows.iter_mut().filter(|copy| range.has(copy.frame)) {
            copy.fate = fate;
            found += 1;
        }
        found
    }
}
