//! Refusals: why, and in words that say what to do.

use crate::error::EngineError;
use freehold_core::error::{AdmitError, CreateError, LockError, PinningError, UnlockError};
use freehold_protocol::field::{Malformed, TEXT_LIMIT};
use freehold_protocol::message::Refusal;
use freehold_protocol::shown::shown;

/// A request that is not met. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Why.
    pub(crate) why: Refusal,
    /// The same in words.
    pub(crate) text: String,
    /// The connection ends with this answer.
    pub(crate) close: bool,
}

impl Refused {
    /// A refusal after which the connection goes on.
    pub(crate) fn new(why: Refusal, text: impl Into<String>) -> Self {
        Self {
            why,
            text: clip(text.into()),
            close: false,
        }
    }

    /// A refusal that ends the connection.
    pub(crate) fn closing(why: Refusal, text: impl Into<String>) -> Self {
        Self {
            close: true,
            ..Self::new(why, text)
        }
    }

    /// A handle that names nothing on this connection.
    pub(crate) fn handle(what: &str, handle: u32) -> Self {
        Self::new(
            Refusal::Unknown,
            format!("{what} {handle} does not exist on this connection"),
        )
    }

    /// A table or quota that is full.
    pub(crate) fn limit(what: &str, limit: u64) -> Self {
        Self::new(
            Refusal::Exhausted,
            format!("at most {limit} {what} are allowed: give some up first"),
        )
    }
}

/// The text, cut so that it fits a message.
fn clip(mut text: String) -> String {
    let mut end = text.len().min(TEXT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl From<Malformed> for Refused {
    fn from(error: Malformed) -> Self {
        let why = match error {
            Malformed::Version { .. } => Refusal::Version,
            _ => Refusal::Malformed,
        };
        Self::closing(why, error.to_string())
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        Self::new(reason(&error), error.to_string())
    }
}

fn reason(error: &EngineError) -> Refusal {
    match error {
        EngineError::NoSuchClient
        | EngineError::NoSuchTask
        | EngineError::NoSuchReservation
        | EngineError::NoSuchPool
        | EngineError::NoSuchObject
        | EngineError::NoSuchMapping
        | EngineError::Range { .. }
        | EngineError::Lock(LockError::Stale | LockError::BadRange)
        | EngineError::Unlock(UnlockError::Stale | UnlockError::BadRange) => Refusal::Unknown,
        EngineError::Descriptor { .. } => Refusal::Descriptor,
        EngineError::Barred
        | EngineError::AllReserved
        | EngineError::LeavesNone { .. }
        | EngineError::Limit { .. }
        | EngineError::Pinning(PinningError::TableFull)
        | EngineError::Admit(AdmitError::TableFull | AdmitError::Overcommitted { .. } | AdmitError::EntriesFull)
        | EngineError::Create(CreateError::TableFull | CreateError::PagesFull { .. })
        | EngineError::Lock(LockError::TooLarge { .. } | LockError::TableFull | LockError::PoolShare { .. })
        | EngineError::Unlock(UnlockError::PoolLacksFrames { .. }) => Refusal::Exhausted,
        _ => Refusal::State,
    }
}

/// A name as it may stand in reports, logs and on terminals: see [`shown()`]. Of `most` characters at most, each of
/// which may be written as its number.
pub(crate) fn clean(name: &str, most: usize) -> String {
    let end = name.char_indices().nth(most).map_or(name.len(), |(at, _)| at);
    shown(name.get(..end).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_and_names_are_harmless() {
        let refused = Refused::new(Refusal::State, "ä".repeat(TEXT_LIMIT));
        assert!(refused.text.len() <= TEXT_LIMIT && refused.text.chars().all(|c| c == 'ä'));
        assert_eq!(clean("a\x1b[2J\nb\u{202e}", 64), "a\\u{1b}[2J\\u{a}b\\u{202e}");
        assert_eq!(clean("abcdef", 3), "abc");
    }

    #[test]
    fn what_is_malformed_ends_the_connection() {
        assert!(Refused::from(Malformed::CutOff).close);
        assert_eq!(Refused::from(Malformed::Version { theirs: 9 }).why, Refusal::Version);
        assert!(!Refused::from(EngineError::NoSuchTask).close);
    }
}
