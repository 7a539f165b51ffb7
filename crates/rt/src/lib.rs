//! Periodic tasks as real threads: released by the clock, scheduled by Linux, and every job accounted for.
//!
//! A [`Periodic`](timing::Timing) thread sleeps to its next release, does a job, and writes down when it was released,
//! started and finished, the CPU time it took, and how long the memory under it made it wait. Releases never skip: a
//! late job delays the next. Nothing here knows where pages come from; the work says how long they took
//! ([`Work::delays`](runner::Work::delays)).
#![deny(unsafe_code)]

pub mod budget;
pub mod class;
pub mod job;
pub mod job_detection;
pub mod job_report;
pub mod pacer;
pub mod record;
pub mod runner;
pub mod stop;
pub mod timing;
