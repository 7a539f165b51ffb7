//! What we add to paper 001. Each file states its algorithm first.

pub(super) mod memory_share;
pub(super) mod restore;
pub(super) mod steady;
pub(super) mod successors;
pub(super) mod trial;
