//! What `freehold bench cbuf-passing` and `freehold reproduce tmem-table3` are compared with: the same by iceoryx2.
//! `FREEHOLD_ICEORYX2` names this program for them. It reads how often from each line of its standard input, works so
//! often, and answers by one line with the nanoseconds of each time.

mod buffers;
mod own;
mod passing;

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use iceoryx2::prelude::{LogLevel, set_log_level};

/// What ends this program.
type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: freehold-iceoryx2 passing | buffers";

fn main() -> Outcome<()> {
    // Standard output is for answers.
    set_log_level(LogLevel::Fatal);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["passing"] => passing::caller(),
        ["stage", run, at] => passing::stage(run, at.parse()?),
        ["buffers"] => buffers::perform(),
        _ => Err(USAGE.into()),
    }
}

/// Says that it is ready, then answers requests by the times of `event` until standard input ends.
fn answer(mut event: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        let count: u32 = line?.trim().parse()?;
        let mut times = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            event()?;
            times.push(begun.elapsed().as_nanos().to_string());
        }
        writeln!(output, "{}", times.join(" "))?;
        output.flush()?;
    }
    Ok(())
}
