//! Text that a program used before, mapped at once when it runs again and announces its files: a fault by message for
//! each piece of it is too dear, and what starts does much the same as the last time.
//!
//! Only pages that are in frames come along, and only while the holder has frames to spare.

use super::{Kind, Neighbours};
use crate::engine::Engine;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::rows::Content;
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use std::ops::Range;

/// Pages of one piece: what a fault on text brings along.
const PIECE: u32 = 16;
/// Pieces that are mapped in one step.
const AT_ONCE: usize = 4;
/// Programs of which it is known what they use of a file.
const PROGRAMS: usize = 8;

/// Which pieces of a file programs have faulted on: those that did last, in front.
#[derive(Debug, Default)]
pub(crate) struct Used(Vec<(ObjectId, Pieces)>);

impl Used {
    fn note(&mut self, program: ObjectId, page: u32) {
        let known = self.0.iter().position(|(other, _)| *other == program);
        let at = known.unwrap_or_else(|| {
            self.0.truncate(PROGRAMS - 1);
            self.0.push((program, Pieces::default()));
            self.0.len() - 1
        });
        if let Some(front) = self.0.get_mut(..=at) {
            front.rotate_right(1);
        }
        if let Some((_, pieces)) = self.0.first_mut() {
            pieces.note(page);
        }
    }

    fn by(&self, program: ObjectId) -> Option<&Pieces> {
        self.0
            .iter()
            .find(|(other, _)| *other == program)
            .map(|(_, pieces)| pieces)
    }
}

/// A bit for each piece of a file, as far as one was used.
#[derive(Debug, Default)]
struct Pieces(Vec<u64>);

impl Pieces {
    fn note(&mut self, page: u32) {
        let (word, bit) = place(page / PIECE);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// The pages of the first used piece from `page` on, which may lie inside it.
    fn next(&self, page: u32) -> Option<Range<u32>> {
        let last = u32::try_from(self.0.len()).ok()?.saturating_mul(u64::BITS);
        let used = |piece: &u32| {
            let (word, bit) = place(*piece);
            self.0.get(word).is_some_and(|word| word & bit != 0)
        };
        let piece = (page / PIECE..last).find(used)?;
        Some(page.max(piece * PIECE)..(piece + 1) * PIECE)
    }
}

fn place(piece: u32) -> (usize, u64) {
    ((piece / u64::BITS) as usize, 1 << (piece % u64::BITS))
}

impl Engine {
    /// Notes that a program has faulted on a page of a file.
    pub(super) fn note_used(&mut self, near: &Neighbours) {
        let program = self.client(near.client).and_then(|client| client.program);
        if let Some(program) = program
            && let Some(Content::File { used, .. }) = self.object_mut(near.object).map(|row| &mut row.content)
        {
            used.note(program, near.page);
        }
    }

    /// Maps, for a program that has announced a file at `address`, what it used of that when it ran before: from page
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
        let client = self
            .client_mut(id)
            .filter(|client| client.role == ClientRole::Program)?;
        let (start, segment) = client.segment(address)?;
        let program = *client.program.get_or_insert(segment.object);
        let Content::File { used, .. } = &self.object(segment.object)?.content else {
            return None;
        };
        let piece = used.by(program)?.next(from.max(segment.first))?;
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
        self.map_resident(&near, piece.clone()).map(|()| piece.end)
    }

    /// Maps those of the pages that are in frames; `None` where the core has no more.
    fn map_resident(&mut self, near: &Neighbours, pages: Range<u32>) -> Option<()> {
        self.along.run.clear();
        let (mut at, mut more) = (pages.start, Some(()));
        while at < pages.end && more.is_some() {
            let resident = |page: &u32| self.core.is_resident(near.object, PageIndex::new(*page));
            let end = (at..pages.end).take_while(resident).last().map_or(at, |last| last + 1);
            if end > at {
                more = self.take_up(near, at..end, false);
            }
            at = end + 1;
        }
        self.map_run(near, false);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, PROGRAMS, Pieces, Used};
    use crate::engine::objects::some_objects;

    #[test]
    fn used_pieces_are_found_in_order_and_no_others() {
        let mut used = Pieces::default();
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

    #[test]
    fn each_program_has_its_own_and_those_that_ran_last_are_remembered() {
        let programs = some_objects::<{ PROGRAMS + 1 }>();
        let mut used = Used::default();
        for (page, program) in (0..).step_by(16).zip(&programs) {
            used.note(*program, page);
            used.note(programs[1], 1_000);
        }
        assert!(used.by(programs[0]).is_none(), "the one that ran longest ago");
        assert_eq!(
            used.by(programs[1]).and_then(|pieces| pieces.next(32)),
            Some(992..1_008)
        );
        for (page, program) in (0..).step_by(16).zip(&programs).skip(2) {
            let pieces = used.by(*program).expect("remembered");
            assert_eq!((pieces.next(0), pieces.next(page + 16)), (Some(page..page + 16), None));
        }
    }
}
