//! Where pager threads, agents and waiting threads run: a fault served on one CPU needs no wake-up across CPUs.

pub(super) mod affinity_hold;
pub(super) mod pager_affinity;
