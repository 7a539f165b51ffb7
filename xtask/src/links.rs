//! Documents lead somewhere: links have targets, the book's summary has every chapter, the map fits on a few pages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Finding;
use crate::walk::File;

const MAP: &str = "ARCHITECTURE.md";
/// What a reader takes in at one sitting.
const LARGEST_MAP: usize = 12 * 1024;
const CHAPTERS: &str = "docs/book/src/";
const SUMMARY: &str = "docs/book/src/SUMMARY.md";

/// Links without a target, chapters that the summary does not name or names twice, and a map that is too long.
pub(crate) fn check(root: &Path, files: &[File]) -> Vec<Finding> {
    let documents: Vec<&File> = files.iter().filter(|file| file.name.ends_with(".md")).collect();
    let mut findings: Vec<Finding> = documents
        .iter()
        .flat_map(|file| missing_targets(file, &documents, &|path| root.join(path).exists()))
        .collect();
    findings.extend(unnamed_chapters(&documents));
    findings.extend(too_long(&documents));
    findings
}

fn finding(place: &str, line: usize, what: String) -> Finding {
    Finding {
        place: place.to_owned(),
        line,
        what,
    }
}

/// Links of `file` to files or headings that are not there.
fn missing_targets(file: &File, documents: &[&File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() {
            Some(file.name.clone())
        } else {
            joined(&file.name, path)
        };
        let Some(path) = path.filter(|path| exists(path)) else {
            findings.push(finding(&file.name, line, format!("the link to {target} leads nowhere")));
            continue;
        };
        let there = documents.iter().find(|document| document.name == path);
        if !anchor.is_empty() && there.is_some_and(|document| !anchors(&document.text).contains(anchor)) {
            findings.push(finding(&file.name, line, format!("{path} has no heading #{anchor}")));
        }
    }
    findings
}

/// The targets of the links of a document, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        found.extend(line.split("](").skip(1).filter_map(|rest| {
            let (target, _) = rest.split_once(')')?;
            Some((at, target))
        }));
    }
    found
}

/// The lines outside blocks of code, numbered from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// The headings of a document, as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// `path` as seen from the file `from`; nothing where it leaves the workspace.
fn joined(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Chapters of the book that its summary does not name exactly once.
fn unnamed_chapters(documents: &[&File]) -> Vec<Finding> {
    let Some(summary) = documents.iter().find(|file| file.name == SUMMARY) else {
        return Vec::new();
    };
    let named: Vec<String> = links(&summary.text)
        .into_iter()
        .filter_map(|(_, target)| joined(SUMMARY, target))
        .collect();
    let chapters = documents
        .iter()
        .filter(|file| file.name.starts_with(CHAPTERS) && file.name != SUMMARY);
    chapters
        .filter_map(
            |chapter| match named.iter().filter(|name| **name == chapter.name).count() {
                1 => None,
                0 => Some(finding(&chapter.name, 0, "not in the book's summary".to_owned())),
                _ => Some(finding(&chapter.name, 0, "twice in the book's summary".to_owned())),
            },
        )
        .collect()
}

fn too_long(documents: &[&File]) -> Option<Finding> {
    let map = documents.iter().find(|file| file.name == MAP)?;
    let length = map.text.len();
    (length > LARGEST_MAP).then(|| {
        let what = format!("{length} bytes, more than {LARGEST_MAP}: the book has the rest");
        finding(MAP, 0, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> File {
        File {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    fn whats(files: &[File]) -> Vec<String> {
        let documents: Vec<&File> = files.iter().collect();
        let exists = |path: &str| path == "crates" || files.iter().any(|file| file.name == path);
        let mut findings: Vec<Finding> = documents
            .iter()
            .flat_map(|file| missing_targets(file, &documents, &exists))
            .collect();
        findings.extend(unnamed_chapters(&documents));
        findings.extend(too_long(&documents));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_with_targets_are_fine() {
        let one = file(
            "docs/book/src/a/one.md",
            "# One, `x::y` and more\n[two](../two.md#its-end), [top](../../../../README.md), [self](#one-xy-and-more), \
             [out](https://example.org/#x), [folder](../../../../crates)\n```\n[not](a-link)\n```\n",
        );
        let two = file("docs/book/src/two.md", "# Two\n```\n# no heading\n```\n## Its end\n");
        let summary = file(SUMMARY, "[one](a/one.md)\n[two](two.md)\n");
        assert_eq!(whats(&[one, two, summary, file("README.md", "")]), Vec::<String>::new());
    }

    #[test]
    fn links_without_are_found() {
        let text = "[a](gone.md)\n[b](../../../../out.md) [c](#gone)\n[d](one.md#gone)\n```\n# gone\n```\n";
        let found = whats(&[file("docs/book/src/one.md", text), file(SUMMARY, "[one](one.md)\n")]);
        assert_eq!(
            found,
            [
                "docs/book/src/one.md:1: the link to gone.md leads nowhere",
                "docs/book/src/one.md:2: the link to ../../../../out.md leads nowhere",
                "docs/book/src/one.md:2: docs/book/src/one.md has no heading #gone",
                "docs/book/src/one.md:3: docs/book/src/one.md has no heading #gone",
            ]
        );
    }

    #[test]
    fn a_chapter_is_in_the_summary_once() {
        let chapters = [
            file("docs/book/src/one.md", ""),
            file("docs/book/src/x/two.md", ""),
            file("docs/book/src/three.md", ""),
            file(SUMMARY, "[1](one.md) [2](x/two.md) [2](./x/two.md)\n"),
        ];
        assert_eq!(
            whats(&chapters),
            [
                "docs/book/src/x/two.md: twice in the book's summary",
                "docs/book/src/three.md: not in the book's summary",
            ]
        );
    }

    #[test]
    fn the_map_stays_short() {
        let of = |length: usize| whats(&[file(MAP, &"x".repeat(length))]).len();
        assert_eq!((of(LARGEST_MAP), of(LARGEST_MAP + 1)), (0, 1));
    }
}
