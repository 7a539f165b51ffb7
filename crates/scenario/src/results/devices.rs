//! Device memory and what was cached in it.

use super::Response;
use serde::{Deserialize, Serialize};

/// The victim cache: frames by use, which add up to `frames`, and what happened to pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VictimCacheResult {
    /// Frames of the region.
    pub frames: u64,
    /// Nothing is in them.
    pub free: u64,
    /// A page is copied into them.
    pub filling: u64,
    /// A page is cached in them.
    pub cached: u64,
    /// A page is copied out of them.
    pub leaving: u64,
    /// They are an open device's.
    pub device: u64,
    /// They were a device's, and somebody may still use them.
    pub retired: u64,
    /// Pages taken.
    pub puts: u64,
    /// Pages asked for.
    pub gets: u64,
    /// Pages given back.
    pub hits: u64,
    /// Pages that made room for others.
    pub evicted: u64,
    /// Pages whose file has changed or gone.
    pub flushed: u64,
    /// Pages that were where a device opened.
    pub discarded: u64,
    /// Pages that could not be copied in.
    pub failed: u64,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceResult {
    /// Its name.
    pub name: String,
    /// Frames that it opens at most.
    pub pages: u64,
    /// Frames that it has.
    pub used: u64,
    /// `idle`, `open` or `returning`.
    pub state: String,
    /// The first of its frames, where it is not idle.
    pub first: Option<u64>,
    /// Whether its client may see what is cached in its memory.
    pub trusted: bool,
    /// How often it was opened.
    pub opens: u64,
    /// How often that was refused, or the job that wished it was over before.
    pub refused: u64,
    /// From the wish to the hand-over.
    pub open_ns: Response,
    /// From the close to the last frame's return.
    pub return_ns: Response,
}
