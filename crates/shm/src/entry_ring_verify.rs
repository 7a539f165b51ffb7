//! Indices of a ring are claims of the other side: every distance between what it claims and the own position, from
//! positions around each edge. Apart from the ring's own file, which is compiled against a model checker too.

use crate::entry_ring::{Broken, EntryRing, Position, Word3, is_before};
use crate::sync::{ENTRIES, Ordering};

const ROOM: u32 = 512;
const NEAR: u32 = 2 * ROOM;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry;

impl Word3 for Entry {
    fn to_words(self) -> [u64; 3] {
        [1, 2, 3]
    }

    fn from_words(words: [u64; 3]) -> Option<Self> {
        (words == [1, 2, 3]).then_some(Self)
    }
}

fn positions() -> impl Iterator<Item = u32> {
    let edges = [0, ROOM, 1 << 31, u32::MAX];
    edges
        .into_iter()
        .flat_map(|edge| (0..8).map(move |step| edge.wrapping_sub(4).wrapping_add(step)))
}

/// All near distances, and in steps all others.
fn distances() -> impl Iterator<Item = u32> {
    let step = if cfg!(debug_assertions) { 1 << 20 } else { 1 << 12 };
    let near = (0..=NEAR).chain((0..NEAR).map(|back| u32::MAX - back));
    near.chain((0..=u32::MAX).step_by(step))
}

#[test]
fn a_writer_writes_only_into_room_that_the_reader_has_left() {
    assert_eq!(ROOM as usize, ENTRIES);
    let ring = EntryRing::default();
    for start in positions() {
        for unread in distances() {
            ring.read.store(start.wrapping_sub(unread), Ordering::Relaxed);
            let mut position = Position(start);
            let pushed = ring.push(&mut position, Entry);
            assert_eq!(pushed, (unread as usize) < ENTRIES, "{unread} unread at {start}");
            assert_eq!(position.0.wrapping_sub(start), u32::from(pushed));
        }
    }
}

#[test]
fn a_reader_reads_only_what_the_writer_can_have_written() {
    let ring = EntryRing::default();
    for (cell, word) in ring.entries.iter().flat_map(|entry| entry.iter().zip([1, 2, 3])) {
        cell.store(word, Ordering::Relaxed);
    }
    for start in positions() {
        for unread in distances() {
            ring.written.store(start.wrapping_add(unread), Ordering::Relaxed);
            let mut position = Position(start);
            let expected = match unread as usize {
                0 => Ok(None),
                1..=ENTRIES => Ok(Some(Entry)),
                _ => Err(Broken),
            };
            assert_eq!(ring.pop(&mut position), expected, "{unread} unread at {start}");
            assert_eq!(position.0.wrapping_sub(start), u32::from(expected == Ok(Some(Entry))));
        }
    }
}

#[test]
fn the_smaller_of_two_counts_is_the_one_less_than_half_the_way_behind() {
    let step = if cfg!(debug_assertions) { 65_537 } else { 1 };
    for distance in (0..=u32::MAX).step_by(step) {
        for count in [0, 1, u32::MAX] {
            let other = count.wrapping_add(distance);
            assert_eq!(is_before(count, other), distance > 0 && distance < 1 << 31);
        }
    }
}
