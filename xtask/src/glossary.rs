//! The glossary's words are the words that are used: each stands in the source or in a document, and has one meaning
//! under each heading.

use std::collections::BTreeMap;

use crate::Finding;
use crate::walk::File;

const NAME: &str = "docs/book/src/glossary.md";

/// Words of the glossary that nothing uses, or that it defines twice under one heading.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let Some(glossary) = files.iter().find(|file| file.name == NAME) else {
        return Vec::new();
    };
    let others: Vec<String> = files
        .iter()
        .filter(|file| file.name != NAME && (file.name.ends_with(".rs") || file.name.ends_with(".md")))
        .map(|file| file.text.to_lowercase())
        .collect();
    let mut findings = Vec::new();
    let mut defined: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut heading = "";
    for (at, line) in glossary.text.lines().enumerate() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let mut found = |what: String| {
            findings.push(Finding {
                place: NAME.to_owned(),
                line: at + 1,
                what,
            })
        };
        for word in words(line) {
            if !others.iter().any(|text| uses(text, &word)) {
                found(format!("nothing uses the word {word:?}"));
            }
            if let Some(before) = defined.insert((heading.to_owned(), word.clone()), at + 1) {
                found(format!("{word:?} stands in line {before} already"));
            }
        }
    }
    findings
}

/// The words that a row of a table defines, in small letters.
fn words(line: &str) -> Vec<String> {
    let first = line.strip_prefix("| ").and_then(|row| row.split(" |").next());
    let cell = first.filter(|cell| *cell != "Word").unwrap_or("");
    let words = cell.split(", ").map(|word| word.trim_matches('`').to_lowercase());
    words.filter(|word| !word.is_empty()).collect()
}

/// Whether a text has the word: with a blank, an underscore or nothing between its parts.
fn uses(text: &str, word: &str) -> bool {
    let forms = [word.to_owned(), word.replace(' ', "_"), word.replace([' ', '-'], "")];
    forms.iter().any(|form| text.contains(form.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_nothing_uses_or_that_stand_twice_are_found() {
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let text = "# Glossary\n\n## A\n\n| Word | Meaning |\n|---|---|\n| swap budget, `none` | x |\n\
            | zero-fill | x |\n\
            | gone | x |\n| none | y |\n\n## B\n\n| none | z |\n";
        let files = [
            file(NAME, text),
            file("crates/core/src/a.rs", "swap_budget(); ZeroFill; // `none`\n"),
        ];
        let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/book/src/glossary.md:9: nothing uses the word \"gone\"",
                "docs/book/src/glossary.md:10: \"none\" stands in line 7 already",
            ]
        );
    }
}
