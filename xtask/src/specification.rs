//! Every number of SPECIFICATION.md names what measures it, and that is there.
//!
//! A row of a table names a command or a test in its column `where`, `command` or `enforced by`. Where the table has
//! none of these, its first column names a benchmark or an experiment. "The same" is the row above.

use crate::Finding;
use crate::documents::Present;
use crate::walk::File;

const NAME: &str = "SPECIFICATION.md";
const SOURCES: &[&str] = &["where", "command", "enforced by"];
const RUNS: &[&str] = &["benchmark", "experiment"];

/// Rows that name no command and no test, or one that is not there.
pub(crate) fn check(files: &[File], present: &Present) -> Vec<Finding> {
    let Some(file) = files.iter().find(|file| file.name == NAME) else {
        return Vec::new();
    };
    let make = files
        .iter()
        .find(|file| file.name == "Makefile")
        .map_or("", |file| &file.text);
    let known = Known { present, make };
    check_text(&file.text, &known)
}

fn check_text(text: &str, known: &Known<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut table: Option<Result<Table, ()>> = None;
    for (at, line) in text.lines().enumerate() {
        if !line.starts_with('|') {
            table = None;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let what = match &mut table {
            None => {
                let begun = Table::new(&cells);
                let what = begun
                    .is_err()
                    .then(|| "a table without a column for commands, tests, benchmarks or experiments".to_owned());
                table = Some(begun);
                what
            }
            Some(Ok(table)) if !is_rule(&cells) => table.row(&cells, known),
            Some(_) => None,
        };
        findings.extend(what.map(|what| Finding {
            place: NAME.to_owned(),
            line: at + 1,
            what,
        }));
    }
    findings
}

/// Whether the cells are the line between a table's head and its rows.
fn is_rule(cells: &[&str]) -> bool {
    cells
        .iter()
        .all(|cell| !cell.is_empty() && cell.chars().all(|c| "-:".contains(c)))
}

/// Where the rows of a table name what measures them.
struct Table {
    column: usize,
    has_runs: bool,
    /// Whether a row has named something that a next one can mean by "the same".
    has_row: bool,
}

impl Table {
    fn new(head: &[&str]) -> Result<Self, ()> {
        let source = head.iter().position(|cell| SOURCES.contains(cell));
        let has_runs = source.is_none() && head.first().is_some_and(|cell| RUNS.contains(cell));
        let column = source.or(has_runs.then_some(0)).ok_or(())?;
        Ok(Self {
            column,
            has_runs,
            has_row: false,
        })
    }

    /// What is wrong with a row, if anything.
    fn row(&mut self, cells: &[&str], known: &Known<'_>) -> Option<String> {
        let cell = cells.get(self.column).copied().unwrap_or("");
        let codes: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if codes.is_empty() {
            let is_same = self.has_row && cell.starts_with("the same");
            return (!is_same).then(|| format!("the row names no {}: {cell:?}", self.kind()));
        }
        self.has_row = true;
        if self.has_runs {
            let name = codes[0];
            return (!known.present.has_string(name)).then(|| format!("no benchmark or experiment {name}"));
        }
        codes.into_iter().find_map(|code| known.missing(code))
    }

    fn kind(&self) -> &'static str {
        if self.has_runs {
            "benchmark or experiment"
        } else {
            "command or test"
        }
    }
}

/// Where names are looked up.
struct Known<'a> {
    present: &'a Present,
    make: &'a str,
}

