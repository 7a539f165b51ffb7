//! The place chosen by buckets against the walk through all pages.

use super::super::{DeviceId, FileId, Got};
use super::*;
use crate::units::{FrameCount, PageIndex};
use alloc::vec::Vec;

fn filled(seed: u64, policy: Policy) -> VictimCache {
    let sizes = [900, 800, 300, 200].map(FrameCount::new);
    let spec = VictimCacheSpec {
        frames: FrameCount::new(2200),
        devices: &sizes,
        granule: FrameCount::new(1),
        copies: 4,
        files: 64,
        policy,
        placement: Placement::Safe,
    };
    let mut cache = spec.seal().unwrap();
    for step in 0..20_000_u64 {
        let draw = mix(seed ^ mix(step));
        let (file, page) = (
            FileId::new(draw % 7),
            PageIndex::new(u32::try_from((draw >> 8) % 900).unwrap()),
        );
        match cache.get(file, page) {
            Got::Hit(frame) => cache.copied(frame).unwrap(),
            Got::Miss if draw.is_multiple_of(5) => cache.flush_page(file, page),
            Got::Miss => {
                let put = cache.put(file, page, 1).unwrap();
                cache.copied(put.frame).unwrap();
            }
        }
    }
    cache
}

#[test]
fn the_chosen_place_costs_no_more_than_the_bound_above_the_cheapest() {
    for seed in 0..40 {
        let cache = filled(seed, Policy::Lru);
        let exact = filled(seed, Policy::LruExact);
        assert_eq!(cache.page_counts(), exact.page_counts());
        let mut single = [0; MOST_REGIONS];
        cache.exact_costs(&mut single);
        let rows = cache.regions.rows();
        let cost = |range: FrameRange| -> u64 {
            let inside = rows.iter().zip(&single).filter(|(row, _)| range.contains(row.range));
            inside.map(|(_, cost)| cost).sum()
        };
        for device in 0..4 {
            let size = cache.layout.size(device);
            let chosen = cache.choose(device, size).unwrap();
            let best = exact.choose(device, size).unwrap();
            assert_eq!(best.cost, cost(best.used), "the walk is exact");
            let bound = best.cost + cache.cost_error(FrameCount::new(size));
            assert!(
                cost(chosen.used) <= bound,
                "{} against {}",
                cost(chosen.used),
                best.cost
            );
        }
    }
}

#[test]
fn the_random_policy_draws_from_all_places_and_the_static_one_has_one() {
    let order = [1, 0, 3, 2, 0, 0, 0, 0];
    let mut fixed = filled(1, Policy::Static { order });
    let device = DeviceId::new(0).unwrap();
    let opened = fixed.open(device, FrameCount::new(10)).unwrap();
    let ends = [800, 1690];
    assert!(ends.contains(&opened.range.first().get()) && opened.candidates == 1);
    let places: Vec<u32> = (0..200)
        .map(|seed| {
            filled_quickly(seed)
                .open(device, FrameCount::ZERO)
                .unwrap()
                .range
                .first()
                .get()
        })
        .collect();
    for first in [0, 200, 300, 500, 800, 1000, 1100, 1300] {
        assert!(places.contains(&first), "{first} is never drawn");
    }
}

fn filled_quickly(seed: u64) -> VictimCache {
    let sizes = [900, 800, 300, 200].map(FrameCount::new);
    let spec = VictimCacheSpec {
        frames: FrameCount::new(2200),
        devices: &sizes,
        granule: FrameCount::new(1),
        copies: 1,
        files: 1,
        policy: Policy::Random { seed },
        placement: Placement::Safe,
    };
    spec.seal().unwrap()
}
