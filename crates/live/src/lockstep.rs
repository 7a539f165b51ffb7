//! Lockstep.
