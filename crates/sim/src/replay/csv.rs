//! Traces as text: our own columns, and libCacheSim's CSV with columns that the user names.

use super::row::{Event, MOST_PAGES, Pages, Row, TraceError};
use freehold_core::units::{PAGE_SIZE, PageIndex};
use std::collections::BTreeMap;
use std::io::BufRead;

/// The longest line, in bytes.
const LONGEST: u64 = 64 << 10;

/// Which columns of a CSV trace mean what. Columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The time, in seconds.
    pub time: Option<usize>,
    /// The object.
    pub object: usize,
    /// Its size in bytes; without it each object is one page.
    pub size: Option<usize>,
    /// What stands between columns.
    pub delimiter: char,
    /// The first line names columns.
    pub header: bool,
    /// Objects are numbers; else any text.
    pub numeric: bool,
}

impl Columns {
    /// Reads `object=2,time=1,size=3,delimiter=;,header,numeric`; `object` is required.
    ///
    /// # Errors
    /// What is wrong, and what can be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut columns = Self {
            time: None,
            object: 0,
            size: None,
            delimiter: ',',
            header: false,
            numeric: false,
        };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || match value.parse::<usize>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("`{word}`: columns count from 1, such as `{key}=2`")),
            };
            match key {
                "time" => columns.time = Some(number()?),
                "object" => columns.object = number()?,
                "size" => columns.size = Some(number()?),
                "header" => columns.header = true,
                "numeric" => columns.numeric = true,
                "delimiter" => {
                    columns.delimiter = match value {
                        "tab" => '\t',
                        "comma" => ',',
                        _ => one(value).ok_or("`delimiter=` takes one character, `tab` or `comma`")?,
                    };
                }
                _ => {
                    return Err(format!(
                        "`{word}` is unknown: use object=N, time=N, size=N, delimiter=C, header, numeric"
                    ));
                }
            }
        }
        if columns.object == 0 {
            return Err("`object=N` is missing: which column names the object, from 1".to_owned());
        }
        Ok(columns)
    }
}

fn one(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

/// Lines of a reader, each of bounded length.
pub(super) struct Lines<R> {
    reader: R,
    number: u64,
    line: String,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            number: 0,
            line: String::new(),
        }
    }

    /// The next line with its number, from 1; lines without any character are passed over.
    fn next(&mut self) -> Result<Option<(u64, &str)>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = std::io::Read::take(&mut self.reader, LONGEST);
            let read = limited.read_line(&mut self.line).map_err(|error| match error.kind() {
                std::io::ErrorKind::InvalidData => TraceError::row(self.number, "this is no text"),
                _ => TraceError::Read(error),
            })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LONGEST && !self.line.ends_with('\n') {
                return Err(TraceError::row(
                    self.number,
                    "is longer than 64 KiB: this is no such trace",
                ));
            }
            if !self.line.trim_end().is_empty() {
                return Ok(Some((self.number, self.line.trim_end())));
            }
        }
    }
}

/// Rows of our own format: `t_us,app,kind,dev,ino,page,npages`.
pub(super) struct OwnRows<R> {
    lines: Lines<R>,
    devices: Vec<String>,
    files: BTreeMap<(String, u64), u64>,
}

