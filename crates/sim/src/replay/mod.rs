//! Traces of file pages, replayed against a page cache and the victim cache behind it (paper 003, section 5.4).
//!
//! The page cache is one LRU list of `page_cache` frames; what it evicts is put into the victim cache, and what it
//! misses is asked for there. Both together are one LRU list of their frames, as long as no device opens.

mod csv;
mod lru;
mod oracle_general;
mod outcome;
mod row;
mod run;

pub use csv::Columns;
pub use outcome::{Allocation, Bounds, GroupCounts, Replayed, Times};
pub use row::{Event, Pages, Row, TraceError};
pub use run::{Choice, Deletes, ReplayError, Setup, replay};

use csv::{CsvRows, OwnRows};
use oracle_general::OracleRows;
use std::io::BufRead;

/// How a trace is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own: `t_us,app,kind,dev,ino,page,npages`.
    Freehold,
    /// A CSV as libCacheSim reads it.
    LibCacheSimCsv(Columns),
    /// libCacheSim's binary `oracleGeneral`.
    OracleGeneral {
        /// Each object is one page, whatever its size.
        one_page: bool,
    },
}

/// Reads a whole trace. `devices` are the names that rows of devices can have, in order.
///
/// # Errors
/// The first row that is wrong; nothing is guessed.
pub fn read_trace<R: BufRead>(reader: R, format: &Format, devices: &[String]) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    let mut push = |row: Option<Row>| row.map(|row| rows.push(row)).is_some();
    match format {
        Format::Freehold => {
            let mut source = OwnRows::new(reader, devices);
            while push(source.next()?) {}
        }
        Format::LibCacheSimCsv(columns) => {
            let mut source = CsvRows::new(reader, *columns);
            while push(source.next()?) {}
        }
        Format::OracleGeneral { one_page } => {
            let mut source = OracleRows::new(reader, *one_page);
            while push(source.next()?) {}
        }
    }
    Ok(rows)
}
