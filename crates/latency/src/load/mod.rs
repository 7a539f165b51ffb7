//! What runs beside the measured thread, at no real-time priority, until it is told to stop.

mod flood;
mod kernel;
mod spin;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, AffinityError};

/// The subcommand that is to call [`serve`].
pub const SUBCOMMAND: &str = "latency-load";

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing: the CPU may sleep.
    None,
    /// A loop that touches no memory: the CPU never sleeps, and its caches stay.
    Spin,
    /// Every line of the first and second cache written, and the TLB and the instructions' cache filled, over and over.
    Flood,
    /// System calls of many kinds.
    Kernel,
    /// Both by turns.
    FloodKernel,
}

impl Load {
    /// All of them, as they are written.
    pub const ALL: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("spin", Self::Spin),
        ("flood", Self::Flood),
        ("kernel", Self::Kernel),
        ("flood+kernel", Self::FloodKernel),
    ];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, load)| *load == self)
            .map_or("none", |(name, _)| name)
    }
}

/// A load whose memory is there.
#[derive(Debug)]
struct Work {
    load: Load,
    flood: Option<flood::Flood>,
    kernel: Option<kernel::Kernel>,
}

impl Work {
    fn new(load: Load, cpu: usize) -> Result<Self, StartError> {
        let flood = matches!(load, Load::Flood | Load::FloodKernel).then(|| flood::Flood::new(cpu));
        let kernel = matches!(load, Load::Kernel | Load::FloodKernel).then(kernel::Kernel::new);
        Ok(Self {
            load,
            flood: flood.transpose().map_err(io::Error::from)?,
            kernel,
        })
    }

    /// Works on the calling thread until `stop` is set.
    fn run(mut self, stop: &AtomicBool) {
        while self.load != Load::None && !stop.load(Ordering::Relaxed) {
            if let Some(flood) = &mut self.flood {
                flood.round();
            }
            if let Some(kernel) = &mut self.kernel {
                kernel.round();
            }
            if self.load == Load::Spin {
                spin::round();
            }
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A word that names no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no load: write none, spin, flood, kernel or flood+kernel")]
pub struct LoadError(String);

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let known = Self::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, load)| *load).ok_or_else(|| LoadError(text.to_owned()))
    }
}

/// A load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The CPU is not there, or not allowed.
    #[error("the load cannot run on CPU {cpu}: {error}")]
    Cpu {
        /// Which.
        cpu: usize,
        /// The kernel's word.
        error: AffinityError,
    },
    /// The machine has no room for a thread, a process or their memory, or forbids making instructions.
    #[error("the load cannot be started: {0}")]
    Start(#[from] io::Error),
}

/// A load that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Running(#[expect(dead_code, reason = "ends the load when dropped")] Place);

#[derive(Debug)]
enum Place {
    Here { _thread: Stopped },
    There { _process: Ended },
}

impl Running {
    /// Starts a load on `cpu`, in this process.
    pub(crate) fn here(load: Load, cpu: usize) -> Result<Self, StartError> {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
            let work = place_and_prepare(load, cpu);
            let (ready, work) = match work {
                Ok(work) => (Ok(()), Some(work)),
                Err(error) => (Err(error), None),
            };
            let _ = send.send(ready);
            if let Some(work) = work {
                work.run(&theirs);
            }
        })?;
        let thread = Stopped {
            stop,
            thread: Some(thread),
        };
        match receive.recv() {
            Ok(Err(error)) => Err(error),
            _ => Ok(Self(Place::Here { _thread: thread })),
        }
    }

    /// Starts a load by `command`, which is to call [`serve`].
    pub(crate) fn there(mut command: Command) -> Result<Self, StartError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Ended { child, input };
        let mut ready = [0];
        match output.map(|mut output| output.read_exact(&mut ready)) {
            Some(Ok(())) => Ok(Self(Place::There { _process: process })),
            _ => Err(io::Error::other("its process ended before it ran").into()),
        }
    }
}

/// Puts the calling thread on its CPU, and makes what it works on.
fn place_and_prepare(load: Load, cpu: usize) -> Result<Work, StartError> {
    sched::pin(ThreadId::current(), cpu).map_err(|error| StartError::Cpu { cpu, error })?;
    Work::new(load, cpu)
}

#[derive(Debug)]
struct Stopped {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Debug)]
struct Ended {
    child: Child,
    input: Option<ChildStdin>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        // The end of its input ends it, also where this process is killed.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The command that runs a load on `cpu` by [`serve`]: a subcommand of `freehold`, whose file is `executable`.
#[must_use]
pub fn command(executable: &Path, load: Load, cpu: usize) -> Command {
    let mut command = Command::new(executable);
    command.arg(SUBCOMMAND).arg(load.name()).arg(cpu.to_string());
    command
}

/// Runs a load on `cpu` until the end of standard input. Says by a byte on standard output that it runs.
///
/// # Errors
/// [`StartError`]: the CPU is not allowed, or there is no memory, or no thread to wait for the end of the input.
pub fn serve(load: Load, cpu: usize) -> Result<(), StartError> {
    let work = place_and_prepare(load, cpu)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let waiter = std::thread::Builder::new().spawn(move || {
        // Whatever it says, an error too, it is the end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        theirs.store(true, Ordering::Relaxed);
    })?;
    let mut output = io::stdout();
    output.write_all(b".")?;
    output.flush()?;
    work.run(&stop);
    let _ = waiter.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Load;

    #[test]
    fn each_load_is_read_as_it_is_written() {
        for (name, load) in Load::ALL {
            assert_eq!(name.parse(), Ok(load));
            assert_eq!(load.to_string(), name);
        }
        assert!("flood,spin".parse::<Load>().is_err());
    }
}
