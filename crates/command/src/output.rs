//! Standard output carries the result and nothing else; everything else goes to standard error.

use std::io::{ErrorKind, Write};

use freehold_protocol::shown::{is_unseen, shown};
use freehold_scenario::results;
use serde::Serialize;

use crate::exit_status::Failure;

/// Prints `text` to standard output. A reader that has gone is not an error: it has seen enough.
///
/// # Errors
/// Any other failure to write.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(lines(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints `document` as one JSON document.
///
/// # Errors
/// As [`print()`].
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = results::to_json(document).map_err(|error| Failure::Output(std::io::Error::other(error)))?;
    text.push('\n');
    print(&in_json(&text))
}

/// Text of which only the ends of lines and tabulators are not seen: names in it are others'.
fn lines(text: &str) -> String {
    let parts: Vec<String> = text
        .split_inclusive(['\n', '\t'])
        .map(|part| match part.char_indices().next_back() {
            Some((end, last @ ('\n' | '\t'))) => shown(&part[..end]).chain([last]).collect(),
            _ => shown(part).collect(),
        })
        .collect();
    parts.concat()
}

/// The same document with what is not seen written as JSON writes it by number: only strings have such characters.
fn in_json(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for character in document.chars() {
        if is_unseen(character) && character != '\n' {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(character);
        }
    }
    text
}

/// Prints a line to standard error; where that is impossible, nobody is there to be told.
pub fn note(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", lines(line));
}

/// A time for a person: three digits and a unit.
pub fn human_time(ns: u64) -> String {
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
pub fn human_pages(pages: u64) -> String {
    let hundredths = pages * 100 / 256;
    format!("{pages} pages ({}.{:02} MiB)", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_is_printed_moves_what_stands_around_it() {
        assert_eq!(lines("a\tb\u{202e}c\n\u{1b}[2Jd\n"), "a\tb\\u{202e}c\n\\u{1b}[2Jd\n");
        assert_eq!(lines("no end\u{2028}"), "no end\\u{2028}");
        let document = json!({"name": "x\u{202e}y\u{e0041}", "n": 1});
        let text = results::to_json(&document).unwrap();
        let printed = in_json(&text);
        assert!(!printed.chars().any(|c| is_unseen(c) && c != '\n'), "{printed}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), document);
    }

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
