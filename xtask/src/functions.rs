//! How long functions are. rustfmt has formatted the file, so a function ends at the first line that closes a brace at
//! the indentation at which it began.

use crate::Finding;

const MOST_LINES: usize = 60;

/// Functions of more than 60 lines.
pub(crate) fn check(name: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(function) = function_name(line) else { continue };
        let indentation = indentation(line);
        let Some(length) = body_length(&lines[at..], indentation) else {
            continue;
        };
        if length > MOST_LINES {
            let what = format!("`{function}` has {length} lines, more than {MOST_LINES}: split it");
            findings.push(Finding {
                place: name.to_owned(),
                line: at + 1,
                what,
            });
        }
    }
    findings
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Lines from the `fn` line to its closing brace; `None` for a declaration without a body.
fn body_length(lines: &[&str], indentation: usize) -> Option<usize> {
    for (at, line) in lines.iter().enumerate() {
        let at_level = self::indentation(line) == indentation;
        if at_level && line.trim_start() == "}" {
            return Some(at + 1);
        }
        let ends_here = line.trim_end().ends_with(';') || (line.contains('{') && line.trim_end().ends_with('}'));
        if at_level && ends_here {
            return None;
        }
    }
    None
}

/// The name of the function that begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "fn" => {
                let end = after
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                return Some(&after[..end]);
            }
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"" => rest = after,
            word if word.starts_with("pub(") => rest = after,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let body = "        work();\n".repeat(60);
        let long =
            format!("impl X {{\n    pub(crate) fn long(&self) {{\n{body}    }}\n\n    fn short() {{\n    }}\n}}\n");
        let findings = check("x.rs", &long);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(findings[0].what.contains("`long` has 62 lines"));
    }

    #[test]
    fn a_declaration_has_no_body() {
        let text = format!("trait T {{\n    fn a();\n{}}}\n", "    const X: u8 = 1;\n".repeat(80));
        assert!(check("x.rs", &text).is_empty());
    }
}
