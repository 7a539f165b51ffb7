//! What the memory server and its clients say to each other.
//!
//! Two ways lead from a client to its server, besides the userfaultfd that it hands over:
//!
//! - *messages* ([`message`]) over a Unix socket of type `SOCK_SEQPACKET`: one request, one answer, in order, with
//!   descriptors passed along where the request says so. Everything that makes, changes or asks.
//! - the *channel* ([`channel`]), one sealed memory object per client that both map: the server's orders to remove
//!   pages from the client's address space, which only the client itself can do, and its answers. No system call but a
//!   wake.
//!
//! Nothing here trusts: whatever is read is checked, and a claim stays a claim until the server has looked it up. The
//! crate knows no allocator and no operating system, so that the agent inside a foreign program can use it.
#![no_std]
#![forbid(unsafe_code)]

pub mod channel;
mod choices;
pub mod device;
pub mod field;
pub mod grant;
mod header;
pub mod message;
pub mod packet;
mod policy;
pub mod shown;

/// The version of both ways. A server answers a `Hello` of another version with a refusal that names its own.
pub const VERSION: u16 = 5;
/// Bytes of a page, which both sides must agree on.
pub const PAGE_SIZE: usize = 4096;
/// The environment variable that names the server's socket.
pub const SOCKET_VARIABLE: &str = "FREEHOLD_SOCKET";
/// The environment variable that holds the ticket of the reservation to join, 32 hexadecimal digits.
pub const TICKET_VARIABLE: &str = "FREEHOLD_TICKET";
/// The fifth and sixth argument of a system call in which a thread of a managed program waits for its agent. The calls
/// that the agent's library uses for that ignore both. Who looks at the thread's blocks can tell them by these from the
/// program's own.
pub const WAIT_MARK: [usize; 2] = [0x6672_6565_686f_6c64, 0x7761_6974_2d61_676e];
/// Where a server listens by default if it runs as root.
pub const SYSTEM_SOCKET: &str = "/run/freehold/socket";
