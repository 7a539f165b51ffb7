//! Traces of file pages, replayed against a page cache and the victim cache behind it (paper 003, section 5.4).
//!
//! The page cache is one LRU list of `page_cache` frames; what it evicts is put into the victim cache, and what it
//! misses is asked for there. Both together are one LRU list of their frames, as long as no device opens.

mod behind;
mod csv;
mod lru;
mod oracle_general;
mod orders;
mod outcome;
mod page_cache;
mod row;
mod run;
mod trace;

pub use csv::Columns;
pub use outcome::{Allocation, Bounds, GroupCounts, Replayed, Times, Utilisation};
pub use row::{Event, Pages, Row, TraceError};
pub use run::{Choice, Deletes, ReplayError, Setup, replay, replay_choices};
pub use trace::Trace;

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

/// Reads the rows of a whole trace. `devices` are the names that rows of devices can have, in order.
///
/// # Errors
/// The first row that is wrong; nothing is guessed.
pub fn read_trace<R: BufRead>(reader: R, format: &Format, devices: &[String]) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    read_rows(reader, format, devices, &mut |row| rows.push(row))?;
    Ok(rows)
}

/// Gives each row of a trace to `take`.
fn read_rows<R: BufRead>(
    reader: R,
    format: &Format,
    devices: &[String],
    take: &mut impl FnMut(Row),
) -> Result<(), TraceError> {
    let mut push = |row: Option<Row>| row.map(&mut *take).is_some();
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
    Ok(())
}
