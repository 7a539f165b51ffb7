//! Rules on the text of a file: size, banned words, `unsafe`.

use crate::Finding;

const MOST_LINES: usize = 500;
const WIDEST_LINE: usize = 120;
/// The crates that may contain `unsafe`.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/agent/",
    "crates/ecache/tests/",
    "crates/capi/",
    "crates/linux/",
    "crates/live/",
    "crates/pager/",
    "crates/shm/",
    "crates/tmem/",
    "crates/rtl/",
    "crates/core/tests/no_allocation.rs",
];
/// How many lines above an `unsafe` block its reason may begin.
const REASON_WITHIN: usize = 12;

/// Every broken rule.
pub(crate) fn check(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |line: usize, what: String| {
        findings.push(Finding {
            place: name.to_owned(),
            line,
            what,
        })
    };
    let rust = name.ends_with(".rs");
    let lines: Vec<&str> = text.lines().collect();
    if rust && lines.len() > MOST_LINES {
        found(0, format!("{} lines, more than {MOST_LINES}: split it", lines.len()));
    }
    for (at, line) in lines.iter().enumerate() {
        if rust && line.chars().count() > WIDEST_LINE {
            found(at + 1, format!("wider than {WIDEST_LINE} characters"));
        }
        for word in banned(rust) {
            if line.contains(&word) {
                found(at + 1, format!("`{word}` is not allowed"));
            }
        }
        if rust && let Some(what) = unsafe_rule(name, &lines, at) {
            found(at + 1, what);
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found(lines.len(), "no newline at the end".to_owned());
    }
    findings
}

/// What must not occur, put together here so that this file does not contain it.
fn banned(rust: bool) -> Vec<String> {
    let mut words: Vec<String> = ["FIX|ME", "/wo|rk/", "/ro|ot/", "/ho|me/", "description = \"TO|DO\""]
        .map(|word| word.replace('|', ""))
        .to_vec();
    if rust {
        words.extend(["to|do!", "unimple|mented!", "#[ign|ore", "db|g!("].map(|word| word.replace('|', "")));
    }
    words
}

/// What is wrong with the `unsafe` on this line, if anything.
fn unsafe_rule(name: &str, lines: &[&str], at: usize) -> Option<String> {
    let code = code_of(lines[at]);
    let is_block = has_word_before(code, " {") || has_word_before(code, " impl");
    let is_unsafe = is_block
        || [" fn", " extern", " trait"]
            .iter()
            .any(|after| has_word_before(code, after));
    if !is_unsafe {
        return None;
    }
    if !MAY_BE_UNSAFE.iter().any(|allowed| name.starts_with(allowed)) {
        return Some(format!("`{UNSAFE}` is allowed in {} only", MAY_BE_UNSAFE.join(", ")));
    }
    if is_block && !has_reason(lines, at) {
        return Some(format!("`{UNSAFE}` without a SAFETY: comment just above"));
    }
    None
}

const UNSAFE: &str = "unsafe";

fn has_word_before(code: &str, after: &str) -> bool {
    code.match_indices(UNSAFE).any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let boundary = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        boundary && code[at + word.len()..].starts_with(after)
    })
}

/// The line without its comment and without what follows the first quotation mark.
fn code_of(line: &str) -> &str {
    let code = line.split("//").next().unwrap_or(line);
    code.split('"').next().unwrap_or(code)
}

/// Whether a `SAFETY:` comment stands above, before the first blank line.
fn has_reason(lines: &[&str], at: usize) -> bool {
    if lines[at].contains("SAFETY:") {
        return true;
    }
    let above = lines[..at].iter().rev().take(REASON_WITHIN);
    above
        .take_while(|line| !line.trim().is_empty())
        .any(|line| line.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(name: &str, text: &str) -> Vec<String> {
        check(name, text).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn size_and_width() {
        assert!(whats("a.rs", &"x\n".repeat(501))[0].contains("501 lines"));
        assert!(whats("a.md", &"x\n".repeat(501)).is_empty());
        assert!(whats("a.rs", &format!("// {}\n", "x".repeat(120)))[0].contains("wider"));
    }

    #[test]
    fn banned_words() {
        for word in banned(true) {
            assert!(!whats("crates/cli/a.rs", &format!("{word}\n")).is_empty(), "{word}");
        }
    }

    #[test]
    fn where_and_how_of_the_dangerous_word() {
        let block = "fn f() {\n    un|safe { g() }\n}\n".replace('|', "");
        assert!(whats("crates/core/a.rs", &block)[0].contains("only"));
        assert!(whats("crates/linux/a.rs", &block)[0].contains("SAFETY"));
        let reasoned = block.replace("    uns", "    // SAFETY: g has no precondition.\n    uns");
        assert!(whats("crates/linux/a.rs", &reasoned).is_empty());
        assert!(whats("crates/core/a.rs", "#![forbid(unsafe_code)]\n").is_empty());
    }
}
