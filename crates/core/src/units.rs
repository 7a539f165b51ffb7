//! Quantities. Every count, index and time is a type of its own with a private field, so that pages are never
//! added to bytes, an index never to an index, and arithmetic that leaves the range is refused instead of wrapped.

use core::fmt;

/// Bytes in one page and in one frame.
pub const PAGE_SIZE: u64 = 4096;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// The zero of this quantity.
            pub const ZERO: Self = Self(0);

            /// Wraps a raw number.
            #[must_use]
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[must_use]
            pub const fn get(self) -> $raw {
                self.0
            }
        }
    };
}

macro_rules! count {
    ($name:ident) => {
        impl $name {
            /// The sum, or `None` where it leaves the range.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }

            /// The difference, or `None` where it would be negative.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }

            /// The difference, zero where it would be negative.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The sum, the largest value where it leaves the range.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Whether this is zero.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
    };
}

quantity! {
    /// The position of a page in its memory object, from zero.
    PageIndex(u32)
}
quantity! {
    /// A number of pages of memory objects.
    PageCount(u32)
}
quantity! {
    /// A number of frames (physical 4 KiB pages).
    FrameCount(u32)
}
quantity! {
    /// A length in bytes.
    ByteLen(u64)
}
quantity! {
    /// A point in time: nanoseconds since an origin that the engine chooses (virtual or monotonic).
    Instant(u64)
}
quantity! {
    /// A span of time in nanoseconds.
    Duration(u64)
}
count!(PageCount);
count!(FrameCount);
count!(ByteLen);
count!(Duration);

impl PageIndex {
    /// The page `count` pages further on, or `None` past the range of an index.
    #[must_use]
    pub const fn checked_add(self, count: PageCount) -> Option<Self> {
        match self.0.checked_add(count.0) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }
}

impl ByteLen {
    /// Pages needed to hold this many bytes, rounded up; `None` past 2³² − 1 pages (16 TiB).
    #[must_use]
    pub const fn to_pages(self) -> Option<PageCount> {
        let pages = self.0.div_ceil(PAGE_SIZE);
        if pages > u32::MAX as u64 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "bounded just above")]
        Some(PageCount(pages as u32))
    }
}

impl PageCount {
    /// The bytes of this many pages.
    #[must_use]
    pub const fn to_bytes(self) -> ByteLen {
        ByteLen(self.0 as u64 * PAGE_SIZE)
    }

    /// As many frames as there are pages.
    #[must_use]
    pub const fn to_frames(self) -> FrameCount {
        FrameCount(self.0)
    }
}

impl FrameCount {
    /// The bytes of this many frames.
    #[must_use]
    pub const fn to_bytes(self) -> ByteLen {
        ByteLen(self.0 as u64 * PAGE_SIZE)
    }
}

impl Instant {
    /// The instant `span` later; the last instant where that leaves the range (584 years).
    #[must_use]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time since `earlier`; zero where `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// A span of `micros` microseconds; the longest span where that leaves the range.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds; the longest span where that leaves the range.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }
}

impl fmt::Display for PageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

impl fmt::Display for PageCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages", self.0)
    }
}

impl fmt::Display for FrameCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames", self.0)
    }
}
