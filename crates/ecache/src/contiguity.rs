//! Whether frames lie behind one another in the machine's memory.

use serde::Serialize;

/// What the page map shows of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contiguity {
    /// One piece.
    Physical,
    /// Several.
    Pieces,
    /// The page map does not tell frames: that takes CAP_SYS_ADMIN.
    Unknown,
}

/// How a range lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In one word.
    pub contiguity: Contiguity,
    /// In how many pieces; 0 where that is unknown.
    pub pieces: u32,
}

impl Layout {
    pub(crate) const UNKNOWN: Self = Self {
        contiguity: Contiguity::Unknown,
        pieces: 0,
    };

    /// Of frames that should be `step` apart.
    pub(crate) fn of(frames: &[Option<u64>], step: u64) -> Self {
        let mut pieces = 0;
        let mut before: Option<u64> = None;
        for frame in frames {
            let Some(frame) = *frame else { return Self::UNKNOWN };
            if before.and_then(|before| before.checked_add(step)) != Some(frame) {
                pieces += 1;
            }
            before = Some(frame);
        }
        let contiguity = match pieces {
            0 => Contiguity::Unknown,
            1 => Contiguity::Physical,
            _ => Contiguity::Pieces,
        };
        Self { contiguity, pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::{Contiguity, Layout};

    #[test]
    fn pieces_are_counted() {
        let known = |frames: &[u64]| Layout::of(&frames.iter().map(|frame| Some(*frame)).collect::<Vec<_>>(), 512);
        assert_eq!(known(&[512, 1024, 1536]).contiguity, Contiguity::Physical);
        assert_eq!(known(&[1024, 512, 1024, 4096]).pieces, 3);
        assert_eq!(Layout::of(&[Some(1), None], 1), Layout::UNKNOWN);
    }
}
