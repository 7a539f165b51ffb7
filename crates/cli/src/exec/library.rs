//! Where the agent is.

use std::path::{Path, PathBuf};

use crate::status::Failure;

const NAME: &str = "libfreehold_agent.so";
const VARIABLE: &str = "FREEHOLD_AGENT";

/// The agent's file: beside this executable (or where cargo puts libraries of other crates), where `make install` puts
/// it, or as `FREEHOLD_AGENT` says.
///
/// # Errors
/// It is nowhere: a program is never run without it unsaid.
pub(crate) fn find() -> Result<PathBuf, Failure> {
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
    // The dynamic linker takes spaces and colons for separators.
    if found
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        return Err(Failure::Run(format!(
            "the dynamic linker cannot load {} by its path, which has a space or a colon: move it, and set {VARIABLE}",
            found.display()
        )));
    }
    Ok(found)
}
