//! Programs of the experiments' own.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::compile;
use crate::directory::Directory;
use crate::load::{self, RtlError};

/// Compiles and links a program called `name`.
pub(crate) fn build(directory: &Directory, name: &str, text: &str) -> Result<PathBuf, RtlError> {
    let [source, object, linked] = ["c", "o", "so"].map(|ending| directory.path().join(format!("{name}.{ending}")));
    std::fs::write(&source, text).map_err(|error| RtlError::Failed(error.to_string()))?;
    let arguments: [OsString; 5] = [
        "-O2".into(),
        "-c".into(),
        source.into(),
        "-o".into(),
        object.clone().into(),
    ];
    if compile::compile(&arguments)? != 0 {
        return Err(RtlError::Failed(format!("{name} does not compile")));
    }
    compile::link(&object, &linked, &load::library_folder(&load::runner()?))?;
    Ok(linked)
}
