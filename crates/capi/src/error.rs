//! What functions return, and the words for it.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use freehold_client::device::{DeviceError, DeviceRefusal};
use freehold_client::{ConnectError, MapRegionError, Refusal, RequestError};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum freehold_status {
    /// Done.
    FREEHOLD_OK = 0,
    /// The caller's mistake: an argument is null, out of range, of an unknown kind, or an object that was ended.
    FREEHOLD_INVALID = 1,
    /// No server answers.
    FREEHOLD_NO_SERVER = 2,
    /// The user may not do this.
    FREEHOLD_FORBIDDEN = 3,
    /// Pool, quota or a table is exhausted.
    FREEHOLD_EXHAUSTED = 4,
    /// A name or object means nothing to the server.
    FREEHOLD_UNKNOWN = 5,
    /// It cannot be done in the present state.
    FREEHOLD_STATE = 6,
    /// The server is gone, or ending.
    FREEHOLD_GONE = 7,
    /// The server speaks another version, or nonsense.
    FREEHOLD_PROTOCOL = 8,
    /// The kernel refused.
    FREEHOLD_SYSTEM = 9,
    /// The object belongs to the parent of a fork.
    FREEHOLD_FORKED = 10,
    /// A bug of this library.
    FREEHOLD_BUG = 11,
    /// The periodic task's time is over.
    FREEHOLD_OVER = 12,
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Problem {
    status: freehold_status,
    text: String,
}

impl Problem {
    /// The caller's mistake.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(freehold_status::FREEHOLD_INVALID, text.into())
    }

    /// The kernel's refusal.
    pub(crate) fn system(reason: impl Display) -> Self {
        Self::new(freehold_status::FREEHOLD_SYSTEM, reason.to_string())
    }

    /// Nothing is wrong, but there is nothing more.
    pub(crate) fn over() -> Self {
        Self::new(freehold_status::FREEHOLD_OVER, "the task's time is over".to_owned())
    }

    fn new(status: freehold_status, text: String) -> Self {
        Self { status, text }
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        let status = match &error {
            RequestError::Refused { why, .. } => match why {
                Refusal::Malformed | Refusal::Version => freehold_status::FREEHOLD_PROTOCOL,
                Refusal::Forbidden => freehold_status::FREEHOLD_FORBIDDEN,
                Refusal::Exhausted => freehold_status::FREEHOLD_EXHAUSTED,
                Refusal::Unknown => freehold_status::FREEHOLD_UNKNOWN,
                Refusal::Descriptor => freehold_status::FREEHOLD_INVALID,
                Refusal::State => freehold_status::FREEHOLD_STATE,
                Refusal::Ending => freehold_status::FREEHOLD_GONE,
            },
            RequestError::Gone | RequestError::Silent => freehold_status::FREEHOLD_GONE,
            RequestError::Unsayable(_) | RequestError::Stranger | RequestError::OutOfBounds => {
                freehold_status::FREEHOLD_INVALID
            }
            RequestError::Forked => freehold_status::FREEHOLD_FORKED,
            RequestError::System(_) => freehold_status::FREEHOLD_SYSTEM,
            // What is left is an answer that makes no sense.
            _ => freehold_status::FREEHOLD_PROTOCOL,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ConnectError> for Problem {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Request(error) => error.into(),
            ConnectError::NoServer { .. } => Self::new(freehold_status::FREEHOLD_NO_SERVER, error.to_string()),
            ConnectError::Forbidden { .. } => Self::new(freehold_status::FREEHOLD_FORBIDDEN, error.to_string()),
            ConnectError::Channel(_) => Self::new(freehold_status::FREEHOLD_PROTOCOL, error.to_string()),
            other => Self::system(other),
        }
    }
}

impl From<DeviceError> for Problem {
    fn from(error: DeviceError) -> Self {
        let status = match &error {
            DeviceError::NoServer { .. } => freehold_status::FREEHOLD_NO_SERVER,
            DeviceError::Refused { reason, .. } => match reason {
                DeviceRefusal::Unknown => freehold_status::FREEHOLD_UNKNOWN,
                DeviceRefusal::InUse | DeviceRefusal::Held | DeviceRefusal::Order => freehold_status::FREEHOLD_STATE,
                DeviceRefusal::TooLarge => freehold_status::FREEHOLD_INVALID,
                DeviceRefusal::System => freehold_status::FREEHOLD_SYSTEM,
                DeviceRefusal::Protocol => freehold_status::FREEHOLD_PROTOCOL,
            },
            DeviceError::Forked => freehold_status::FREEHOLD_FORKED,
            DeviceError::Protocol => freehold_status::FREEHOLD_PROTOCOL,
            DeviceError::Gone => freehold_status::FREEHOLD_GONE,
            _ => freehold_status::FREEHOLD_SYSTEM,
        };
        Self::new(status, error.to_string())
    }
}

impl From<MapRegionError> for Problem {
    fn from(error: MapRegionError) -> Self {
        match error {
            MapRegionError::Request(error) => error.into(),
            other => Self::system(other),
        }
    }
}

/// Runs a function's body: its failure, or a panic, becomes a status and the thread's last error.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Problem>) -> freehold_status {
    // What a panic leaves half done is the library's own: objects stay what they were or were never given out.
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let bug = "a bug in libfreehold: please report what stands on standard error";
    let outcome = outcome.unwrap_or_else(|_| Err(Problem::new(freehold_status::FREEHOLD_BUG, bug.to_owned())));
    match outcome {
        Ok(()) => freehold_status::FREEHOLD_OK,
        Err(Problem { status, text }) => {
            let text = CString::new(text.replace('\0', " ")).ok();
            // Refused while the thread ends: then nobody asks any more.
            let _ = LAST.try_with(|last| last.replace(text));
            status
        }
    }
}

/// The last failure of a call in this thread, in words: who is at fault and what to do. Never null. It is valid until
/// the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_error() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::{Problem, freehold_error, freehold_status, guard};
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: never null, and ends with a zero byte; copied before the next call.
        unsafe { CStr::from_ptr(freehold_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn failures_and_panics_become_statuses_with_words_of_the_thread() {
        assert_eq!(last(), "");
        assert_eq!(guard(|| Ok(())), freehold_status::FREEHOLD_OK);
        let invalid = || Err(Problem::invalid("a\0b"));
        assert_eq!(guard(invalid), freehold_status::FREEHOLD_INVALID);
        assert_eq!(last(), "a b");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
        assert_eq!(guard(|| panic!("planted")), freehold_status::FREEHOLD_BUG);
        assert!(last().contains("bug"));
    }
}
