//! The text files of the workspace.

use std::fs;
use std::path::Path;

/// A text file.
pub(crate) struct File {
    /// Its path in the workspace, with `/`.
    pub(crate) name: String,
    /// What is in it.
    pub(crate) text: String,
}

const ENDINGS: [&str; 8] = [".rs", ".toml", ".md", ".sh", ".c", ".h", ".yml", "Makefile"];
const SKIPPED: [&str; 4] = ["target", ".git", "corpus", "artifacts"];

/// Every text file under `root`, in the order of names.
pub(crate) fn files(root: &Path) -> Result<Vec<File>, String> {
    let mut found = Vec::new();
    visit(root, "", &mut found)?;
    Ok(found)
}

fn visit(directory: &Path, prefix: &str, found: &mut Vec<File>) -> Result<(), String> {
    let shown = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut entries: Vec<_> = fs::read_dir(directory)
        .map_err(shown)?
        .collect::<Result<_, _>>()
        .map_err(shown)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let base = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{prefix}{base}");
        let kind = entry.file_type().map_err(shown)?;
        if kind.is_dir() && !SKIPPED.contains(&base.as_str()) {
            visit(&entry.path(), &format!("{name}/"), found)?;
        } else if kind.is_file() && (ENDINGS.iter().any(|end| base.ends_with(end)) || name == ".ci/run") {
            match fs::read_to_string(entry.path()) {
                Ok(text) => found.push(File { name, text }),
                // An editor's temporary file may be gone again.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
    }
    Ok(())
}
