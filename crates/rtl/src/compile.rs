//! Compiling modules: the headers under the original names, and the options without which sources of the time do not
//! compile.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use freehold_linux::folder::{self, PrivateFolder};

use crate::headers::HEADERS;

/// The language and the code that both spaces need. Warnings are off: the sources rely on what compilers now warn of.
const OPTIONS: [&str; 10] = [
    "-std=gnu89",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fcommon",
    // Parameters of modules are set from outside, though they be static.
    "-fno-toplevel-reorder",
    "-w",
    // What newer compilers refuse though warnings are off: numbers for pointers, functions of other arguments.
    "-Wno-int-conversion",
    "-Wno-incompatible-pointer-types",
    "-D__KERNEL__",
    "-DMODULE",
];

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler, or a file of this command's own.
    #[error("{what}: {error}")]
    File {
        /// Which.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// Symbols that neither the module nor the API has.
    #[error("{object}: nobody has {}: docs/book/src/rtlinux.md names the functions left out", .symbols.join(", "))]
    Unresolved {
        /// The object.
        object: String,
        /// Their names, in order.
        symbols: Vec<String>,
    },
    /// Code that cannot be placed anywhere.
    #[error("{object} was compiled without -fPIC; compile it with freehold rtl cc, or with -fPIC")]
    NotPositionIndependent {
        /// The object.
        object: String,
    },
    /// Whatever else the linker says.
    #[error("{object}: {text}")]
    Linker {
        /// The object.
        object: String,
        /// What it says.
        text: String,
    },
}

/// Runs the compiler `CC` names, or `cc`, with the headers in front of the system's; its exit status.
///
/// # Errors
/// It cannot be run, or the headers cannot be written.
pub fn compile(arguments: &[OsString]) -> Result<i32, CompileError> {
    let folder = headers().map_err(|error| file("the headers", error))?;
    let mut command = compiler();
    command.args(OPTIONS).arg("-I").arg(folder.path()).args(arguments);
    let status = command.status().map_err(|error| file("the C compiler", error))?;
    Ok(status.code().unwrap_or(1))
}

fn compiler() -> Command {
    Command::new(std::env::var_os("FREEHOLD_RTL_CC").unwrap_or_else(|| "cc".into()))
}

fn file(what: &str, error: io::Error) -> CompileError {
    CompileError::File {
        what: what.to_owned(),
        error,
    }
}

/// Makes a shared object of `object` at `output`; `library` is the folder that has the API's.
///
/// # Errors
/// See [`CompileError`]: what is missing is named.
pub fn link(object: &Path, output: &Path, library: &Path) -> Result<(), CompileError> {
    let mut command = compiler();
    command
        .args(["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,now", "-o"])
        .arg(output)
        .arg(object);
    command.arg(option("-L", library)).arg("-lfreehold_rtl").arg("-lm");
    command.env("LC_ALL", "C");
    let Output { status, stderr, .. } = command.output().map_err(|error| file("the C compiler", error))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&stderr).into_owned();
    let object = object.display().to_string();
    if text.contains("recompile with -fPIC") || text.contains("can not be used when making a shared object") {
        return Err(CompileError::NotPositionIndependent { object });
    }
    let mut symbols: Vec<String> = text
        .split("undefined reference to `")
        .skip(1)
        .filter_map(name)
        .collect();
    symbols.sort();
    symbols.dedup();
    if symbols.is_empty() {
        return Err(CompileError::Linker { object, text });
    }
    Err(CompileError::Unresolved { object, symbols })
}

fn name(rest: &str) -> Option<String> {
    rest.split('\'').next().map(str::to_owned)
}

fn option(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push::<&OsStr>(path.as_ref());
    text
}

/// The headers in a folder of this command's own, removed in the end; those of commands that were killed are removed
/// too.
fn headers() -> io::Result<PrivateFolder> {
    let parent = folder::runtime_directory();
    let own = PrivateFolder::afresh(&parent, PREFIX)?;
    write_headers(own.path())?;
    Ok(own)
}

/// What the folders of headers are called, before six random characters.
const PREFIX: &str = "freehold-rtl-headers";

/// Writes the headers below `folder`.
///
/// # Errors
/// A file cannot be written.
pub fn write_headers(folder: &Path) -> io::Result<()> {
    for (name, text) in HEADERS {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
