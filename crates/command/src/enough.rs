//! The size that would do for a program: what it has, and what of it is in the store. One rule, whoever asks.

/// The size with which no page had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    frames: u64,
}

impl Enough {
    /// For programs that have so many frames, and so many pages in the store at the same time.
    #[must_use]
    pub const fn of(frames: u64, stored: u64) -> Self {
        Self {
            frames: frames.saturating_add(stored),
        }
    }

    /// In whole MiB, rounded up.
    #[must_use]
    pub const fn mebibytes(self) -> u64 {
        self.frames.div_ceil(256)
    }
}

#[cfg(test)]
mod tests {
    use super::Enough;

    #[test]
    fn every_begun_mebibyte_counts() {
        let sizes = [(0, 0), (0, 1), (255, 1), (256, 1), (1_024, 1_500)];
        let found = sizes.map(|(frames, stored)| Enough::of(frames, stored).mebibytes());
        assert_eq!(found, [0, 1, 1, 2, 10]);
    }
}
