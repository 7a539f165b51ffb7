//! Text that a program used before, mapped with the first faults when it runs again: a fault by message for each piece
//! of it is too dear, and what starts does much the same as the last time.
//!
//! Only pages that are in frames come along, and only while the holder has frames to spare.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::objects::Content;
use crate::engine::prefetch::Neighbours;
use crate::engine::prefetch::bits::Bits;
use crate::engine::spaces::{Segment, SegmentKind};
use freehold_core::Foresight;
use freehold_core::id::{MappingId, ObjectId};
use freehold_core::units::PageIndex;
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of one piece: what a fault on text brings along.
const PIECE: u32 = 16;
/// Programs of which it is known what they use of a file.
const PROGRAMS: usize = 8;
/// Pages that come along from one file, and from others, with one fault.
const MOST_PAGES: u32 = 64;
/// Segments of a client that are looked through with one fault.
const SEGMENTS: u32 = 64;
/// Segments of which it is known what a client was brought: it may make and unmake as many as it likes.
const KNOWN: usize = 512;

/// Which pieces of a file came with the faults of programs: those that faulted last, in front.
#[derive(Debug, Default)]
pub(crate) struct StartupHistory(Vec<(ObjectId, Bits)>);

impl StartupHistory {
    fn note(&mut self, program: ObjectId, used: impl IntoIterator<Item = u32>) {
        let known = self.0.iter().position(|(other, _)| *other == program);
        let at = known.unwrap_or_else(|| {
            self.0.truncate(PROGRAMS - 1);
            self.0.push((program, Bits::default()));
            self.0.len() - 1
        });
        if let Some(front) = self.0.get_mut(..=at) {
            front.rotate_right(1);
        }
        if let Some((_, pieces)) = self.0.first_mut() {
            used.into_iter().for_each(|piece| pieces.note(piece));
        }
    }

    fn by(&self, program: ObjectId) -> Option<&Bits> {
        let found = self.0.iter().find(|(other, _)| *other == program);
        found.map(|(_, pieces)| pieces)
    }
}

/// Pieces of mapped files that one client was brought, and is not brought again. A mapping may have several segments,
/// and a piece at the end of one reaches into the next: each segment, known by its first page, has its own.
#[derive(Debug, Default)]
pub(crate) struct Brought(BTreeMap<(MappingId, u32), Bits>);

impl Brought {
    /// Of one segment. With too many, what was brought of the others is forgotten, and may be tried again.
    fn of(&mut self, mapping: MappingId, first: u32) -> &mut Bits {
        let segment = (mapping, first);
        if self.0.len() >= KNOWN && !self.0.contains_key(&segment) {
            self.0.clear();
        }
        self.0.entry(segment).or_default()
    }
}

/// Takes note of pieces in a range that are used and were not brought yet, those from `from` on first, and gives them.
fn bring(used: &Bits, brought: &mut Bits, range: &Range<u32>, from: u32, most: usize) -> Vec<u32> {
    let mut found = Vec::new();
    while found.len() < most {
        let inside = |piece: &u32| *piece < range.end;
        let behind = used.next_beside(brought, from.max(range.start)).filter(inside);
        let Some(piece) = behind.or_else(|| used.next_beside(brought, range.start).filter(inside)) else {
            break;
        };
        brought.note(piece);
        found.push(piece);
    }
    found
}

/// The pages of its object that are mapped in a segment.
fn pages_of(start: u64, segment: &Segment) -> Range<u32> {
    segment.first..segment.page_at(start, segment.end)
}

/// The pieces that a window of pages of one segment has everything of.
fn whole_pieces(window: &Range<u32>, segment: &Range<u32>) -> Range<u32> {
    let begins = window.start > segment.start;
    let ends = window.end < segment.end;
    let first = if begins {
        window.start.div_ceil(PIECE)
    } else {
        window.start / PIECE
    };
    let end = if ends {
        window.end / PIECE
    } else {
        window.end.div_ceil(PIECE)
    };
    first..end
}

