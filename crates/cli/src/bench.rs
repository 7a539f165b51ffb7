//! `freehold bench`: a mechanism beside its floor. The benchmarks are the laboratory's.

pub(crate) use freehold_lab::bench::{Arguments, run};
