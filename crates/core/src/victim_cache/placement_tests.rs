//! Safe placement against brute force: every multiset of sizes 1 to 6, up to five devices, every order of opens.

use super::*;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

type State = Vec<Option<u32>>;

fn open_ranges(sizes: &[u32], state: &State) -> Vec<FrameRange> {
    let open = sizes
        .iter()
        .zip(state)
        .filter_map(|(size, first)| first.map(|first| FrameRange { first, count: *size }));
    let mut open: Vec<FrameRange> = open.collect();
    open.sort_by_key(|range| range.first);
    open
}

fn layout(sizes: &[u32]) -> Layout {
    let mut all = [0; MOST_DEVICES];
    all[..sizes.len()].copy_from_slice(sizes);
    Layout::new(all, sizes.len())
}

fn closed(state: &State) -> u8 {
    state
        .iter()
        .enumerate()
        .filter(|(_, first)| first.is_none())
        .fold(0, |set, (device, _)| set | bit(device))
}

/// Whether some permutation has every open device where it is.
fn some_permutation_fits(sizes: &[u32], state: &State, at: u32, left: u8) -> bool {
    if left == 0 {
        return true;
    }
    (0..sizes.len())
        .filter(|device| left & bit(*device) != 0)
        .any(|device| {
            state[device].is_none_or(|first| first == at)
                && some_permutation_fits(sizes, state, at + sizes[device], left & !bit(device))
        })
}

/// Goes through every state that opens and closes can reach; returns whether an open of a closed device was refused.
fn explore(sizes: &[u32], places: impl Fn(&Layout, usize, &State) -> Places) -> bool {
    let layout = layout(sizes);
    let mut seen: BTreeSet<State> = BTreeSet::new();
    let mut next = vec![vec![None; sizes.len()]];
    while let Some(state) = next.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        for device in 0..sizes.len() {
            let mut after = state.clone();
            if after[device].is_some() {
                after[device] = None;
                next.push(after);
                continue;
            }
            let places = places(&layout, device, &state);
            if places.firsts().is_empty() {
                return true;
            }
            for first in places.firsts() {
                after[device] = Some(*first);
                next.push(after.clone());
            }
        }
    }
    false
}

/// Every multiset of sizes 1 to 6 with up to `most` devices.
fn multisets(most: usize) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = vec![vec![]];
    let mut from = 0;
    for _ in 0..most {
        let until = all.len();
        for at in from..until {
            let least = all[at].last().copied().unwrap_or(1);
            for size in least..=6 {
                let mut longer = all[at].clone();
                longer.push(size);
                all.push(longer);
            }
        }
        from = until;
    }
    all.split_off(1)
}

fn safe(layout: &Layout, device: usize, state: &State, sizes: &[u32]) -> Places {
    layout.safe_places(device, closed(state), &open_ranges(sizes, state))
}

#[test]
fn no_order_of_opens_and_closes_is_refused() {
    for sizes in multisets(5) {
        assert!(
            !explore(&sizes, |layout, device, state| safe(layout, device, state, &sizes)),
            "{sizes:?}"
        );
    }
}

#[test]
fn the_paper_s_rule_is_caught() {
    let paper = |sizes: &[u32]| {
        explore(sizes, |layout, device, state| {
            layout.free_places(device, &open_ranges(sizes, state))
        })
    };
    assert!(paper(&[1, 1, 2]) && paper(&[3, 4, 6]));
}

#[test]
fn safe_places_are_those_that_some_permutation_has() {
    for sizes in multisets(4) {
        let layout = layout(&sizes);
        let everybody = layout.all();
        explore(&sizes, |layout, device, state| {
            let places = safe(layout, device, state, &sizes);
            for first in 0..layout.sum(everybody) {
                let mut after = state.clone();
                after[device] = Some(first);
                let fits = some_permutation_fits(&sizes, &after, 0, everybody);
                assert_eq!(
                    places.firsts().contains(&first),
                    fits,
                    "{sizes:?} {state:?} {device} at {first}"
                );
                if fits {
                    assert!(layout.is_safe(closed(&after), &open_ranges(&sizes, &after)));
                }
            }
            places
        });
        assert_eq!(layout.cuts().addresses().last().copied(), Some(layout.sum(everybody)));
    }
}

#[test]
fn candidate_and_base_regions_of_figure_4() {
    let layout = layout(&[6, 4, 3]);
    assert_eq!(layout.free_places(0, &[]).firsts(), [0, 3, 4, 7]);
    assert_eq!(layout.cuts().addresses(), [0, 3, 4, 6, 7, 9, 10, 13]);
}
