//! What the engine tells of itself: the log's lines, counts, and the record of a run.

use crate::engine::Engine;
use crate::engine::recorder::Recorder;
use crate::settings::Settings;
use crate::times::Times;
use freehold_protocol::channel::Shortage;

/// What the engine has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) busy: u64,
    pub(super) stopped: u64,
    /// Transfers that somebody more urgent has come to wait for.
    pub(super) lifted: u64,
    /// How often there was no room for what, by number.
    pub(super) shortages: [u64; Shortage::ALL.len()],
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What to say.
    pub text: String,
    /// It tells why a program was ended, which nobody else says.
    pub ending: bool,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) recorder: Option<Box<Recorder>>,
    notices: Vec<Notice>,
    pub(super) tally: Tally,
    /// How long steps took.
    pub(super) steps: Times,
}

impl Journal {
    /// Nothing yet.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            recorder: Recorder::new(settings),
            notices: Vec::new(),
            tally: Tally::default(),
            steps: Times::new(),
        }
    }
}

impl Engine {
    /// Notes something for the log.
    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.note(text.into(), false);
    }

    /// Notes why a program is ended, of which its user hears from nobody else.
    pub(super) fn notice_ending(&mut self, text: String) {
        self.note(text, true);
    }

    fn note(&mut self, text: String, ending: bool) {
        // Whoever should read them may not: a client must not fill memory by misbehaving.
        if self.journal.notices.len() < 1_000 {
            self.journal.notices.push(Notice { text, ending });
        }
    }

    /// What is to be logged since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.journal.notices)
    }
}
