//! A trace file, compressed with zstd or not.

use freehold_sim::replay::{Format, Trace};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use freehold_command::exit_status::Failure;

/// What a file compressed with zstd begins with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads a whole trace. Whether it is compressed is told by its first bytes, not by its name.
///
/// # Errors
/// The file cannot be read, or a row is wrong; named with the file.
pub(super) fn trace(path: &Path, format: &Format, devices: &[String]) -> Result<Trace, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| named(&error))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let compressed = reader.fill_buf().map_err(|error| named(&error))?.starts_with(&ZSTD);
    let trace = if compressed {
        let decoder = zstd::Decoder::with_buffer(reader).map_err(|error| named(&error))?;
        Trace::read(BufReader::with_capacity(1 << 20, decoder), format, devices)
    } else {
        Trace::read(reader, format, devices)
    };
    trace.map_err(|error| named(&error))
}
