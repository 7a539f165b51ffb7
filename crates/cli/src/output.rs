//! Standard output carries the result and nothing else; everything else goes to standard error.

use std::io::{ErrorKind, Write};

use freehold_scenario::results;
use serde::Serialize;

use crate::status::Failure;

/// Prints `text` to standard output. A reader that has gone is not an error: it has seen enough.
///
/// # Errors
/// Any other failure to write.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints `document` as one JSON document.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = results::to_json(document).map_err(|error| Failure::Output(std::io::Error::other(error)))?;
    text.push('\n');
    print(&text)
}

/// Prints a line to standard error; where that is impossible, nobody is there to be told.
pub(crate) fn note(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{line}");
}

/// A time for a person: three digits and a unit.
pub(crate) fn human_time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(factor, _)| ns >= *factor) {
        Some((factor, unit)) => {
            let (whole, rest) = (ns / factor, ns % factor);
            match whole {
                0..10 => format!("{whole}.{:02} {unit}", rest * 100 / factor),
                10..100 => format!("{whole}.{} {unit}", rest * 10 / factor),
                _ => format!("{whole} {unit}"),
            }
        }
        None => format!("{ns} ns"),
    }
}

/// A number of pages for a person: pages, and MiB.
pub(crate) fn human_pages(pages: u64) -> String {
    let hundredths = pages * 100 / 256;
    format!("{pages} pages ({}.{:02} MiB)", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_pages() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.50 us"),
            (43_210_000, "43.2 ms"),
            (3_000_000_000, "3.00 s"),
        ] {
            assert_eq!(human_time(ns), text);
        }
        assert_eq!(human_pages(2816), "2816 pages (11.00 MiB)");
    }
}
