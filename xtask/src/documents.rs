//! What documents name is there: source files, items of the source, tests, commands and what they measure.
//!
//! A document that names a file that was renamed, or a run of an experiment that has gone, misleads whoever looks it
//! up. Only what stands between backticks, or behind `--test`, `bench` and `reproduce`, is a name; words are not.

use std::collections::BTreeSet;

use crate::Finding;
use crate::walk::File;

/// Paths of documents that tell what was: what they name need not be there any more.
const PAST: &[&str] = &["CHANGELOG.md", "docs/book/src/notes.md", "docs/results/"];
/// Endings of files that a document may name.
const SOURCE: &[&str] = &[".rs", ".toml", ".sh"];

/// What the workspace has, to look names up in.
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// Paths of all text files.
    paths: Vec<String>,
    /// Every word of the Rust source that can be a name.
    words: BTreeSet<String>,
    /// Every string of the Rust source without blanks.
    strings: BTreeSet<String>,
    /// The packages of the workspace.
    packages: BTreeSet<String>,
}

impl Present {
    /// Of these files.
    pub(crate) fn new(files: &[File]) -> Self {
        let mut present = Self::default();
        for file in files {
            present.paths.push(file.name.clone());
            if file.name.ends_with("Cargo.toml") {
                let mut names = file.text.lines().filter_map(|line| line.strip_prefix("name = "));
                let package = names.next().map(|name| name.trim_matches('"').to_owned());
                present.packages.extend(package);
            }
            if file.name.ends_with(".rs") && !file.name.starts_with("xtask/") {
                present.words.extend(words(&file.text).map(str::to_owned));
                let quoted = file.text.split('"').filter(is_name);
                present.strings.extend(quoted.map(str::to_owned));
            }
        }
        present
    }

    /// Whether a path, or the end of one, is that of a file.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        let end = format!("/{path}");
        self.paths.iter().any(|found| found == path || found.ends_with(&end))
    }

    /// Whether every part of `module::item` stands in the source, as an item, a module or a crate.
    pub(crate) fn has_item(&self, path: &str) -> bool {
        path.split("::").all(|part| {
            let part = part.strip_prefix("freehold_").unwrap_or(part);
            self.words.contains(part) || self.has_module(part)
        })
    }

    /// Whether a crate, a folder or a file of this name is there.
    pub(crate) fn has_module(&self, name: &str) -> bool {
        let file = format!("{name}.rs");
        let is_it = |part: &str| part == name || part == file;
        self.paths.iter().any(|path| path.split('/').any(is_it))
    }

    pub(crate) fn has_test(&self, name: &str) -> bool {
        self.has_file(&format!("tests/{name}.rs")) || self.has_file(&format!("tests/{name}/main.rs"))
    }

    /// Whether some file lies in a folder of this path, or of this end of one.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let (begin, middle) = (format!("{path}/"), format!("/{path}/"));
        self.paths
            .iter()
            .any(|found| found.starts_with(&begin) || found.contains(&middle))
    }

    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.packages.contains(name)
    }

    /// Whether a word of the source is this.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Whether a string of the source is this.
    pub(crate) fn has_string(&self, string: &str) -> bool {
        self.strings.contains(string)
    }

    /// Whether a function, a module or a file has `part` in its name, as a filter of tests does.
    pub(crate) fn has_name_with(&self, part: &str) -> bool {
        self.words.iter().any(|word| word.contains(part)) || self.has_module(part)
    }
}

/// What the document `name` names that is not there.
pub(crate) fn check(name: &str, text: &str, present: &Present) -> Vec<Finding> {
    if !name.ends_with(".md") || PAST.iter().any(|past| name.starts_with(past)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let missing = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|code| missing_name(code, present));
        findings.extend(missing.chain(missing_runs(line, present)).map(|what| Finding {
            place: name.to_owned(),
            line: at + 1,
            what,
        }));
    }
    findings
}

