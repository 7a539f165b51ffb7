//! io_uring on a real file. Where the kernel has none, the tests say so and end.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests of small numbers"
)]

use freehold_linux::event::Event;
use freehold_linux::memory::{Memfd, PageLease};
use freehold_linux::ring::{Direction, Ended, Ring, Transfer};
use freehold_linux::{Errno, PAGE_SIZE};
use std::os::fd::AsFd;
use std::sync::Arc;

const CAPACITY: u16 = 4;

fn ring(pages: usize) -> Option<(Ring, Arc<Event>)> {
    let file = Memfd::create(c"ring-test", pages).unwrap();
    let event = Arc::new(Event::new().unwrap());
    match Ring::new(file.as_fd().try_clone_to_owned().unwrap(), Arc::clone(&event), CAPACITY) {
        Ok(ring) => Some((ring, event)),
        Err(errno @ (Errno::NOSYS | Errno::PERM)) => {
            println!("io_uring is absent or forbidden here ({errno}): nothing is tested");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}

fn transfer(tag: u32, direction: Direction, fill: u8) -> Transfer {
    let mut page = PageLease::allocated();
    page.bytes_mut().fill(fill);
    Transfer {
        tag,
        direction,
        page,
        length: PAGE_SIZE,
        offset: u64::from(tag) * PAGE_SIZE as u64,
    }
}

fn ends(ring: &mut Ring, count: usize) -> Vec<Ended> {
    let mut all = Vec::new();
    while all.len() < count {
        ring.wait().unwrap();
        while let Some(ended) = ring.next_ended() {
            all.push(ended);
        }
    }
    all.sort_by_key(|ended| ended.tag);
    all
}

#[test]
fn pages_are_written_and_read_back_several_at_a_time() {
    let Some((mut ring, _)) = ring(8) else { return };
    for round in 0..3_u8 {
        for tag in 0..4_u32 {
            ring.begin(transfer(tag, Direction::Write, round * 4 + tag as u8))
                .unwrap();
        }
        assert!(!ring.has_room());
        let refused = ring.begin(transfer(9, Direction::Read, 0)).unwrap_err();
        assert_eq!(refused.tag, 9);
        assert!(ends(&mut ring, 4).iter().all(|ended| ended.result == Ok(PAGE_SIZE)));
        for tag in 0..4 {
            ring.begin(transfer(tag, Direction::Read, 0xee)).unwrap();
        }
        for (tag, ended) in ends(&mut ring, 4).into_iter().enumerate() {
            assert_eq!((ended.tag as usize, ended.result), (tag, Ok(PAGE_SIZE)));
            assert_eq!(ended.page.bytes(), &[round * 4 + tag as u8; PAGE_SIZE]);
        }
    }
}

#[test]
fn short_and_impossible_transfers_say_so() {
    let Some((mut ring, _)) = ring(2) else { return };
    let mut half = transfer(1, Direction::Read, 0xee);
    half.offset += PAGE_SIZE as u64 / 2;
    ring.begin(half).unwrap();
    let mut beyond = transfer(2, Direction::Write, 0);
    beyond.offset = u64::MAX / 2;
    ring.begin(beyond).unwrap();
    let ended = ends(&mut ring, 2);
    assert_eq!(ended[0].result, Ok(PAGE_SIZE / 2));
    assert!(ended[1].result.is_err());
}

#[test]
fn the_event_ends_a_wait_as_often_as_it_is_signalled() {
    let Some((mut ring, event)) = ring(1) else { return };
    for _ in 0..3 {
        event.signal(1);
        ring.wait().unwrap();
        assert!(ring.next_ended().is_none());
    }
}

#[test]
fn a_ring_waits_for_its_transfers_before_it_goes() {
    let Some((mut ring, _)) = ring(4) else { return };
    for tag in 0..4 {
        ring.begin(transfer(tag, Direction::Write, 1)).unwrap();
    }
    drop(ring);
}
