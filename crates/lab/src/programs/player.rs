//! A movie player whose frames are timed: it says each on its standard output, and the moment is noted.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use freehold_linux::child::end_with_parent;
use rustix::process::Signal;

use freehold_command::exit_status::Failure;
use freehold_command::process;

/// How often who waits for a frame looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long a player may show no frame until it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A player that runs until this value is dropped, or by itself.
#[derive(Debug)]
pub(crate) struct Player {
    child: Child,
    shown: Arc<Mutex<Vec<Instant>>>,
    reader: Option<JoinHandle<()>>,
}

impl Player {
    /// Starts it. `command` is mplayer, perhaps under something that leaves its output alone.
    ///
    /// # Errors
    /// A program that cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        end_with_parent(command, Signal::TERM);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| Failure::Run(format!("{name} cannot be started: {error}")))?;
        let shown = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stdout.take().map(|output| {
            let shown = Arc::clone(&shown);
            std::thread::spawn(move || note_frames(output, &shown))
        });
        Ok(Self { child, shown, reader })
    }

    /// How many frames it has shown.
    pub(crate) fn frames(&self) -> usize {
        lock(&self.shown).len()
    }

    /// Waits until it has shown so many frames; false where it ends before.
    ///
    /// # Errors
    /// A stop, or a player that shows no frame for a minute.
    pub(crate) fn reach(&mut self, frames: usize, stop: &AtomicBool) -> Result<bool, Failure> {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let now = self.frames();
            if now >= frames {
                return Ok(true);
            }
            if now > seen {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return Err(Failure::Run(format!("the player has stopped at frame {now}")));
            }
            if self.has_ended()? {
                return Ok(self.frames() >= frames);
            }
            process::pause(LOOK, stop)?;
        }
    }

    /// Whether it has ended, and well.
    ///
    /// # Errors
    /// A player that failed.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(true),
            Ok(Some(status)) => Err(Failure::Run(format!("the player failed: {status}"))),
            Err(error) => Err(Failure::Run(format!("the player cannot be waited for: {error}"))),
        }
    }

    /// Waits for its end: the time from each frame to the next, in nanoseconds, the first of them 0.
    ///
    /// # Errors
    /// A stop, or a player that failed.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<Vec<u64>, Failure> {
        while !self.has_ended()? {
            process::pause(LOOK, stop)?;
        }
        self.join();
        let shown = lock(&self.shown);
        let between = |pair: &[Instant]| match pair {
            [before, after] => u64::try_from(after.duration_since(*before).as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        };
        let first = if shown.is_empty() { None } else { Some(0) };
        Ok(first.into_iter().chain(shown.windows(2).map(between)).collect())
    }

    fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            // It ends with the output; a panic there would have lost frames, which the count shows.
            let _ = reader.join();
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        process::end(&mut self.child);
        self.join();
    }
}

fn lock(shown: &Mutex<Vec<Instant>>) -> MutexGuard<'_, Vec<Instant>> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the output to its end.
fn note_frames(mut output: ChildStdout, shown: &Mutex<Vec<Instant>>) {
    let mut buffer = [0; 4096];
    let mut lines = StatusLines::default();
    while let Ok(read) = output.read(&mut buffer) {
        if read == 0 {
            break;
        }
        let now = Instant::now();
        let frames = lines.count(buffer.get(..read).unwrap_or_default());
        lock(shown).extend(std::iter::repeat_n(now, frames));
    }
}

/// Counts mplayer's status lines: each begins with `V:`, which no other line of its does.
#[derive(Debug, Default)]
struct StatusLines {
    /// Bytes of the present line that have been read, as far as they matter.
    line: Vec<u8>,
}

impl StatusLines {
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut found = 0;
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => self.line.clear(),
                _ if self.line.len() < 2 => {
                    self.line.push(*byte);
                    found += usize::from(self.line == b"V:");
                }
                _ => {}
            }
        }
        found
    }
}

/// The movie player of the experiments under something else: `wrapper` and its arguments come before it.
pub(crate) fn under(wrapper: &[&OsStr], player: &Command) -> Option<Command> {
    let (program, arguments) = wrapper.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(player.get_program())
        .args(player.get_args());
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_line_is_a_frame_however_it_arrives() {
        let text = b"Movie-Aspect is 1.78:1\nVO: [null] 1280x720\nV:   0.0   1/  1 ??% \rV:   0.0   2/  2 V: \rV\r";
        assert_eq!(StatusLines::default().count(text), 2);
        let mut lines = StatusLines::default();
        let found: usize = text.iter().map(|byte| lines.count(&[*byte])).sum();
        assert_eq!(found, 2);
    }

    #[test]
    fn frames_are_noted_until_the_end_and_a_failure_is_one() {
        let stop = AtomicBool::new(false);
        let mut command = Command::new("printf");
        command.arg("V: 1\\rV: 2\\rV: 3\\r");
        let mut player = Player::start(&mut command).unwrap();
        assert!(!player.reach(4, &stop).unwrap());
        let times = player.finish(&stop).unwrap();
        assert_eq!((times.len(), times[0]), (3, 0));
        let failing = Player::start(&mut Command::new("false")).unwrap();
        assert!(matches!(failing.finish(&stop), Err(Failure::Run(_))));
    }

    #[test]
    fn a_wrapper_comes_before_the_player_and_its_arguments() {
        let mut player = Command::new("mplayer");
        player.arg("clip");
        let command = under(&[OsStr::new("exec"), OsStr::new("--")], &player).unwrap();
        let arguments: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(
            (command.get_program(), arguments),
            (OsStr::new("exec"), ["--", "mplayer", "clip"].map(OsStr::new).to_vec())
        );
    }
}
