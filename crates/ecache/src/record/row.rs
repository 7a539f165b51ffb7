//! Samples of the page cache's tracepoints as rows of a trace.

use std::io::{self, Write};

use freehold_linux::tracepoints::{self, Tracepoint};

/// Where a sample has a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// As the kernel says; none where it has no field of that name.
    pub(super) fn of(tracepoint: Tracepoint, name: &str) -> Option<Self> {
        tracepoints::field(tracepoint, name).map(|(offset, size)| Self { offset, size })
    }

    #[cfg(test)]
    pub(super) fn at(offset: usize, size: usize) -> Self {
        Self { offset, size }
    }

    /// What is there, if the sample is as long and the number of at most eight bytes.
    pub(super) fn number(self, fields: &[u8]) -> Option<u64> {
        let bytes = fields.get(self.offset..self.offset.checked_add(self.size)?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// Where a tracepoint has what a row says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    kind: char,
    inode: Field,
    device: Field,
    index: Field,
    extent: Extent,
}

/// How many pages a sample is of.
#[derive(Clone, Copy, Debug)]
enum Extent {
    /// One.
    Page,
    /// Up to this one.
    Last(Field),
    /// A power of two.
    Order(Field),
}

impl Layout {
    /// As the kernel says.
    pub(super) fn of(tracepoint: Tracepoint, kind: char) -> Option<Self> {
        let field = |name| Field::of(tracepoint, name);
        let extent = match (field("last_index"), field("order")) {
            (Some(last), _) => Extent::Last(last),
            (None, Some(order)) => Extent::Order(order),
            (None, None) => Extent::Page,
        };
        Some(Self {
            kind,
            inode: field("i_ino")?,
            device: field("s_dev")?,
            index: field("index")?,
            extent,
        })
    }

    pub(super) fn row(&self, fields: &[u8]) -> Option<Row> {
        let page = self.index.number(fields)?;
        let pages = match self.extent {
            Extent::Page => 1,
            Extent::Last(last) => last.number(fields)?.checked_sub(page)?.checked_add(1)?,
            Extent::Order(order) => 1_u64.checked_shl(u32::try_from(order.number(fields)?).ok()?)?,
        };
        Some(Row {
            kind: self.kind,
            device: self.device.number(fields)?,
            inode: self.inode.number(fields)?,
            page,
            pages,
        })
    }
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    kind: char,
    /// As the kernel packs it: the major number above twenty bits of the minor.
    device: u64,
    inode: u64,
    page: u64,
    pages: u64,
}

impl Row {
    pub(super) fn write(&self, micros: u128, app: &str, out: &mut impl Write) -> io::Result<()> {
        const MINOR_BITS: u32 = 20;
        let (major, minor) = (self.device >> MINOR_BITS, self.device & ((1 << MINOR_BITS) - 1));
        let Self {
            kind,
            inode,
            page,
            pages,
            ..
        } = self;
        writeln!(out, "{micros},{app},{kind},{major}:{minor},{inode},{page},{pages}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Field, Layout};

    fn layout(extent: Extent) -> Layout {
        Layout {
            kind: 'M',
            inode: Field::at(0, 8),
            device: Field::at(8, 4),
            index: Field::at(16, 8),
            extent,
        }
    }

    fn sample(last: u64) -> Vec<u8> {
        let words = [0x63_u64, 254 << 20 | 3, 7, last];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn written(layout: Layout, fields: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        layout.row(fields)?.write(12, "sh", &mut out).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn a_sample_becomes_a_row_of_as_many_pages_as_it_says() {
        let last = layout(Extent::Last(Field::at(24, 8)));
        assert_eq!(written(last, &sample(9)).unwrap(), "12,sh,M,254:3,99,7,3\n");
        let order = layout(Extent::Order(Field::at(24, 1)));
        assert_eq!(written(order, &sample(4)).unwrap(), "12,sh,M,254:3,99,7,16\n");
        assert_eq!(
            written(layout(Extent::Page), &sample(0)).unwrap(),
            "12,sh,M,254:3,99,7,1\n"
        );
    }

    #[test]
    fn samples_that_are_cut_off_or_end_before_they_begin_are_no_rows() {
        let last = layout(Extent::Last(Field::at(24, 8)));
        assert_eq!(written(last, &sample(6)), None);
        assert_eq!(
            written(last, &sample(u64::MAX)),
            Some("12,sh,M,254:3,99,7,18446744073709551609\n".to_owned())
        );
        assert_eq!(written(last, &sample(9)[..20]), None);
        assert_eq!(written(layout(Extent::Order(Field::at(24, 1))), &sample(200)), None);
    }
}
