//! `/dev/cpu_dma_latency`: while it is held open with 0 in it, CPUs do not sleep deeply (Documentation/power/pm_qos).

use std::fs::File;
use std::io::{ErrorKind, Write};

/// Whether CPUs are kept from deep sleep.
#[derive(Debug)]
pub(crate) enum Awake {
    /// They are, while this lives.
    Held { _file: File },
    /// The machine has no such file.
    Absent,
    /// It may not be written.
    Refused(String),
}

impl Awake {
    pub(crate) fn hold() -> Self {
        let path = "/dev/cpu_dma_latency";
        let held = File::options().write(true).open(path).and_then(|mut file| {
            file.write_all(&0_i32.to_ne_bytes())?;
            Ok(file)
        });
        match held {
            Ok(file) => Self::Held { _file: file },
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Refused(format!("{path}: {error}")),
        }
    }

    /// In one word, or with the kernel's reason.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Held { .. } => "held".to_owned(),
            Self::Absent => "absent".to_owned(),
            Self::Refused(reason) => format!("refused: {reason}"),
        }
    }
}
