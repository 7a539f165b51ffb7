//! `freehold reproduce`: the papers' experiments, their figures beside ours. The experiments are the laboratory's.

pub(crate) use freehold_lab::reproduce::{Arguments, run};
