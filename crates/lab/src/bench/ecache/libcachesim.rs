//! libCacheSim's LRU, where a Python that has it is named (PyPI `libcachesim`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use freehold_sim::replay::{Event, Row};

use super::super::named_program::NamedProgram;
use super::super::rounds::refused;
use freehold_command::exit_status::Failure;

/// Names the Python.
pub(super) const PYTHON: &str = "FREEHOLD_LIBCACHESIM";

/// Answers each size with nanoseconds and misses.
const SCRIPT: &str = "
import sys, time, libcachesim as lib
for line in sys.stdin:
    reader = lib.TraceReader(sys.argv[1], lib.TraceType.ORACLE_GENERAL_TRACE, lib.ReaderInitParam())
    cache = lib.LRU(int(line))
    begin = time.perf_counter_ns()
    ratio, _ = cache.process_trace(reader)
    print(time.perf_counter_ns() - begin, round(ratio * int(sys.argv[2])), flush=True)
";

/// A trace as a file in the format oracleGeneral, which goes in the end.
pub(super) struct OracleFile(PathBuf);

impl OracleFile {
    /// Rows of one page each.
    pub(super) fn write(rows: &[Row]) -> Result<Self, Failure> {
        let file = Self(std::env::temp_dir().join(format!("freehold-bench-replay-{}", std::process::id())));
        let mut out = BufWriter::new(File::create_new(&file.0).map_err(refused)?);
        for row in rows {
            if let Event::Access(pages) = row.event {
                let object = (pages.file << 32 | u64::from(pages.first.get())) + 1;
                let mut record = [0; 24];
                record[4..12].copy_from_slice(&object.to_le_bytes());
                record[12] = 1;
                record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
                out.write_all(&record).map_err(refused)?;
            }
        }
        out.flush().map_err(refused)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OracleFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A Python that answers.
pub(super) struct LibCacheSim(NamedProgram);

impl LibCacheSim {
    /// None where no Python is named.
    pub(super) fn start(trace: &Path, accesses: u64) -> Result<Option<Self>, Failure> {
        let accesses = accesses.to_string();
        let arguments = [OsStr::new("-c"), SCRIPT.as_ref(), trace.as_ref(), accesses.as_ref()];
        Ok(NamedProgram::start(PYTHON, arguments)?.map(Self))
    }

    /// How long so many pages of LRU take for the trace, in nanoseconds, and what they miss.
    pub(super) fn replay(&mut self, frames: u32) -> Result<(u64, u64), Failure> {
        let answer = self.0.ask(&frames.to_string())?;
        let mut numbers = answer.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(time)), Some(Ok(misses))) => Ok((time, misses)),
            _ => Err(refused(format!(
                "{PYTHON}: its Python has no libcachesim, or another version"
            ))),
        }
    }
}
