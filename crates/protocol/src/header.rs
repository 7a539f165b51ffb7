//! The header of every message.

use crate::field::{Field, Malformed, Reader, Writer};
use crate::message::{HEADER, LIMIT};

const MAGIC: [u8; 4] = *b"FRHD";

/// Writes a header for a message of so many bytes behind it.
pub(crate) fn put_header(kind: u16, serial: u32, length: usize, buffer: &mut [u8]) -> Result<(), Malformed> {
    if HEADER + length > LIMIT {
        return Err(Malformed::NoRoom);
    }
    let mut header = Writer::new(buffer);
    header.bytes(&MAGIC)?;
    crate::VERSION.put(&mut header)?;
    kind.put(&mut header)?;
    serial.put(&mut header)?;
    u32::try_from(length).map_err(|_| Malformed::NoRoom)?.put(&mut header)
}

/// Reads one: the message's kind and its serial number.
pub(crate) fn get_header(reader: &mut Reader<'_>) -> Result<(u16, u32), Malformed> {
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(Malformed::Magic);
    }
    let theirs = u16::get(reader, "version")?;
    if theirs != crate::VERSION {
        return Err(Malformed::Version { theirs });
    }
    let kind = u16::get(reader, "kind")?;
    let serial = u32::get(reader, "serial")?;
    let length = u32::get(reader, "length")?;
    if usize::try_from(length) != Ok(reader.remaining()) || HEADER + reader.remaining() > LIMIT {
        return Err(Malformed::Length);
    }
    Ok((kind, serial))
}
