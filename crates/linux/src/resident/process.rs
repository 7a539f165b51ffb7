//! A process as `/proc` shows it, held so that its number cannot come to mean another one.

use super::area::{self, Area};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// A process that is looked at. It does not keep the process from ending.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// Its folder in `/proc`. Once the process is gone, what is in there cannot be opened any more, whoever has its
    /// number then.
    folder: File,
}

/// Why a process cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// There is none with this number.
    #[error("there is no process {pid}")]
    Absent {
        /// The number asked for.
        pid: u32,
    },
    /// It ended while it was looked at.
    #[error("process {pid} has ended")]
    Ended {
        /// Its number.
        pid: u32,
    },
    /// It has no memory of its own: a thread of the kernel, or a process that has ended and was not waited for.
    #[error("process {pid} has no memory: it is a thread of the kernel, or has ended and was not waited for yet")]
    NoMemory {
        /// Its number.
        pid: u32,
    },
    /// It belongs to somebody else, or has rights that the caller has not.
    #[error(
        "process {pid} may not be looked at: it belongs to user {owner}; it takes that user, or CAP_SYS_PTRACE, and no \
         fewer rights than the process has"
    )]
    Forbidden {
        /// Its number.
        pid: u32,
        /// The user it runs as.
        owner: u32,
    },
    /// A file of it cannot be read.
    #[error("/proc/{pid}/{file} cannot be read: {reason}")]
    Unreadable {
        /// Its number.
        pid: u32,
        /// The file.
        file: &'static str,
        /// What the system said.
        reason: String,
    },
}

impl Process {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// [`ProcessError::Absent`], [`ProcessError::Unreadable`].
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        match File::open(format!("/proc/{pid}")) {
            Ok(folder) => Ok(Self { pid, folder }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(ProcessError::Absent { pid }),
            Err(error) => Err(ProcessError::Unreadable {
                pid,
                file: "",
                reason: error.to_string(),
            }),
        }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What its first thread is called: at most 15 bytes of the program's name, or what it gave itself.
    ///
    /// # Errors
    /// [`ProcessError::Ended`], [`ProcessError::Unreadable`].
    pub fn name(&self) -> Result<String, ProcessError> {
        let mut text = Vec::new();
        self.read("comm", &mut text)?;
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned())
    }

    /// Its mappings, with what the kernel sums up for each.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn areas(&self) -> Result<Vec<Area>, ProcessError> {
        let mut text = Vec::new();
        self.read("smaps", &mut text)?;
        let areas = area::parse(&String::from_utf8_lossy(&text));
        if areas.is_empty() {
            return Err(if self.is_there() {
                ProcessError::NoMemory { pid: self.pid }
            } else {
                ProcessError::Ended { pid: self.pid }
            });
        }
        Ok(areas)
    }

    /// Opens one of its files.
    pub(super) fn open_file(&self, file: &'static str) -> Result<File, ProcessError> {
        File::open(self.path(file)).map_err(|error| self.explain(file, &error))
    }

    fn read(&self, file: &'static str, content: &mut Vec<u8>) -> Result<(), ProcessError> {
        let read = self.open_file(file)?.read_to_end(content);
        read.map(|_| ()).map_err(|error| self.explain(file, &error))
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/self/fd/{}/{file}", self.folder.as_raw_fd())
    }

    /// Whether its number still means it.
    fn is_there(&self) -> bool {
        std::fs::metadata(self.path("comm")).is_ok()
    }

    pub(super) fn explain(&self, file: &'static str, error: &std::io::Error) -> ProcessError {
        let pid = self.pid;
        if !self.is_there() {
            return ProcessError::Ended { pid };
        }
        match self.folder.metadata() {
            // The folder belongs to root where the program has more rights than its user.
            Ok(folder) if error.kind() == ErrorKind::PermissionDenied => ProcessError::Forbidden {
                pid,
                owner: folder.uid(),
            },
            _ => ProcessError::Unreadable {
                pid,
                file,
                reason: error.to_string(),
            },
        }
    }
}