/// What is wrong with what stands between backticks: a source file or an item that is not there.
fn missing_name(code: &str, present: &Present) -> Option<String> {
    let (file, item) = code
        .split_once(".rs::")
        .map_or((code, None), |(file, item)| (&code[..file.len() + 3], Some(item)));
    let is_file = SOURCE.iter().any(|end| file.len() > end.len() && file.ends_with(end));
    // An absolute path is another machine's, and a name in capitals stands for any.
    let is_ours = is_path(file) && !file.starts_with('/') && !file.chars().any(char::is_uppercase);
    if is_file && is_ours {
        let item = item
            .filter(|item| is_path(item))
            .map(|item| item.trim_end_matches("()"));
        return if !present.has_file(file) {
            Some(format!("no file `{file}`"))
        } else {
            item.filter(|item| !present.has_item(item))
                .map(|item| format!("`{file}` has no `{item}`"))
        };
    }
    let item = code.trim_end_matches("()");
    let is_item = item.contains("::") && item.split("::").all(is_word);
    (is_item && !present.has_item(item)).then(|| format!("no item `{item}` in the source"))
}

/// Tests, benchmarks and experiments that a line says were run, and that are not there.
fn missing_runs<'a>(line: &'a str, present: &'a Present) -> impl Iterator<Item = String> + 'a {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "`,;:()".contains(c))
        .collect();
    let pairs: Vec<(&str, &str)> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter().filter_map(|(before, name)| {
        let name = name.trim_end_matches('.');
        match before {
            "--test" if is_word(name) && !present.has_test(name) => Some(format!("no test file {name}.rs")),
            "bench" | "reproduce" if is_run(name) && !present.strings.contains(name) => {
                Some(format!("no {before} {name}"))
            }
            _ => None,
        }
    })
}

/// Whether a word is the name of a benchmark or an experiment: they have a hyphen, which words of a sentence have not.
fn is_run(name: &str) -> bool {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    plain && name.contains('-') && !name.starts_with('-') && !name.ends_with('-')
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_path(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:()".contains(c))
}

fn is_name(text: &&str) -> bool {
    !text.is_empty() && text.len() < 60 && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The words of a source that can be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present() -> Present {
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        Present::new(&[
            file(
                "crates/core/src/sharing/spc.rs",
                "struct Owner; fn pass_on() { run(\"app-fig1\") }\n",
            ),
            file("crates/core/tests/firm.rs", "#[test]\nfn lends() {}\n"),
            file("scenarios/one.toml", ""),
        ])
    }

    fn whats(line: &str) -> Vec<String> {
        let found = check("docs/book/src/a.md", &format!("{line}\n"), &present());
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        for line in [
            "`sharing/spc.rs`, `spc.rs::pass_on`, `Owner::pass_on()`, `core::sharing` and `scenarios/one.toml`",
            "seen with `cargo test -p freehold-core --test firm` and `freehold reproduce app-fig1`",
            "a bench is there to reproduce a well-known figure; `a::b c`; `*.rs`; `/etc/x.toml`; `NAME.toml`s",
            "`--set key=value`, `a-b`, `x.md`, `5::7 of them`",
        ] {
            assert_eq!(whats(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn what_is_not_there_may_not() {
        assert_eq!(whats("see `sharing/gone.rs`"), ["no file `sharing/gone.rs`"]);
        assert_eq!(whats("see `spc.rs::gone`"), ["`spc.rs` has no `gone`"]);
        assert_eq!(whats("see `Owner::gone`"), ["no item `Owner::gone` in the source"]);
        assert_eq!(whats("see `gone::Owner`"), ["no item `gone::Owner` in the source"]);
        assert_eq!(whats("`cargo test --test gone`"), ["no test file gone.rs"]);
        assert_eq!(whats("by `freehold reproduce app-gone`,"), ["no reproduce app-gone"]);
        assert_eq!(whats("bench evict-gone: 3 us"), ["no bench evict-gone"]);
    }

    #[test]
    fn what_was_may_be_named_where_the_past_is_told() {
        let line = "`gone.rs`, reproduce app-gone\n";
        assert!(check("CHANGELOG.md", line, &present()).is_empty());
        assert!(check("crates/core/src/lib.rs", line, &present()).is_empty());
        assert_eq!(check("ARCHITECTURE.md", line, &present()).len(), 2);
    }
}
