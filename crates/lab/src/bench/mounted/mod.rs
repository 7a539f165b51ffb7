//! `freehold mount` beside bare mounts, the device and native starts.

pub(crate) mod bare;
mod exec;
mod read;
mod scene;
mod sequential;

pub(super) use exec::BENCH as EXEC;
pub(super) use read::BENCH as READ;
pub(super) use sequential::BENCH as SEQUENTIAL;
