//! Trace files: one page index per line, ` w` after it for a write, `#` begins a comment.

use crate::model::TraceEntry;
use freehold_core::units::PageIndex;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The largest trace file, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Where a document's trace files are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traces<'a> {
    /// Beside the scenario file.
    pub(super) directory: &'a Path,
    /// Those that are part of the program, by the names under which scenarios ask for them: these come first.
    pub(super) built_in: &'a [(&'a str, &'a str)],
}

impl Traces<'_> {
    /// Reads a trace. Errors are sentences that name the file and the line.
    pub(super) fn load(&self, name: &str) -> Result<Arc<[TraceEntry]>, String> {
        match self.built_in.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => parse(text).map_err(|(line, message)| format!("{name}:{line}: {message}")),
            None => read(self.directory, name),
        }
    }
}

/// Reads a trace file.
fn read(directory: &Path, name: &str) -> Result<Arc<[TraceEntry]>, String> {
    let path = directory.join(name);
    // A pipe or a device could block for ever or never end.
    match std::fs::metadata(&path) {
        Ok(data) if !data.is_file() => return Err(format!("trace `{}` is not a regular file", path.display())),
        Ok(_) => {}
        Err(error) => return Err(format!("trace `{}` cannot be read: {error}", path.display())),
    }
    let mut text = String::new();
    let file = File::open(&path).map_err(|error| format!("trace `{}` cannot be read: {error}", path.display()))?;
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("trace `{}` cannot be read: {error}", path.display()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("trace `{}` is larger than 256 MiB", path.display()));
    }
    parse(&text).map_err(|(line, message)| format!("{}:{line}: {message}", path.display()))
}

/// Reads the text of a trace. Errors carry the line.
fn parse(text: &str) -> Result<Arc<[TraceEntry]>, (u32, String)> {
    let mut entries = Vec::new();
    for (line, text) in (1_u32..).zip(text.lines()) {
        let written = text.split('#').next().unwrap_or_default();
        let mut words = written.split_whitespace();
        let Some(page) = words.next() else { continue };
        let write = match (words.next(), words.next()) {
            (None, _) => false,
            (Some("w"), None) => true,
            _ => {
                return Err((
                    line,
                    format!(
                        "`{}`: after the page only ` w` may stand",
                        written.trim().escape_debug()
                    ),
                ));
            }
        };
        let page = page
            .parse()
            .map_err(|_| (line, format!("`{}` is not a page index", page.escape_debug())))?;
        entries.push(TraceEntry {
            page: PageIndex::new(page),
            write,
            line,
        });
    }
    Ok(entries.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_comes_first() {
        let traces = Traces {
            directory: Path::new("/nowhere"),
            built_in: &[("a.txt", "7\n8 w"), ("b.txt", "x")],
        };
        assert_eq!(traces.load("a.txt").unwrap().len(), 2);
        assert!(traces.load("b.txt").unwrap_err().starts_with("b.txt:1: "));
        assert!(traces.load("c.txt").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn lines() {
        let entries = parse("# head\n3\n\n4 w # why\n  5\n").unwrap();
        let found: Vec<_> = entries
            .iter()
            .map(|entry| (entry.page.get(), entry.write, entry.line))
            .collect();
        assert_eq!(found, [(3, false, 2), (4, true, 4), (5, false, 5)]);
        assert_eq!(parse("1\n-2").unwrap_err().0, 2);
        assert!(parse("1 r").unwrap_err().1.contains("only ` w`"));
        assert!(parse("1 w w").is_err());
    }
}
