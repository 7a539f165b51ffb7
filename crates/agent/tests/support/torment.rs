//! Taking pages away at random.

use super::space::Surrender;
use super::{PAGE, Place, Space, World};
use freehold_protocol::channel::Action;

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn below(random: &mut u64, limit: usize) -> usize {
    usize::try_from(next(random) % limit as u64).unwrap_or(0)
}

/// Orders some surrenders and zaps of every process that has an agent, and empties some pages of files.
pub(crate) fn round(world: &mut World) {
    let World {
        spaces,
        random,
        rate,
        sequence,
        ..
    } = world;
    for space in spaces.iter_mut().filter(|space| space.client.is_some()) {
        let all = next(random).is_multiple_of(64);
        surrenders(space, random, sequence, if all { 256 } else { *rate });
        zaps(space, random, sequence, (*rate / 4 + 1).min(32), all);
        if let Some(client) = &space.client {
            client.wake();
        }
    }
}

/// Orders surrenders of as many pages as may be ordered of every process that has an agent.
pub(crate) fn take_all(world: &mut World) {
    let World {
        spaces,
        random,
        sequence,
        ..
    } = world;
    for space in spaces.iter_mut().filter(|space| space.client.is_some()) {
        surrenders(space, random, sequence, 256);
        if let Some(client) = &space.client {
            client.wake();
        }
    }
}

fn surrenders(space: &mut Space, random: &mut u64, sequence: &mut u32, count: u32) {
    let here = space.pages.iter().filter(|(_, place)| **place == Place::Client);
    let present: Vec<u64> = here.map(|(at, _)| *at).collect();
    let Some(client) = &mut space.client else { return };
    if present.is_empty() {
        return;
    }
    let start = below(random, present.len());
    for step in 0..count as usize {
        // Half of them neighbours, half of them anywhere.
        let index = if step.is_multiple_of(2) {
            start + step / 2
        } else {
            below(random, present.len())
        };
        let address = present[index % present.len()];
        let ordered = client
            .under_way
            .values()
            .any(|order| order.at == address || order.now == Some(address));
        if client.under_way.len() >= 300 || ordered {
            continue;
        }
        let Some(slot) = client.free.pop() else { break };
        *sequence += 1;
        if !client.order(*sequence, Action::Surrender, address, 1, slot) {
            client.free.push(slot);
            break;
        }
        let surrender = Surrender {
            at: address,
            now: Some(address),
            slot,
            dropped: 0,
        };
        client.under_way.insert(*sequence, surrender);
        space.pages.insert(
            address,
            Place::Ordered {
                sequence: *sequence,
                slot,
            },
        );
    }
}

fn zaps(space: &mut Space, random: &mut u64, sequence: &mut u32, count: u32, all: bool) {
    let mappings: Vec<_> = space
        .mappings
        .iter()
        .map(|(at, mapping)| (*at, mapping.clone()))
        .collect();
    let Some(client) = &mut space.client else { return };
    for _ in 0..count {
        if mappings.is_empty() {
            break;
        }
        let (start, mapping) = &mappings[below(random, mappings.len())];
        let page = u32::try_from(next(random) % u64::from(mapping.pages)).unwrap_or(0);
        let pages = (1 + u32::try_from(next(random) % 40).unwrap_or(0)).min(mapping.pages - page);
        let (page, pages) = if all { (0, mapping.pages) } else { (page, pages) };
        *sequence += 1;
        client.order(*sequence, Action::Zap, start + u64::from(page) * PAGE, pages, 0);
        if next(random).is_multiple_of(4) {
            mapping.object.punch(mapping.first + page);
        }
    }
}
