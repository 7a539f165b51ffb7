//! The laboratory: benchmarks (`freehold bench`) and the papers' experiments (`freehold reproduce`), with the programs
//! that they compare with. The command's own crate has no experiment.
//!
//! *A new benchmark* (of device memory, of transient memory, of RTLinux's calls, ..) is a file `bench/NAME.rs` with a
//! constant `BENCH` and its `run`, which measures a floor and ours in turns. The list of `bench/mod.rs` names it, and
//! its module stands there too.
//!
//! *A new experiment* is a file `reproduce/NAME.rs`, or `reproduce/PAPER/NAME.rs`, with a constant `EXPERIMENT`, which
//! has its scenario files (`file!`), and its `run`, which gives rows: what the paper says, what we found, what is
//! claimed. The list of `reproduce/mod.rs` names it, and its module stands there too.
//!
//! What must be done in a process of its own is another hidden subcommand, a variant of [`Helper`]. Programs to compare
//! with are in `programs`. No other place knows of a benchmark or an experiment: `--list`, `--names`, `all`, `--show`
//! follow from the lists.
#![forbid(unsafe_code)]

pub mod bench;
mod devices;
mod helper;
mod programs;
pub mod reproduce;
mod series;

pub use helper::Helper;
