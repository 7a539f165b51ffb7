//! The policy of Freehold.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod id;
pub mod units;
