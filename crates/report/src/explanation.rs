//! Explanations: what a process, an address, a reservation or an object can count on, and why.

use serde::{Deserialize, Serialize};

/// What is to be said of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The target as it was asked for.
    pub target: String,
    /// `process`, `address`, `reservation`, `object` or `component`.
    pub kind: String,
    /// What holds, for each task of a process or for the reservation.
    pub guarantees: Vec<Guarantee>,
    /// Who pays the frames, in sentences.
    pub charged: Vec<String>,
    /// One page, where the target is an address.
    pub page: Option<PageExplanation>,
    /// What its pinned page pool has done.
    #[serde(default)]
    pub pinning: Vec<String>,
    /// What would be evicted next, in order.
    pub next: Vec<Victim>,
    /// What is not protected, and why.
    pub unprotected: Vec<String>,
    /// Which of its reservations read pages back so often that the program does little else, and the size that would
    /// end it; filled in by who asks, for it takes two looks.
    #[serde(default)]
    pub thrashing: Vec<String>,
    /// All of it in sentences.
    pub text: Vec<String>,
}

/// What a task or reservation can count on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The task; null for the reservation as a whole.
    pub task: Option<String>,
    /// The reservation; null for the pool, which promises nothing.
    pub reservation: Option<String>,
    /// Frames that nobody else can have.
    pub frames: u64,
    /// In a sentence.
    pub text: String,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageExplanation {
    /// The object it belongs to.
    pub object: String,
    /// Its number there.
    pub page: u64,
    /// `empty`, `stored`, `filling`, `resident` or `leaving`.
    pub state: String,
    /// Written since it was filled.
    pub dirty: bool,
    /// The reservation that owns it: the one charged.
    pub owner: Option<String>,
    /// Reservations that have it on their lists.
    pub sharers: u64,
    /// Reservations that lock it.
    pub lockers: u64,
    /// A pinned page pool pins it.
    #[serde(default)]
    pub pinned: bool,
}

/// A page that would be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// From which reservation's lists.
    pub reservation: String,
    /// Of which object.
    pub object: String,
    /// Its number there.
    pub page: u64,
    /// Why this one.
    pub reason: String,
}