impl Engine {
    /// A client has announced an object, from an address on: the first file is the program that it runs.
    pub(in crate::engine) fn note_program(&mut self, id: ClientId, object: ObjectId, start: u64) {
        let file = matches!(self.object(object).map(|row| &row.content), Some(Content::File { .. }));
        if let Some(client) = self
            .client_mut(id)
            .filter(|client| file && client.process.role == ClientRole::Program)
        {
            client.prefetch.program.get_or_insert(object);
            client.prefetch.beyond = client.prefetch.beyond.min(start);
        }
    }

    /// With a fault on a file, for which a window of pages has come: maps what the program used of it before, and of
    /// its other files. All of it is one step.
    pub(super) fn map_used(&mut self, near: &Neighbours, window: &Range<u32>) {
        let here = self.client(near.client).and_then(|client| client.segment(near.address));
        if let Some((start, segment)) = here {
            let pages = pages_of(start, &segment);
            self.note_used(near, window, &pages);
            let mut left = MOST_PAGES.saturating_sub(window.end - window.start);
            self.map_pieces(near, &pages, near.page / PIECE, &mut left);
        }
        self.map_used_elsewhere(near.client);
    }

    /// Of the files behind the last that it looked at: a program that starts goes through all of its libraries.
    fn map_used_elsewhere(&mut self, id: ClientId) {
        let mut left = MOST_PAGES;
        for _ in 0..SEGMENTS {
            // For less than a piece none is looked for, and the same segment would be met again and again.
            let Some(client) = self.client(id).filter(|_| left >= PIECE) else {
                return;
            };
            let Some((&start, &segment)) = client.space.range(client.prefetch.beyond..).next() else {
                return;
            };
            let file = Neighbours::at_start_of(id, start, &segment);
            let all = segment.kind == SegmentKind::Private
                || self.map_pieces(&file, &pages_of(start, &segment), 0, &mut left);
            if let Some(client) = self.client_mut(id).filter(|_| all) {
                client.prefetch.beyond = segment.end;
            }
        }
    }

    /// Maps pieces of a file that are to come along, of those pages and from a piece on, while pages are `left` to be;
    /// whether these were all.
    fn map_pieces(&mut self, near: &Neighbours, pages: &Range<u32>, from: u32, left: &mut u32) -> bool {
        let most = (*left / PIECE) as usize;
        let pieces = self.used_pieces(near, pages, from, most);
        self.prefetcher.run.clear();
        for piece in &pieces {
            let part = (piece * PIECE).max(pages.start)..((piece + 1) * PIECE).min(pages.end);
            *left -= part.end - part.start;
            if self.take_up_resident(near, part).is_none() {
                *left = 0;
                break;
            }
        }
        self.map_run(near, false);
        pieces.len() < most
    }

    fn program_of(&mut self, id: ClientId) -> Option<(ObjectId, &mut Client)> {
        let client = self.client_mut(id)?;
        Some((client.prefetch.program?, client))
    }

    /// The program has used a page of a file, in a segment, and has been brought a window of pages with it. When it
    /// runs again there will be no fault on what came along this time: all of it counts as used. So do pieces of which
    /// only a part came: nothing comes along but what is in frames.
    fn note_used(&mut self, near: &Neighbours, window: &Range<u32>, segment: &Range<u32>) {
        let Some((program, client)) = self.program_of(near.client) else {
            return;
        };
        let brought = client.prefetch.brought.of(near.mapping, segment.start);
        whole_pieces(window, segment).for_each(|piece| brought.note(piece));
        if let Some(Content::File {
            startup_history: used, ..
        }) = self.object_mut(near.object).map(|row| &mut row.content)
        {
            used.note(program, window.start / PIECE..window.end.div_ceil(PIECE));
        }
    }

