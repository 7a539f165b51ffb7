//! Progress of what takes longer than a second, on standard error: a line that renews itself on a terminal, one plain
//! line otherwise.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);

/// Shows that something is under way until dropped.
#[derive(Debug)]
pub struct Progress {
    done: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins: `what` is shown after a second, `expected` beside it where known.
    pub fn start(what: &str, expected: Option<Duration>) -> Self {
        let (done, ended) = channel();
        let what = what.to_owned();
        let terminal = std::io::stderr().is_terminal();
        let tick = move || {
            let began = Instant::now();
            let mut shown = false;
            while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if terminal || !shown {
                    show(&what, began.elapsed(), expected, terminal);
                    shown = true;
                }
            }
            if terminal && shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        // Without a thread there is no progress to see, and nothing else is lost.
        let ticker = std::thread::Builder::new().name("progress".to_owned()).spawn(tick).ok();
        Self {
            done: Some(done),
            ticker,
        }
    }
}

fn show(what: &str, elapsed: Duration, expected: Option<Duration>, terminal: bool) {
    let of = expected
        .map(|expected| format!(" of about {} s", expected.as_secs_f64().ceil()))
        .unwrap_or_default();
    let line = format!("freehold: {what} .. {} s{of}", elapsed.as_secs());
    let (before, after) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{before}{line}{after}").and_then(|()| stderr.flush());
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.take();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}
