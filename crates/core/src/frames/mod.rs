//! Frames: what is moved, who holds it, and the door through which it leaves the page lists.

pub(super) mod account;
pub(super) mod holder;
pub(super) mod holder_queue;
mod outside;
mod token;

pub use token::Frames;
