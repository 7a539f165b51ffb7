//! CAVEATS.md is a list: one fact a line or two, each section with its chapter, and no figures.
//!
//! A figure there grows old unseen, since nothing measures it. SPECIFICATION.md and `docs/results` have them.

use crate::Finding;
use crate::walk::File;

const NAME: &str = "CAVEATS.md";
const LONGEST_FACT: usize = 2;
const CHAPTERS: &str = "](docs/book/src/";
const UNITS: &[&str] = &[
    "%", "ns", "us", "µs", "ms", "s", "min", "KiB", "MiB", "GiB", "MB", "pages", "points", "times",
];

/// Sections without a chapter, facts that are too long, and figures.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let Some(file) = files.iter().find(|file| file.name == NAME) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut length = 0;
    for (at, line) in file.text.lines().enumerate() {
        let mut found = |what: String| {
            findings.push(Finding {
                place: NAME.to_owned(),
                line: at + 1,
                what,
            })
        };
        if line.starts_with("## ") && !line.contains(CHAPTERS) {
            found("the section names no chapter of docs/book".to_owned());
        }
        if let Some(figure) = figure_in(line) {
            found(format!(
                "a figure, {figure}: it belongs into SPECIFICATION.md or docs/results"
            ));
        }
        length = match line {
            line if line.starts_with("- ") => 1,
            line if line.starts_with("  ") => length + 1,
            _ => 0,
        };
        if length == LONGEST_FACT + 1 {
            found(format!("a fact of more than {LONGEST_FACT} lines"));
        }
    }
    findings
}

/// A number with a unit, outside of what is quoted.
fn figure_in(line: &str) -> Option<String> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = plain
        .split(|c: char| c.is_whitespace() || ",;:()".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if unit.len() == word.len() {
            return None;
        }
        let unit = unit.trim_end_matches('.');
        if UNITS.contains(&unit) {
            return Some((*word).to_owned());
        }
        let next = words.get(at + 1)?.trim_end_matches('.');
        (unit.is_empty() && UNITS.contains(&next)).then(|| format!("{word} {next}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        let file = File {
            name: NAME.to_owned(),
            text: text.to_owned(),
        };
        check(&[file]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn short_facts_with_a_chapter_are_fine() {
        let text = "# Caveats\n\n## A ([a](docs/book/src/a.md))\n\n- Linux before 6.4 and paper 001 `20 ms`.\n\
            - Two\n  lines.\n";
        assert_eq!(whats(text), Vec::<String>::new());
    }

    #[test]
    fn others_are_found() {
        let text = "## A\n- Takes 5.5 ms.\n- 20us, 3%.\n- A\n  b\n  c\n  d\n";
        assert_eq!(
            whats(text),
            [
                "CAVEATS.md:1: the section names no chapter of docs/book",
                "CAVEATS.md:2: a figure, 5.5 ms: it belongs into SPECIFICATION.md or docs/results",
                "CAVEATS.md:3: a figure, 20us: it belongs into SPECIFICATION.md or docs/results",
                "CAVEATS.md:6: a fact of more than 2 lines",
            ]
        );
    }
}
