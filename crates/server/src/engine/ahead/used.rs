//! Text that programs have used before, mapped for the next one when it announces the file: a fault by message for each
//! piece of it is too dear, and a program that starts needs much the same as the one before.
//!
//! Only pages that are in frames come along, and only while the program's holder has frames to spare.

use super::{Kind, Neighbours};
use crate::engine::Engine;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::rows::Content;
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use freehold_core::view::PageState;
use std::ops::Range;

/// Pages of one piece: what a fault on text brings along.
const PIECE: u32 = 16;
/// Pieces that are mapped in one step.
const AT_ONCE: usize = 4;

/// Which pieces of a file programs have faulted on.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// A bit for each piece, as far as one was used.
    words: Vec<u64>,
}

impl Used {
    fn note(&mut self, page: u32) {
        let (word, bit) = place(page / PIECE);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// The pages of the first used piece from `page` on, itself the first of them perhaps.
    fn next(&self, page: u32) -> Option<Range<u32>> {
        let first = page / PIECE;
        let last = u32::try_from(self.words.len()).ok()?.saturating_mul(u64::BITS);
        let used = |piece: &u32| {
            let (word, bit) = place(*piece);
            self.words.get(word).is_some_and(|word| word & bit != 0)
        };
        let piece = (first..last).find(used)?;
        Some(page.max(piece * PIECE)..(piece + 1) * PIECE)
    }
}

fn place(piece: u32) -> (usize, u64) {
    ((piece / u64::BITS) as usize, 1 << (piece % u64::BITS))
}

impl Engine {
    /// Notes that a program has faulted on a page of a file.
    pub(super) fn note_used(&mut self, object: ObjectId, page: u32) {
        if let Some(Content::File { used, .. }) = self.object_mut(object).map(|row| &mut row.content) {
            used.note(page);
        }
    }

    /// Maps, for a program that has announced a file at `address`, what programs have used of it before: from page
    /// `from` of the object on, some pieces in one step. Where to go on; nothing where all is done.
    pub fn map_used(&mut self, client: ClientId, address: u64, from: u32) -> Option<u32> {
        self.begin();
        let mut next = Some(from);
        for _ in 0..AT_ONCE {
            next = next.and_then(|from| self.map_piece(client, address, from));
        }
        self.settle();
        next
    }

    fn map_piece(&mut self, id: ClientId, address: u64, from: u32) -> Option<u32> {
        let client = self.client(id).filter(|client| client.role == ClientRole::Program)?;
        let (start, segment) = client.segment(address)?;
        let Content::File { used, .. } = &self.object(segment.object)?.content else {
            return None;
        };
        let piece = used.next(from.max(segment.first))?;
        let pages = u32::try_from((segment.end - start) / crate::PAGE).ok()?;
        let piece = piece.start..piece.end.min(segment.first + pages);
        if piece.is_empty() {
            return None;
        }
        let near = Neighbours {
            client: id,
            mapping: segment.mapping,
            object: segment.object,
            page: piece.start,
            address: start + u64::from(piece.start - segment.first) * crate::PAGE,
            write: false,
            kind: Kind::New,
        };
        self.along.run.clear();
        let (mut at, mut more) = (piece.start, Some(()));
        while at < piece.end && more.is_some() {
            let run = (at..piece.end).take_while(|page| self.is_in_frame(near.object, *page));
            let end = run.last().map_or(at, |last| last + 1);
            if end > at {
                more = self.take_up(&near, at..end, false);
            }
            at = end + 1;
        }
        self.map_run(&near, false);
        more.map(|()| piece.end)
    }

    fn is_in_frame(&self, object: ObjectId, page: u32) -> bool {
        let view = self.core.page(object, PageIndex::new(page));
        view.is_some_and(|view| view.state == PageState::Resident)
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Used};

    #[test]
    fn used_pieces_are_found_in_order_and_no_others() {
        let mut used = Used::default();
        assert_eq!(used.next(0), None);
        for page in [1_100, 35, 40, 1_099, 100_000] {
            used.note(page);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(piece) = used.next(from) {
            from = piece.end;
            found.push(piece);
        }
        assert_eq!(found, [32..48, 1_088..1_104, 100_000..100_016]);
        assert_eq!(used.next(40), Some(40..48), "a mapping may begin within a piece");
        assert_eq!(used.next(u32::MAX - PIECE), None);
    }
}
