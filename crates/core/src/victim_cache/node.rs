//! One row for each frame: what is cached in it, and its links.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No frame.
pub(super) const NONE: u32 = u32::MAX;

/// What is in a frame, as far as its row knows. A frame of a base region that was discarded since is none of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing was ever put, or it has gone.
    Vacant,
    /// A page is copied into it.
    Filling,
    /// A page.
    Cached,
    /// A page is copied out of it, and is in no index any more.
    Leaving,
    /// It is a device's.
    Lent,
    /// It was a device's, and somebody may still use it.
    Retired,
}

/// A frame's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The file's row.
    pub(super) file: u32,
    pub(super) page: u32,
    /// Neighbours in order of puts, or in the list of free frames.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Neighbours among the frames of one file.
    pub(super) file_previous: u32,
    pub(super) file_next: u32,
    /// The bucket of its put.
    pub(super) bucket: u32,
    /// The base region's generation at its put.
    pub(super) generation: u32,
    /// What it was said to be worth.
    pub(super) worth: u8,
    /// Its base region.
    pub(super) region: u8,
    pub(super) place: Place,
    /// It is linked: in the order of puts, the index, and its file's list.
    pub(super) linked: bool,
}

/// All rows.
#[derive(Debug)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Rows of vacant frames; `region` says which base region a frame is in.
    pub(super) fn new(frames: u32, region: impl Fn(u32) -> u8) -> Option<Self> {
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(frames as usize).ok()?;
        nodes.extend((0..frames).map(|frame| Node {
            file: NONE,
            page: 0,
            previous: NONE,
            next: NONE,
            file_previous: NONE,
            file_next: NONE,
            bucket: 0,
            generation: 0,
            worth: 0,
            region: region(frame),
            place: Place::Vacant,
            linked: false,
        }));
        Some(Self(nodes))
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

impl Index<u32> for Nodes {
    type Output = Node;

    fn index(&self, frame: u32) -> &Node {
        &self.0[frame as usize]
    }
}

impl IndexMut<u32> for Nodes {
    fn index_mut(&mut self, frame: u32) -> &mut Node {
        &mut self.0[frame as usize]
    }
}