impl<R: BufRead> OwnRows<R> {
    pub(super) fn new(reader: R, devices: &[String]) -> Self {
        Self {
            lines: Lines::new(reader),
            devices: devices.to_vec(),
            files: BTreeMap::new(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, TraceError> {
        loop {
            let Some((number, line)) = self.lines.next()? else {
                return Ok(None);
            };
            if number == 1 && line.starts_with("t_us,") {
                continue;
            }
            let wrong = |message: &str| TraceError::row(number, message);
            let mut parts = line.split(',');
            let mut part = || parts.next();
            let (Some(time), Some(name), Some(kind)) = (part(), part(), part()) else {
                return Err(wrong("has fewer than the columns t_us,app,kind,dev,ino,page,npages"));
            };
            let (Some(device), Some(inode), Some(page), Some(count), None) = (part(), part(), part(), part(), part())
            else {
                return Err(wrong("has not the columns t_us,app,kind,dev,ino,page,npages"));
            };
            let integer = |text: &str, what: &str| {
                text.parse::<u64>()
                    .map_err(|_| TraceError::row(number, format!("{what} `{}` is no number", text.escape_debug())))
            };
            let time = Some(integer(time, "t_us")?);
            let count = integer(count, "npages")?;
            let event = match kind {
                "+" | "-" => device_event(number, name, kind, count, &self.devices)?,
                "A" => Event::Inform,
                "D" | "F" | "M" | "R" => {
                    let key = (device.to_owned(), integer(inode, "ino")?);
                    let next = self.files.len() as u64;
                    let file = *self.files.entry(key).or_insert(next);
                    let pages = pages(number, file, integer(page, "page")?, count)?;
                    if kind == "D" {
                        Event::Delete(pages)
                    } else {
                        Event::Access(pages)
                    }
                }
                other => {
                    let message = format!("kind `{}` is unknown: A, D, F, M, R, + or -", other.escape_debug());
                    return Err(wrong(&message));
                }
            };
            return Ok(Some(Row { number, time, event }));
        }
    }
}

fn device_event(number: u64, name: &str, kind: &str, count: u64, devices: &[String]) -> Result<Event, TraceError> {
    let device = devices.iter().position(|device| device == name).ok_or_else(|| {
        TraceError::row(
            number,
            format!("there is no device `{}`: --devices names them", name.escape_debug()),
        )
    })?;
    if kind == "-" {
        return Ok(Event::Close { device });
    }
    let used =
        u32::try_from(count).map_err(|_| TraceError::row(number, "the device uses more pages than there are"))?;
    Ok(Event::Open { device, used })
}

fn pages(number: u64, file: u64, first: u64, count: u64) -> Result<Pages, TraceError> {
    let end = first.checked_add(count).and_then(|end| u32::try_from(end).ok());
    match (u32::try_from(first), u32::try_from(count), end) {
        (Ok(first), Ok(count), Some(_)) if (1..=MOST_PAGES).contains(&count) => Ok(Pages {
            file,
            first: PageIndex::new(first),
            count,
        }),
        _ => Err(TraceError::row(
            number,
            "page and npages name no pages: npages is 1 to 16777216, and all are below 4294967296",
        )),
    }
}

/// Rows of a CSV as libCacheSim reads it.
pub(super) struct CsvRows<R> {
    lines: Lines<R>,
    columns: Columns,
    /// Texts that are no numbers, numbered as they came.
    names: BTreeMap<String, u64>,
}

impl<R: BufRead> CsvRows<R> {
    pub(super) fn new(reader: R, columns: Columns) -> Self {
        Self {
            lines: Lines::new(reader),
            columns,
            names: BTreeMap::new(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, TraceError> {
        let columns = self.columns;
        loop {
            let Some((number, line)) = self.lines.next()? else {
                return Ok(None);
            };
            if columns.header && number == 1 {
                continue;
            }
            let column = |at: usize, what: &str| {
                let found = line.split(columns.delimiter).nth(at - 1).map(str::trim);
                found.ok_or_else(|| TraceError::row(number, format!("has no column {at}, which is to be the {what}")))
            };
            let size = match columns.size {
                Some(at) => Some(number_in(number, "size", column(at, "size")?)?),
                None => None,
            };
            if size == Some(0) {
                // libCacheSim passes over them too.
                continue;
            }
            let name = column(columns.object, "object")?;
            let file = if columns.numeric {
                number_in(number, "object", name)?
            } else {
                let next = self.names.len() as u64;
                *self.names.entry(name.to_owned()).or_insert(next)
            };
            let time = columns
                .time
                .map(|at| seconds(number, column(at, "time")?))
                .transpose()?;
            let count = size.map_or(1, |bytes| bytes.div_ceil(PAGE_SIZE));
            let event = Event::Access(pages(number, file, 0, count)?);
            return Ok(Some(Row { number, time, event }));
        }
    }
}

fn number_in(number: u64, what: &str, text: &str) -> Result<u64, TraceError> {
    text.parse()
        .map_err(|_| TraceError::row(number, format!("the {what} `{}` is no number", text.escape_debug())))
}

/// Seconds, with a fraction or without, in microseconds.
fn seconds(number: u64, text: &str) -> Result<u64, TraceError> {
    let value: f64 = text
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && (0.0..1e12).contains(value))
        .ok_or_else(|| {
            TraceError::row(
                number,
                format!("the time `{}` is no number of seconds", text.escape_debug()),
            )
        })?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 10^18 by the check above"
    )]
    Ok((value * 1e6) as u64)
}
