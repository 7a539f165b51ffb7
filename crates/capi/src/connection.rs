//! Connecting, asking.

use std::ffi::{CString, c_char};

use freehold_client::{Connection, Options, Question};

use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::sized::{self, Versioned};
use crate::text;

/// A connection to the server. It lasts until it and everything made through it has been ended.
#[derive(Debug)]
pub struct freehold_connection {
    _private: [u8; 0],
}

object!(freehold_connection, Connection, "connection", b"fhconnec");

/// For `freehold_options.agent_priority`: among ordinary threads.
pub const FREEHOLD_ORDINARY: u32 = u32::MAX;
/// For `freehold_ask`: all reservations, clients, objects, the pool and the store, as JSON.
pub const FREEHOLD_ASK_STATUS: u32 = 1;
/// For `freehold_ask`: the same in Prometheus' text format.
pub const FREEHOLD_ASK_METRICS: u32 = 2;
/// For `freehold_ask`: one target, a process id, `pid:0xADDRESS`, a reservation or a region, as JSON.
pub const FREEHOLD_ASK_EXPLAIN: u32 = 3;
/// For `freehold_ask`: whether a reservation of the target size (`30MiB`, `30MiB firm`) would be admitted, as JSON.
pub const FREEHOLD_ASK_WHAT_IF: u32 = 4;

/// How to connect.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_options {
    /// sizeof(freehold_options).
    pub size: usize,
    /// The server's socket; null for the default: that of FREEHOLD_SOCKET, the user's own server, or the system's.
    pub socket: *const c_char,
    /// What the program is called in reports; null for `libfreehold`.
    pub name: *const c_char,
    /// SCHED_FIFO priority of the thread that gives pages back, 0 for the default, FREEHOLD_ORDINARY for none.
    pub agent_priority: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, begins with its size, integers and pointers only.
unsafe impl Versioned for freehold_options {
    const LEAST: usize = 32;
    const NAME: &'static str = "freehold_options";
}

/// Connects to the server, and starts two threads: the one that gives pages back, and one that sleeps until the server
/// is gone. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_connect(
    options: *const freehold_options,
    connection: *mut *mut freehold_connection,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let out = unsafe { handle::place(connection) }?;
        let mut wanted = Options::named("libfreehold");
        if !options.is_null() {
            // SAFETY: as above, also for the strings in the structure.
            let (given, socket, name) = unsafe {
                let given = sized::read(options)?;
                let socket = text::read_if_any(given.socket, "the socket's path")?;
                (given, socket, text::read_if_any(given.name, "the program's name")?)
            };
            if given.reserved != 0 {
                return Err(Problem::invalid("freehold_options.reserved is not 0"));
            }
            wanted.socket = socket.map(Into::into);
            wanted.name = name.map_or(wanted.name, str::to_owned);
            wanted.agent_priority = match given.agent_priority {
                0 => wanted.agent_priority,
                FREEHOLD_ORDINARY => None,
                priority => Some(priority),
            };
        }
        handle::give(Connection::open(&wanted)?, out);
        Ok(())
    })
}

/// Ends a connection. What was made through it stays until it is ended itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_disconnect(connection: *mut freehold_connection) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        drop(unsafe { handle::take(connection) }?);
        Ok(())
    })
}

/// What the connection has to do without, a line for each, in `*out`, which `freehold_text_end` ends. Empty if nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_shortfalls(
    connection: *const freehold_connection,
    out: *mut *mut c_char,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let connection = unsafe { handle::borrow(connection) }?;
        let lines = connection.shortfalls().join("\n");
        // SAFETY: as above.
        unsafe { text::give(lines, out) }
    })
}

/// Asks the server `question`, one of FREEHOLD_ASK_*, about `target` (null for nothing). The answer is in `*out`, which
/// `freehold_text_end` ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_ask(
    connection: *const freehold_connection,
    question: u32,
    target: *const c_char,
    out: *mut *mut c_char,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (connection, target) = unsafe { (handle::borrow(connection)?, text::read_if_any(target, "the target")?) };
        let question = match question {
            FREEHOLD_ASK_STATUS => Question::Status,
            FREEHOLD_ASK_METRICS => Question::Metrics,
            FREEHOLD_ASK_EXPLAIN => Question::Explain,
            FREEHOLD_ASK_WHAT_IF => Question::WhatIf,
            other => return Err(Problem::invalid(format!("there is no question {other}"))),
        };
        let answer = connection.ask(question, target.unwrap_or_default())?;
        // SAFETY: as above.
        unsafe { text::give(answer, out) }
    })
}

/// Ends a text that a function here has given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_text_end(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `CString::into_raw` in `text::give`, by the caller's promise, and not ended yet.
        drop(unsafe { CString::from_raw(text) });
    }
}
