//! The Linux mechanisms Freehold stands on.
//!
//! Every raw system call of the project lives here: userfaultfd, memfd, the SIGBUS handler, PI futexes, scheduling
//! policies, clocks, io_uring, and [`probe`], which tries each of them on a tiny case. This crate decides nothing; it
//! does what it is told and reports what the kernel said.
//!
//! # Absences
//! - Functions marked *async-signal-safe* never allocate, never take a lock of the C library, and report an [`Errno`]
//!   or another `Copy` error. They may change the C library's `errno`; the handler in [`fault`] preserves it.
//! - Nothing here falls back silently: where a lesser mechanism was used, the result says which.
//!
//! Page numbers count 4 KiB pages ([`PAGE_SIZE`]); all ranges are half-open.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("freehold-linux supports Linux on x86-64 only: the SIGBUS handler reads that machine's registers");

pub mod address_space;
pub mod available;
pub mod bare;
pub mod bare_word;
pub mod cached;
pub mod caller;
pub mod charge;
pub mod child;
pub mod clock;
pub mod cpu_caches;
pub mod event;
pub mod fault;
pub mod faults;
pub mod file_lease;
pub mod flood;
pub mod folder;
pub mod freed_frames;
pub mod fuse_device;
pub mod futex;
pub mod memory;
mod memory_cgroups;
pub mod mounts;
pub mod peer_exit;
mod perf;
pub mod physical;
pub mod pi_mutex;
pub mod pi_word;
pub mod probe;
pub mod process;
pub mod program;
mod range;
pub mod resident;
pub mod ring;
pub mod sched;
pub mod sched_events;
pub mod service;
pub mod socket;
pub mod stack;
pub mod swap;
mod sys;
pub mod thread;
mod thread_id;
pub mod tick;
pub mod tracefs;
pub mod tracepoints;
pub mod uncached_read;
pub mod user_filesystems;
pub mod user_namespace;
pub mod userfault;
pub mod zram;

pub use range::{AddressRange, PageRange};
pub use rustix::io::Errno;
pub use thread_id::ThreadId;

/// The size of a page and of a frame, in bytes.
pub const PAGE_SIZE: usize = 4096;
