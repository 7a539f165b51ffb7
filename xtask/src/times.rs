//! How long each test binary took, from what `cargo test` printed.

use std::fmt::Write;

/// Binaries that are named.
const NAMED: usize = 10;

/// One test binary, or the doc tests of a crate.
#[derive(Clone, Debug, PartialEq)]
pub struct Took {
    /// Its name, as `cargo test` prints it.
    pub name: String,
    /// How long its tests took.
    pub seconds: f64,
}

/// Every binary in `log`, the slowest first.
#[must_use]
pub fn took(log: &str) -> Vec<Took> {
    let (mut all, mut name) = (Vec::new(), None);
    for line in log.lines() {
        let line = line.trim();
        if let Some(running) = line.strip_prefix("Running ") {
            // `unittests src/lib.rs (target/debug/deps/freehold_core-0123456789abcdef)`: the binary names the crate.
            name = running.split_once('(').map(|(what, binary)| binary_name(what, binary));
        } else if let Some(documented) = line.strip_prefix("Doc-tests ") {
            name = Some(format!("{documented}, doc tests"));
        } else if line.starts_with("test result:")
            && let Some(seconds) = finished(line)
            && let Some(name) = name.take()
        {
            all.push(Took { name, seconds });
        }
    }
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all
}

/// The slowest binaries for a reader, and what all took together.
#[must_use]
pub fn page(all: &[Took]) -> String {
    let sum: f64 = all.iter().map(|one| one.seconds).sum();
    let mut text = format!("{} test binaries, {sum:.0} s together; the slowest:\n", all.len());
    for one in all.iter().take(NAMED) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:8.1} s  {}", one.seconds, one.name);
    }
    text
}

fn binary_name(what: &str, binary: &str) -> String {
    let file = binary.trim_end_matches(')').rsplit('/').next().unwrap_or(binary);
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    format!("{name}, {}", what.trim().trim_start_matches("unittests "))
}

fn finished(line: &str) -> Option<f64> {
    line.rsplit_once("finished in ")?.1.trim_end_matches('s').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "
   Compiling freehold-core v0.1.0
     Running unittests src/lib.rs (target/debug/deps/freehold_core-0f1e2d3c4b5a6978)

running 2 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s

     Running tests/firm.rs (target/debug/deps/firm-0f1e2d3c4b5a6978)
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 61.50s
   Doc-tests freehold_core
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s
     Running tests/killed.rs (target/debug/deps/killed-0f1e2d3c4b5a6978)
error: test failed, to rerun pass `--test killed`
";

    #[test]
    fn each_binary_is_told_the_slowest_first() {
        let names: Vec<(String, f64)> = took(LOG).into_iter().map(|one| (one.name, one.seconds)).collect();
        let expected = [
            ("firm, tests/firm.rs", 61.5),
            ("freehold_core, doc tests", 2.0),
            ("freehold_core, src/lib.rs", 0.25),
        ];
        assert_eq!(names, expected.map(|(name, seconds)| (name.to_owned(), seconds)));
    }

    #[test]
    fn ten_are_named_and_all_are_summed() {
        let one = |seconds: u32| Took {
            name: format!("t{seconds}"),
            seconds: f64::from(seconds),
        };
        let text = page(&(1..=12).rev().map(one).collect::<Vec<_>>());
        assert!(text.starts_with("12 test binaries, 78 s together"), "{text}");
        assert_eq!(text.lines().count(), 11);
        assert!(text.ends_with("     3.0 s  t3\n"), "{text}");
    }
}
