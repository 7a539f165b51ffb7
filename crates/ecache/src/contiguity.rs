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
        Self::new(pieces)
    }

    fn new(pieces: u32) -> Self {
        let contiguity = match pieces {
            0 => Contiguity::Unknown,
            1 => Contiguity::Physical,
            _ => Contiguity::Pieces,
        };
        Self { contiguity, pieces }
    }
}

/// How the pages of one memory object lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    first: u64,
    last: u64,
    pieces: u32,
}

impl Stretch {
    /// Of small frames; none where they are not all told.
    pub(crate) fn of(frames: &[Option<u64>]) -> Option<Self> {
        Some(Self {
            first: (*frames.first()?)?,
            last: (*frames.last()?)?,
            pieces: Some(Layout::of(frames, 1).pieces).filter(|pieces| *pieces > 0)?,
        })
    }

    /// Of stretches behind one another.
    pub(crate) fn together(stretches: impl Iterator<Item = Option<Self>>) -> Layout {
        let (mut pieces, mut before) = (0, None);
        for stretch in stretches {
            let Some(stretch) = stretch else { return Layout::UNKNOWN };
            let goes_on = before.is_some_and(|before: u64| before + 1 == stretch.first);
            pieces += stretch.pieces - u32::from(goes_on);
            before = Some(stretch.last);
        }
        Layout::new(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::{Contiguity, Layout, Stretch};

    /// Whatever the frames and the cuts, as if they were looked at one by one.
    #[test]
    fn stretches_together_are_what_their_frames_are() {
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let mut frame = next(100);
            let frames: Vec<Option<u64>> = (0..1 + next(12))
                .map(|_| {
                    frame = if next(3) == 0 { next(100) } else { frame + 1 };
                    (next(40) > 0).then_some(frame)
                })
                .collect();
            let size = usize::try_from(1 + next(5)).unwrap_or(1);
            let stretches = frames.chunks(size).map(Stretch::of);
            assert_eq!(
                Stretch::together(stretches),
                Layout::of(&frames, 1),
                "{frames:?}, {size}"
            );
        }
    }

    #[test]
    fn pieces_are_counted() {
        let known = |frames: &[u64]| Layout::of(&frames.iter().map(|frame| Some(*frame)).collect::<Vec<_>>(), 512);
        assert_eq!(known(&[512, 1024, 1536]).contiguity, Contiguity::Physical);
        assert_eq!(known(&[1024, 512, 1024, 4096]).pieces, 3);
        assert_eq!(Layout::of(&[Some(1), None], 1), Layout::UNKNOWN);
    }
}
