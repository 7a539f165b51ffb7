//! Where the agent is.

use std::path::{Path, PathBuf};

use freehold_linux::folder::{self, PrivateFolder};

use crate::exit_status::Failure;

const NAME: &str = "libfreehold_agent.so";
const VARIABLE: &str = "FREEHOLD_AGENT";

/// The agent's file: beside this executable (or where cargo puts libraries of other crates), where `make install` puts
/// it, or as `FREEHOLD_AGENT` says.
///
/// # Errors
/// It is nowhere: a program is never run without it unsaid.
pub fn find() -> Result<PathBuf, Failure> {
    let executable = std::env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new(""));
    let beside = ["", "deps", "../lib/freehold"].map(|place| folder.join(place).join(NAME));
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let places: Vec<PathBuf> = beside.into_iter().chain(named).collect();
    let found = places
        .iter()
        .find_map(|place| place.canonicalize().ok().filter(|path| path.is_file()));
    let Some(found) = found else {
        let shown: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(Failure::Run(format!(
            "the agent is not at {}: cargo build -p freehold-agent, or set {VARIABLE} to where {NAME} is",
            shown.join(", ")
        )));
    };
    Ok(found)
}

/// What the folders of links are called, before six random characters.
const PREFIX: &str = "freehold-agent";

/// The agent by a path that the dynamic linker can load: it takes spaces and colons for separators. Where the path has
/// one, a link in a folder of this command's own, which is there as long as the folder.
///
/// # Errors
/// No link can be made.
pub fn loadable(agent: PathBuf) -> Result<(PathBuf, Option<PrivateFolder>), Failure> {
    let separates = |path: &Path| {
        path.as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|byte| b" :".contains(byte))
    };
    if !separates(&agent) {
        return Ok((agent, None));
    }
    let failed = |error: std::io::Error| {
        let shown = agent.display();
        Failure::Run(format!(
            "{shown} has a space or a colon in its path, and no link to it can be made: {error}"
        ))
    };
    let parent = folder::runtime_directory();
    let folder = PrivateFolder::afresh(&parent, PREFIX).map_err(failed)?;
    let link = folder.path().join(NAME);
    if separates(&link) {
        return Err(failed(std::io::ErrorKind::InvalidFilename.into()));
    }
    std::os::unix::fs::symlink(&agent, &link).map_err(failed)?;
    Ok((link, Some(folder)))
}
