//! Traces in libCacheSim's binary format `oracleGeneral`: 24 bytes a request, packed, little-endian: time in seconds
//! (u32), object (u64), size in bytes (u32), number of the next request for it (i64).

use super::row::{Event, MOST_PAGES, Pages, Row, TraceError};
use freehold_core::units::{PAGE_SIZE, PageIndex};
use std::io::{BufRead, ErrorKind};

const BYTES: usize = 24;

pub(super) struct OracleRows<R> {
    reader: R,
    number: u64,
    /// Each object is one page, whatever its size.
    one_page: bool,
}

impl<R: BufRead> OracleRows<R> {
    pub(super) fn new(reader: R, one_page: bool) -> Self {
        Self {
            reader,
            number: 0,
            one_page,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, TraceError> {
        loop {
            let Some(record) = self.record()? else { return Ok(None) };
            self.number += 1;
            let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            let object = u64::from(word(4)) | u64::from(word(8)) << 32;
            let size = word(12);
            if size == 0 {
                // libCacheSim passes over them too.
                continue;
            }
            let bytes = if self.one_page { PAGE_SIZE } else { u64::from(size) };
            let count = u32::try_from(bytes.div_ceil(PAGE_SIZE)).unwrap_or(MOST_PAGES);
            let pages = Pages {
                file: object,
                first: PageIndex::ZERO,
                count,
            };
            return Ok(Some(Row {
                number: self.number,
                time: Some(u64::from(word(0)) * 1_000_000),
                event: Event::Access(pages),
            }));
        }
    }

    /// The next record. Most lie in the reader's buffer whole.
    fn record(&mut self) -> Result<Option<[u8; BYTES]>, TraceError> {
        if let Some(record) = self
            .reader
            .fill_buf()
            .ok()
            .and_then(|buffer| buffer.first_chunk().copied())
        {
            self.reader.consume(BYTES);
            return Ok(Some(record));
        }
        let mut record = [0_u8; BYTES];
        let mut filled = 0;
        while filled < BYTES {
            match self.reader.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let message = format!("the last record has {filled} of {BYTES} bytes: not this format, or cut off");
                    return Err(TraceError::row(self.number + 1, message));
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(record))
    }
}