impl Known<'_> {
    /// What a command or a name means that is not there.
    fn missing(&self, code: &str) -> Option<String> {
        let words: Vec<&str> = code.split_whitespace().collect();
        match words[..] {
            ["freehold", command, ..] => {
                let variant = capitalised(command);
                (!self.present.has_word(&variant)).then(|| format!("no command `freehold {command}`"))
            }
            ["make", target, ..] => {
                let rule = format!("{target}:");
                let is_there = self.make.lines().any(|line| line.starts_with(&rule));
                (!is_there).then(|| format!("no target `make {target}`"))
            }
            ["cargo", ..] | ["-p", ..] | ["--test" | "--lib", ..] => self.missing_test(&words),
            [name] => (!self.is_there(name)).then(|| format!("no `{name}` in the source")),
            _ => None,
        }
    }

    /// A package, a test, an example or a fuzz target of a `cargo` command that is not there.
    fn missing_test(&self, words: &[&str]) -> Option<String> {
        let mut rest = words.iter().copied();
        let mut is_test = false;
        while let Some(word) = rest.next() {
            match word {
                "--" => return None,
                "cargo" | "+nightly" | "run" | "test" | "fuzz" | "bench" | "--release" => {}
                "--lib" => is_test = true,
                "-p" => {
                    let package = rest.next()?;
                    if !self.present.has_package(package) {
                        return Some(format!("no package {package}"));
                    }
                }
                "--test" => {
                    is_test = true;
                    let name = rest.next()?;
                    if !self.present.has_test(name) {
                        return Some(format!("no test file {name}.rs"));
                    }
                }
                "--example" => {
                    let name = rest.next()?;
                    if !self.present.has_module(name) {
                        return Some(format!("no example {name}"));
                    }
                }
                name if (is_test || words.contains(&"fuzz")) && !self.present.has_name_with(name) => {
                    return Some(format!("nothing is called {name}"));
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a file, a folder, an item or a part of a path has this name.
    fn is_there(&self, name: &str) -> bool {
        let plain = name.trim_end_matches("()");
        self.present.has_file(plain) || self.present.has_item(plain) || self.present.has_folder(plain)
    }
}

/// `what-if` as the name of a variant: `WhatIf`.
fn capitalised(command: &str) -> String {
    let parts = command.split('-').map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file(NAME, text),
            file("Makefile", "fuzz: build\n\tcargo fuzz\n"),
            file(
                "crates/cli/src/main.rs",
                "enum Command { Bench, WhatIf } const RUN: &str = \"fault-soft\";\n",
            ),
            file("crates/core/Cargo.toml", "[package]\nname = \"freehold-core\"\n"),
            file(
                "crates/core/tests/firm.rs",
                "fn lends_all() {}\nconst BATCH: u32 = 1;\n",
            ),
            file("crates/pager/examples/faults.rs", ""),
        ];
        let findings = check(&files, &Present::new(&files));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_with_commands_and_tests_that_are_there_are_fine() {
        let text = "# S\n\n| what | where | value |\n|---|---|---|\n\
            | a | `freehold bench all`, `freehold what-if` | 1 |\n\
            | b | the same | 1 |\n| c | `cargo test -p freehold-core --test firm lends` | 1 |\n\
            | d | `make fuzz`; `BATCH` | 1 |\n\
            | e | `crates/core/tests` | 1 |\n| f | `cargo run --release -p freehold-core --example faults` | 1 |\n\n\
            | benchmark | ns |\n|---|---|\n| `fault-soft`, p50 | 1 |\n| the same, p99 | 2 |\n";
        assert_eq!(whats(text), Vec::<String>::new());
    }

    #[test]
    fn rows_without_are_found() {
        let text = "| what | where |\n|---|---|\n| a | the same |\n| b | by hand |\n| c | `freehold gone` |\n\
            | d | `cargo test -p gone` |\n| e | `--test gone` |\n| f | `--test firm gone` |\n| g | `make gone` |\n\
            | h | `GONE` |\n| i | `cargo run --example gone` |\n\n\
            | benchmark |\n|---|\n| `gone` |\n| |\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
        assert_eq!(
            whats(text),
            [
                "SPECIFICATION.md:3: the row names no command or test: \"the same\"",
                "SPECIFICATION.md:4: the row names no command or test: \"by hand\"",
                "SPECIFICATION.md:5: no command `freehold gone`",
                "SPECIFICATION.md:6: no package gone",
                "SPECIFICATION.md:7: no test file gone.rs",
                "SPECIFICATION.md:8: nothing is called gone",
                "SPECIFICATION.md:9: no target `make gone`",
                "SPECIFICATION.md:10: no `GONE` in the source",
                "SPECIFICATION.md:11: no example gone",
                "SPECIFICATION.md:15: no benchmark or experiment gone",
                "SPECIFICATION.md:16: the row names no benchmark or experiment: \"\"",
                "SPECIFICATION.md:18: a table without a column for commands, tests, benchmarks or experiments",
            ]
        );
    }
}
