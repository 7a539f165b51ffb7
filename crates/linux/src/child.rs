//! Children of this process: those that end with it, and running a program to its end and what it took.

use crate::{Errno, sys};
use rustix::process::{Pid, Signal, getpid, getppid};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `command` to its end, all that it prints collected, and returns with it the largest resident size of it or of
/// one of the children it waited for, in KiB (`ru_maxrss`, getrusage(2)).
///
/// # Errors
/// Those of starting it and of reading from it.
pub fn measured_output(command: &mut Command) -> io::Result<(Output, u64)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let errors = child.stderr.take();
    let errors = std::thread::Builder::new().spawn(move || read(errors))?;
    let stdout = read(child.stdout.take());
    let stderr = errors.join().unwrap_or_else(|_| Ok(Vec::new()));
    // Waited for in any case: no process is left behind.
    let (status, peak) = wait(&child)?;
    let (stdout, stderr) = (stdout?, stderr?);
    Ok((Output { status, stdout, stderr }, peak))
}

/// Has the child that `command` will start be this process's own: what the terminal sends to its foreground group does
/// not reach the child, so that this process ends it; and see [`die_with_parent`].
pub fn end_with_parent(command: &mut Command, signal: Signal) {
    die_with_parent(command.process_group(0), signal);
}

/// Has the child that `command` will start be sent `signal` where the thread that starts it ends first, however that
/// ends.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let tie = move || tie_to(parent, signal);
    // SAFETY: `tie` makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
}

/// Async-signal-safe.
fn tie_to(parent: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: the call reads no memory of this process.
    sys::check_int(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.as_raw()) })?;
    // The parent ended before.
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(Errno::SRCH.into())
    }
}

/// Signals that are ignored: a bit for each, the first for number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored(u64);

/// What this process ignored as it was begun. The runtime ignores SIGPIPE before `main`, so it is noted before that.
static IGNORED: AtomicU64 = AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note_ignored;

/// Runs before the runtime of the language, on the one thread.
extern "C" fn note_ignored() {
    if cfg!(miri) {
        // It knows of no signals.
        return;
    }
    let ignored = (1..=64).filter(|signal| is_ignored(*signal));
    IGNORED.store(
        ignored.fold(0, |bits, signal| bits | 1 << (signal - 1)),
        Ordering::Relaxed,
    );
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a legal `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call only asks, and writes the one structure.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

impl Ignored {
    /// Those that this process ignored as it was begun.
    #[must_use]
    pub fn at_start() -> Self {
        // The function is named here so that no linker leaves it out.
        std::hint::black_box(NOTE);
        Self(IGNORED.load(Ordering::Relaxed))
    }

    /// Has the child that `command` will start ignore them, as it would had this process become it (exec(2)).
    pub fn pass_on(self, command: &mut Command) {
        if self.0 == 0 {
            return;
        }
        let ignore = move || {
            for signal in (1..=64).filter(|signal| self.0 >> (signal - 1) & 1 != 0) {
                // SAFETY: changes nothing but what becomes of the signal in the child. Where it is refused it is
                // one that cannot be ignored.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
            }
            Ok(())
        };
        // SAFETY: `ignore` makes system calls, allocates nothing and takes no lock.
        unsafe { command.pre_exec(ignore) };
    }
}

fn read(from: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes))?;
    Ok(bytes)
}

fn wait(child: &Child) -> io::Result<(ExitStatus, u64)> {
    let process = libc::pid_t::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut status = 0;
    // SAFETY: all zeros is a legal `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the pointers are to live values of the right types, written before the call returns.
        let waited = unsafe { libc::wait4(process, &raw mut status, 0, &raw mut usage) };
        if waited == process {
            let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0);
            return Ok((ExitStatus::from_raw(status), peak));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{end_with_parent, measured_output};
    use rustix::process::{Signal, getpgid};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_child_of_ours_has_a_group_of_its_own_and_ends_with_its_parent() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let parent = std::thread::spawn(move || {
            let mut command = Command::new("sleep");
            end_with_parent(command.arg("60"), Signal::TERM);
            let child = command.spawn().expect("a child");
            let pid = rustix::process::Pid::from_child(&child);
            sender
                .send((child, getpgid(Some(pid)).ok() == Some(pid)))
                .expect("a listener");
        });
        let (mut child, leads) = receiver.recv().expect("a child");
        parent.join().expect("no panic");
        assert!(leads);
        assert_eq!(child.wait().expect("a child").signal(), Some(15));
    }

    #[test]
    fn everything_is_collected_and_measured() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo error >&2; exit 3"]);
        let (output, peak) = measured_output(&mut command).expect("a shell");
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"out\n"[..], &b"error\n"[..])
        );
        assert_eq!(output.status.code(), Some(3));
        assert!((100..1_000_000).contains(&peak), "{peak} KiB for a shell");
    }
}
