//! The agent: a library that `freehold exec` has loaded into a program, so that a memory server can manage the
//! program's memory without the program knowing.
//!
//! # What it does
//! - When the program is loaded it opens userfaultfds, introduces itself to the server and starts a
//!   thread that carries out the server's orders: moving private pages out of the address space (`UFFDIO_MOVE`) and
//!   dropping mappings of shared ones, which only a process itself can do.
//! - Text and read-only data of the program and its libraries are served from objects that the server shares between
//!   all processes that run the same file.
//! - New anonymous private memory is registered where the C library makes it. Thread stacks, data segments and what was
//!   there before stay the kernel's.
//! - A forked child becomes a client before anything of the program runs in it. One made by a system call past the C
//!   library does with the first memory that it makes; until then the server only serves it.
//!
//! # Modules
//! [`hooks`] has what takes the place of the C library's functions, [`forks`], `programs` and `filters` of those that
//! make children, begin programs and forbid calls. `client` is the connection to the server, [`threads`] the agent's
//! own threads, `orders` what they do for the server. `text` serves files, and [`kernel_paths`] keeps what the kernel
//! reads without a fault. `sys` makes system calls by hand.
//!
//! # Absences
//! - The agent thread calls nothing outside this library: the C library's text is managed memory and may be missing
//!   while it runs. No thread-local storage, no allocation, no lock but the mailbox's.
//! - The program's table of descriptors stays as it is: the agent thread has a table of its own.
//! - No change of the program's signal masks, and no signal handler that it could find: those before a core file
//!   ([`kernel_paths`]) look like the default.
//! - Without `FREEHOLD_SOCKET` in the environment the library does nothing at all.
//!
//! Where a program cannot be managed it runs as without the library, and standard error says why.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("freehold-agent supports Linux on x86-64 only: it makes system calls by hand");

mod client;
mod filters;
pub mod forks;
pub mod hooks;
pub mod kernel_paths;
mod orders;
mod process;
mod programs;
mod report;
mod sync;
mod sys;
mod text;
pub mod threads;
