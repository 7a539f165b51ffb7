//! Slices on a track must nest, and those that overlap without nesting need tracks of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::packet::{Note, Packets, Track};

/// Something with a duration.
#[derive(Clone, Debug)]
pub(super) struct Slice<'a> {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) name: String,
    pub(super) notes: Vec<Note<'a>>,
}

/// Writes slices on one track, inner ones inside outer ones. A slice that begins inside another one and would end after
/// it is cut off at the other's end. Of two that begin together the longer one is the outer one; of equal ones the
/// first.
pub(super) fn write_nested(packets: &mut Packets, track: Track, mut slices: Vec<Slice<'_>>) {
    slices.sort_by_key(|slice| (slice.from, Reverse(slice.to)));
    let mut open: Vec<u64> = Vec::new();
    for slice in slices {
        while let Some(to) = open.pop_if(|to| *to <= slice.from) {
            packets.end(to, track);
        }
        let outer = open.last().copied().unwrap_or(u64::MAX);
        let to = slice.to.max(slice.from).min(outer);
        packets.begin(slice.from, track, &slice.name, &slice.notes);
        if to == slice.from {
            packets.end(to, track);
        } else {
            open.push(to);
        }
    }
    while let Some(to) = open.pop() {
        packets.end(to, track);
    }
}

/// For intervals ascending in their begin: a lane for each, so that those of one lane do not overlap, as few lanes as
/// possible. O(n log n).
pub(super) fn lanes(intervals: impl IntoIterator<Item = (u64, u64)>) -> Vec<usize> {
    let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut idle: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut made = 0;
    let mut found = Vec::new();
    for (from, to) in intervals {
        while let Some(Reverse((_, lane))) = busy.peek().copied().filter(|Reverse((end, _))| *end <= from) {
            busy.pop();
            idle.push(Reverse(lane));
        }
        let lane = idle.pop().map_or_else(
            || {
                made += 1;
                made - 1
            },
            |Reverse(lane)| lane,
        );
        busy.push(Reverse((to, lane)));
        found.push(lane);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lanes_are_taken_again_when_they_are_free() {
        assert_eq!(lanes([(0, 10), (0, 5), (5, 7), (6, 9), (10, 11)]), [0, 1, 1, 2, 0]);
        assert_eq!(lanes([]), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn intervals_of_a_lane_do_not_overlap(mut intervals in prop::collection::vec((0_u64..100, 0_u64..20), 0..60)) {
            intervals.sort_unstable();
            let intervals: Vec<_> = intervals.into_iter().map(|(from, length)| (from, from + length)).collect();
            let lanes = lanes(intervals.iter().copied());
            for (second, lane) in lanes.iter().enumerate() {
                for first in (0..second).filter(|first| lanes[*first] == *lane) {
                    prop_assert!(intervals[first].1 <= intervals[second].0);
                }
            }
            let most = |at: u64| intervals.iter().filter(|(from, to)| *from <= at && at < *to).count();
            let widest = (0..120).map(most).max().unwrap_or(0);
            let used = lanes.iter().max().map_or(0, |lane| lane + 1);
            // One of no duration needs a lane too.
            prop_assert!(used <= widest + 1);
        }
    }
}