    /// The pieces of some pages that are to come along.
    fn used_pieces(&mut self, near: &Neighbours, pages: &Range<u32>, from: u32, most: usize) -> Vec<u32> {
        let Some((program, client)) = self.program_of(near.client) else {
            return Vec::new();
        };
        let mut all_brought = std::mem::take(&mut client.prefetch.brought);
        let mut found = Vec::new();
        if let Some(Content::File {
            startup_history: used, ..
        }) = self.object(near.object).map(|row| &row.content)
            && let Some(used) = used.by(program)
        {
            let pieces = pages.start / PIECE..pages.end.div_ceil(PIECE);
            found = bring(used, all_brought.of(near.mapping, pages.start), &pieces, from, most);
        }
        if let Some(client) = self.client_mut(near.client) {
            client.prefetch.brought = all_brought;
        }
        found
    }

    /// Has those of the pages granted that are in frames; `None` where the core has no more.
    fn take_up_resident(&mut self, near: &Neighbours, pages: Range<u32>) -> Option<()> {
        let mut rest = pages;
        while !rest.is_empty() {
            let resident = |page: &u32| self.core.is_resident(near.object, PageIndex::new(*page));
            let end = rest.clone().find(|page| !resident(page)).unwrap_or(rest.end);
            if end > rest.start {
                self.take_up(near, rest.start..end, Foresight::Guess)?;
            }
            rest.start = end + 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Brought, KNOWN, PROGRAMS, StartupHistory, bring, whole_pieces};
    use crate::engine::objects::{some_mappings, some_objects};

    fn pieces(all: &[u32]) -> Bits {
        let mut pieces = Bits::default();
        for piece in all {
            pieces.note(*piece);
        }
        pieces
    }

    #[test]
    fn what_is_used_and_was_not_brought_comes_once_from_the_fault_on() {
        let (used, mut brought) = (pieces(&[2, 5, 63, 64, 70, 127, 128, 500]), pieces(&[63, 70]));
        assert!(bring(&used, &mut brought, &(0..1_000), 60, 0).is_empty());
        assert_eq!(
            bring(&used, &mut brought, &(3..128), 1_000, 1),
            [5],
            "no other mapping's"
        );
        assert_eq!(bring(&used, &mut brought, &(0..1_000), 64, 2), [64, 127]);
        assert_eq!(bring(&used, &mut brought, &(0..1_000), 64, 8), [128, 500, 2]);
        assert!(bring(&used, &mut brought, &(0..1_000), 64, 8).is_empty());
    }

    #[test]
    fn only_what_came_whole_was_brought() {
        assert_eq!(whole_pieces(&(5..40), &(0..100)), 1..2);
        assert_eq!(whole_pieces(&(16..48), &(0..100)), 1..3);
        assert_eq!(whole_pieces(&(5..40), &(5..40)), 0..3, "there is no more of it");
        assert_eq!(whole_pieces(&(5..40), &(5..41)), 0..2);
        assert!(whole_pieces(&(18..30), &(0..100)).is_empty());
    }

    #[test]
    fn a_client_that_goes_through_files_is_forgotten_in_time() {
        let mut brought = Brought::default();
        for mapping in some_mappings::<{ KNOWN + 1 }>() {
            brought.of(mapping, 7).note(3);
            assert!(brought.0.len() <= KNOWN);
            assert_eq!(brought.of(mapping, 7).next_beside(&Bits::default(), 0), Some(3));
            assert_eq!(
                brought.of(mapping, 8).next_beside(&Bits::default(), 0),
                None,
                "another segment's"
            );
        }
        assert_eq!(brought.0.len(), 2);
    }

    #[test]
    fn each_program_has_its_own_and_those_that_ran_last_are_remembered() {
        let programs = some_objects::<{ PROGRAMS + 1 }>();
        let mut used = StartupHistory::default();
        for (piece, program) in (0..).zip(&programs) {
            used.note(*program, [piece]);
            used.note(programs[1], [1_000, 1_001]);
        }
        assert!(used.by(programs[0]).is_none(), "the one that ran longest ago");
        for (piece, program) in (0..).zip(&programs).skip(1) {
            let own = used.by(*program).expect("remembered");
            let all = bring(own, &mut Bits::default(), &(0..2_000), 0, 100);
            let more = if *program == programs[1] {
                &[1_000, 1_001][..]
            } else {
                &[]
            };
            assert_eq!(all, [&[piece], more].concat());
        }
    }
}
