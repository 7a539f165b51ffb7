//! How late a real-time thread wakes up: paper 002's measure of what separate address spaces cost.
//!
//! A thread of a fixed priority sleeps until an absolute time and reads the clock when it runs again. The difference is
//! its *latency*. Beside it, on the same CPU and at no real-time priority, runs a load: in the process of the thread
//! (*shared* space) or in one of its own (*separate* space, so that each wake-up changes the address space).
//!
//! Spaces and loads take turns in slices of two seconds, so that what the machine does in the meantime meets all alike.
//! An idle reference thread on the same CPU says of a late wake-up whether the machine itself stood still.
//!
//! [`settings`] says what is measured, [`session`] measures it, [`report`] is the result.

mod causes;
mod cyclictest;
mod floor;
pub mod load;
mod power;
mod probe_thread;
mod reference;
pub mod report;
pub mod session;
pub mod settings;
mod slice;
mod tally;
mod timer;
