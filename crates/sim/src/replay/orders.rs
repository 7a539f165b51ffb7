//! The static policy: each device has one place, by an order of all devices, and the order that reads least counts.

use super::behind::Behind;
use super::outcome::Replayed;
use super::page_cache::{Left, Remainder};
use super::run::{ReplayError, Setup};
use super::trace::{Step, Trace};
use freehold_core::victim_cache::{MOST_DEVICES, Policy};
use std::collections::BTreeSet;

/// The most devices for which every order can be tried.
const MOST_ORDERED: usize = 6;

/// Replays the orders, and returns the first of those that read least. Orders under which the same frames are lent
/// whenever a page is used read the same, and one of them is replayed. An order that has read as much as the best one
/// is given up.
pub(super) fn best(
    trace: &Trace,
    remainder: &Remainder,
    setup: &Setup,
    clock: &mut dyn FnMut() -> u64,
) -> Result<Replayed, ReplayError> {
    let devices = setup.devices.len();
    if devices > MOST_ORDERED {
        let message = format!("static tries every order: at most {MOST_ORDERED} devices");
        return Err(ReplayError::Setup(message));
    }
    let sets = open_together(trace, remainder, setup);
    let (mut best, mut tried) = (None::<Replayed>, BTreeSet::new());
    for order in permutations(devices.max(1)) {
        let is_new = |sets| tried.insert(lent(&order, sets, setup));
        if !sets.as_ref().is_none_or(is_new) {
            continue;
        }
        let enough = best.as_ref().map_or(u64::MAX, |best| best.misses);
        let run = Behind::new(trace, remainder, setup, policy(&order))?.run(enough, clock)?;
        if let Some(mut replayed) = run {
            replayed.order = Some(order.into_iter().take(devices).collect());
            best = Some(replayed);
        }
    }
    best.ok_or_else(|| ReplayError::Setup("there is no order of devices".to_owned()))
}

fn policy(order: &[usize]) -> Policy {
    let mut places = [0; MOST_DEVICES];
    for (place, device) in places.iter_mut().zip(order) {
        *place = u8::try_from(*device).unwrap_or(u8::MAX);
    }
    Policy::Static { order: places }
}

