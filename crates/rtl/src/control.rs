//! What the command asks of a host or of a separate task, and what they answer: one line of JSON each way on a Unix
//! socket of the user's own directory.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inject::Fault;

/// How long an answer may take: a module's own `init_module` or `cleanup_module` is in it.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Load a module and call its `init_module`.
    Insert(Insert),
    /// Call its `cleanup_module` and take it out.
    Remove {
        /// Its name.
        name: String,
    },
    /// Answer.
    Ping,
    /// Have a fault, to see what it does to others.
    Inject {
        /// Which.
        fault: Fault,
        /// Of its random numbers.
        seed: u64,
    },
    /// Serve the FIFOs as files.
    Mount {
        /// Where.
        directory: PathBuf,
        /// Also as `/dev/rtfN`.
        dev: bool,
    },
}

/// A module to be loaded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Insert {
    /// By which it is listed and removed.
    pub name: String,
    /// The shared object.
    pub object: PathBuf,
    /// `name=value` for each `MODULE_PARM`.
    pub parameters: Vec<(String, String)>,
    /// Interrupt lines that come from files.
    pub lines: Vec<(u32, PathBuf)>,
    /// Ports whose writes go to files.
    pub ports: Vec<(u32, PathBuf)>,
    /// The memory of a separate task is neither locked nor brought in beforehand.
    pub pageable: bool,
}

/// An answer: done, or why not with the exit status of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// 0 done, 1 it failed, 2 the request is wrong.
    pub status: u8,
    /// Why it is not done.
    pub error: String,
}

impl Answer {
    /// Done.
    #[must_use]
    pub fn done() -> Self {
        Self {
            status: 0,
            error: String::new(),
        }
    }

    /// It failed.
    #[must_use]
    pub fn failed(error: impl ToString) -> Self {
        Self {
            status: 1,
            error: error.to_string(),
        }
    }
}

/// Asks who listens at `socket`.
///
/// # Errors
/// Nobody listens, or no answer came.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    ask_within(socket, request, ANSWER_WITHIN)
}

/// As [`ask`], waiting for `most`.
///
/// # Errors
/// As [`ask`].
pub fn ask_within(socket: &Path, request: &Request, most: Duration) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(most))?;
    send(&mut stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::from)
}

/// Reads one request.
///
/// # Errors
/// The other side has gone, or sent something else.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, 1 << 20)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::from)
}

/// Writes one line.
///
/// # Errors
/// The other side has gone.
pub(crate) fn send(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}
