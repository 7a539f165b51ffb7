//! The laboratory: benchmarks (`freehold bench`) and the papers' experiments (`freehold reproduce`), with the programs
//! that they compare with. The command's own crate has no experiment.
#![forbid(unsafe_code)]

pub mod bench;
mod helper;
mod programs;
pub mod reproduce;

pub use helper::Helper;