/// All orders of so many devices, the one of their own places first.
fn permutations(devices: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..devices {
        let longer = |order: &Vec<usize>| {
            let rest = (0..devices).filter(|device| !order.contains(device));
            rest.map(|device| [order.as_slice(), &[device]].concat())
                .collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// Sets of devices that are open at once.
type Sets = BTreeSet<BTreeSet<usize>>;

/// The sets of devices that are open when anything else happens, or before one closes where one has just opened. `None`
/// where a device uses a part of its place: which part is a matter of what is cached.
fn open_together(trace: &Trace, remainder: &Remainder, setup: &Setup) -> Option<Sets> {
    let (mut open, mut sets) = (BTreeSet::new(), Sets::new());
    let (mut opened, mut closed) = (false, false);
    for left in &remainder.left {
        match *left {
            Left::Step(Step::Open { device, place }) => {
                let used = trace.device(place).used;
                let whole = setup.devices.get(device as usize).map(|device| device.1.get());
                if used != 0 && Some(used) != whole {
                    return None;
                }
                open.insert(device as usize);
                opened = true;
            }
            Left::Step(Step::Close { device, .. }) => {
                // What opened was discarded for. What closes leaves nothing behind but free frames.
                if std::mem::take(&mut opened) {
                    sets.insert(open.clone());
                }
                open.remove(&(device as usize));
                closed = true;
            }
            _ => {
                if std::mem::take(&mut opened) | std::mem::take(&mut closed) {
                    sets.insert(open.clone());
                }
            }
        }
    }
    Some(sets)
}

/// For each set the frames that are lent, as the addresses where they begin and end by turns.
fn lent(order: &[usize], sets: &Sets, setup: &Setup) -> Vec<Vec<u32>> {
    let size = |device: usize| setup.devices.get(device).map_or(0, |device| device.1.get());
    let frames = |set: &BTreeSet<usize>| {
        let (mut ends, mut at) = (Vec::new(), 0);
        for device in order {
            if set.contains(device) {
                if ends.last() == Some(&at) {
                    ends.pop();
                } else {
                    ends.push(at);
                }
                ends.push(at + size(*device));
            }
            at += size(*device);
        }
        ends
    };
    sets.iter().map(frames).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Choice, Deletes, Event, Pages, Row};
    use freehold_core::units::{FrameCount, PageIndex};
    use freehold_core::victim_cache::Placement;

    const SIZES: [u32; 4] = [9, 8, 3, 2];

    fn setup() -> Setup {
        Setup {
            page_cache: FrameCount::new(10),
            cache: FrameCount::new(SIZES.iter().sum()),
            devices: SIZES
                .iter()
                .map(|size| (String::new(), FrameCount::new(*size)))
                .collect(),
            choice: Choice::Static,
            placement: Placement::Safe,
            seed: 1,
            deletes: Deletes::Evictions,
        }
    }

    /// Pages used at random; between them devices open and close, alone or two at a time, and for no use at all.
    fn trace(seed: u64, part: bool) -> Trace {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let (mut events, mut open) = (Vec::new(), [false; 4]);
        for _ in 0..1_500 {
            events.push(Event::Access(Pages {
                file: 1,
                first: PageIndex::new(u32::try_from(draw(50)).unwrap()),
                count: 1,
            }));
            while draw(6) == 0 {
                let device = usize::try_from(draw(4)).unwrap();
                let used = if part && draw(3) == 0 { 1 } else { 0 };
                let together = seed.is_multiple_of(2) && !part;
                let devices = if together {
                    device / 2 * 2..device / 2 * 2 + 2
                } else {
                    device..device + 1
                };
                for device in devices {
                    open[device] = !open[device];
                    events.push(match open[device] {
                        true => Event::Open { device, used },
                        false => Event::Close { device },
                    });
                }
            }
        }
        let rows = (1..).zip(events);
        rows.map(|(number, event)| Row {
            number,
            time: None,
            event,
        })
        .collect()
    }

    /// Orders that count as the same read the same, and none reads less than the best.
    #[test]
    fn the_best_order_is_that_of_a_replay_of_all() {
        let setup = setup();
        let (mut left_out, mut orders) = (0, 0);
        for seed in 0..12 {
            let part = seed % 4 == 3;
            let trace = trace(seed, part);
            let remainder = Remainder::of(&trace, &setup);
            let found = best(&trace, &remainder, &setup, &mut || 0).unwrap();
            let sets = open_together(&trace, &remainder, &setup);
            assert_eq!(sets.is_none(), part);
            let mut by_frames = std::collections::BTreeMap::new();
            let mut least: Option<Replayed> = None;
            for order in permutations(SIZES.len()) {
                let behind = Behind::new(&trace, &remainder, &setup, policy(&order)).unwrap();
                let mut replayed = behind.run(u64::MAX, &mut || 0).unwrap().unwrap();
                replayed.order = Some(order.clone());
                orders += 1;
                if let Some(sets) = &sets {
                    let counts = (
                        replayed.misses,
                        replayed.pages,
                        replayed.utilisation.by_access.to_bits(),
                    );
                    let same = by_frames.entry(lent(&order, sets, &setup)).or_insert(counts);
                    assert_eq!(*same, counts, "seed {seed}, {order:?}");
                }
                if least.as_ref().is_none_or(|least| replayed.misses < least.misses) {
                    least = Some(replayed);
                }
            }
            left_out += if part { 0 } else { 24 - by_frames.len() };
            assert_eq!(Some(found), least, "seed {seed}");
        }
        assert!(
            orders == 12 * 24 && left_out > 0,
            "{left_out} of {orders} orders count as others do"
        );
    }

    #[test]
    fn frames_that_lie_behind_one_another_are_one_range() {
        let sets = Sets::from([BTreeSet::from([0, 1]), BTreeSet::from([2])]);
        assert_eq!(lent(&[3, 1, 0, 2], &sets, &setup()), [vec![2, 19], vec![19, 22]]);
        assert_eq!(lent(&[3, 0, 1, 2], &sets, &setup()), [vec![2, 19], vec![19, 22]]);
        assert_eq!(lent(&[0, 3, 1, 2], &sets, &setup()), [vec![0, 9, 11, 19], vec![19, 22]]);
    }
}
