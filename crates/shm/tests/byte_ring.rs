//! The ring of bytes against a queue, and against a side that writes random numbers into the indices.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_shm::byte_ring::{ByteRing, Consumer, Corrupt, LayoutError, Producer, PutError, size_for};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;

#[repr(C, align(64))]
struct Memory([u8; 4096]);

impl Memory {
    fn new() -> Box<Self> {
        Box::new(Self([0xa5; 4096]))
    }

    fn ring(&mut self, capacity: u32) -> ByteRing<'_> {
        let start = NonNull::from(&mut self.0).cast();
        // SAFETY: memory of this test's own, which it reaches through the ring until that is dropped.
        let ring = unsafe { ByteRing::at(start, 4096, capacity) }.unwrap();
        ring.reset();
        ring
    }
}

proptest! {
    #[test]
    fn it_is_a_queue_of_bytes(
        capacity in 1_u32..300,
        steps in prop::collection::vec((0_u8..4, 0_usize..310), 0..200),
    ) {
        let mut memory = Memory::new();
        let ring = memory.ring(capacity);
        let mut producer = Producer::new(ring);
        let mut consumer = Consumer::new(ring);
        let mut queue = VecDeque::new();
        let mut next = 0_u8;
        for (step, length) in steps {
            if step < 2 {
                let message: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                match producer.put(&message) {
                    Ok(()) => queue.extend(message),
                    Err(PutError::Full(room)) => prop_assert!((room as usize) < length),
                    Err(PutError::Corrupt) => prop_assert!(false, "nobody spoiled it"),
                }
                prop_assert!(queue.len() <= capacity as usize);
            } else {
                let mut into = vec![0; length];
                let count = if step == 2 { consumer.get(&mut into) } else { producer.take(&mut into) }.unwrap();
                prop_assert_eq!(count, length.min(queue.len()));
                prop_assert!(into[..count].iter().copied().eq(queue.drain(..count)));
            }
        }
    }

    #[test]
    fn indices_that_cannot_be_are_refused_and_nothing_beside_the_ring_is_touched(
        capacity in 1_u32..64,
        claims in prop::collection::vec((any::<bool>(), prop_oneof![any::<u64>(), 0_u64..200], 0_usize..80), 1..60),
    ) {
        let mut memory = Memory::new();
        let end = size_for(capacity).unwrap();
        let ring = memory.ring(capacity);
        let (mut producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
        for (producers, value, length) in claims {
            if producers { ring.forge_written(value) } else { ring.forge_read(value) }
            let put = producer.put(&vec![7; length]);
            prop_assert!(put.is_ok() || matches!(put, Err(PutError::Full(_) | PutError::Corrupt)));
            let mut into = vec![0; length];
            prop_assert!(consumer.get(&mut into).is_ok_and(|count| count <= capacity as usize)
                || consumer.unread() == Err(Corrupt));
            prop_assert!(producer.take(&mut into).is_ok_and(|count| count <= capacity as usize)
                || producer.unread() == Err(Corrupt));
            // Sides that begin anew know nothing but the claims.
            let anew = Consumer::new(ring).get(&mut into);
            prop_assert!(anew.is_err() || anew.is_ok_and(|count| count <= capacity as usize));
            let put = Producer::anew(ring).put(&vec![7; length]);
            prop_assert!(put.is_ok() || matches!(put, Err(PutError::Full(_) | PutError::Corrupt)));
        }
        prop_assert!(memory.0[end..].iter().all(|byte| *byte == 0xa5));
    }

    #[test]
    fn a_claim_beside_what_is_there_is_noticed_and_the_ring_goes_on_after_a_restart(
        capacity in 1_u32..64,
        before in 0_u64..200,
        claim in any::<u64>(),
        near in 0_u64..200,
        left in 0_u64..64,
        (producer_looks, read_is_forged) in prop_oneof![Just((true, true)), Just((false, true)), Just((false, false))],
    ) {
        for claim in [claim, near] {
            let mut memory = Memory::new();
            let ring = memory.ring(capacity);
            let (mut producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
            for _ in 0..before {
                producer.put(&[1]).unwrap();
                prop_assert_eq!(consumer.get(&mut [0]), Ok(1));
            }
            let left = left.min(u64::from(capacity));
            (0..left).for_each(|_| producer.put(&[1]).unwrap());
            prop_assert_eq!(producer.unread(), consumer.unread());
            if read_is_forged { ring.forge_read(claim) } else { ring.forge_written(claim) }
            // What the other side may have done is believed, and nothing else.
            let (least, most) = if read_is_forged {
                (before, before + left)
            } else {
                (before + left, before + u64::from(capacity))
            };
            let looked = if producer_looks { producer.unread() } else { consumer.unread() };
            prop_assert_eq!(looked.is_ok(), (least..=most).contains(&claim), "{} after {}", claim, before);
            if producer_looks { producer.restart() } else { consumer.restart() }
            let (mut producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
            prop_assert_eq!(consumer.unread(), Ok(0));
            prop_assert_eq!(producer.put(&[9]), Ok(()));
            let mut into = [0; 2];
            prop_assert_eq!((consumer.get(&mut into), into[0]), (Ok(1), 9));
        }
    }
}

#[test]
fn a_message_is_whole_or_refused() {
    let mut memory = Memory::new();
    let ring = memory.ring(10);
    let (mut producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
    assert_eq!(producer.put(b"seven.."), Ok(()));
    assert_eq!(producer.put(b"four"), Err(PutError::Full(3)));
    let mut into = [0; 16];
    assert_eq!(consumer.get(&mut into), Ok(7));
    assert_eq!(consumer.get(&mut into), Ok(0));
    assert_eq!(producer.put(b"four"), Ok(()));
    assert_eq!(
        Consumer::new(ring).unread(),
        Ok(4),
        "another consumer goes on from there"
    );
    assert_eq!(consumer.discard(), Ok(4));
    assert_eq!(producer.put(&[0; 11]), Err(PutError::Full(10)));
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let mut memory = Memory::new();
    let start = NonNull::from(&mut memory.0).cast::<u8>();
    // SAFETY: nothing is made, as each is refused.
    let refused = |offset: usize, length, capacity| unsafe { ByteRing::at(start.add(offset), length, capacity) }.err();
    assert_eq!(refused(0, 4096, 0), Some(LayoutError::Capacity));
    assert_eq!(refused(0, 4096, u32::MAX), Some(LayoutError::Capacity));
    assert_eq!(refused(0, 128 + 63, 33), Some(LayoutError::Memory));
    assert_eq!(refused(4, 4092, 64), Some(LayoutError::Memory));
    assert_eq!(size_for(33), Some(128 + 64));
}

#[test]
fn a_consumer_that_another_overtakes_goes_on_behind_it() {
    let mut memory = Memory::new();
    let ring = memory.ring(8);
    let mut producer = Producer::new(ring);
    let (mut one, mut other) = (Consumer::new(ring), Consumer::new(ring));
    let mut into = [0; 8];
    for _ in 0..20 {
        producer.put(b"abcd").unwrap();
        assert_eq!(other.get(&mut into[..3]), Ok(3));
        producer.put(b"efgh").unwrap();
        assert_eq!(other.get(&mut into[..3]), Ok(3));
        assert_eq!(one.get(&mut into), Ok(2), "the first has not looked since");
        assert_eq!(&into[..2], b"gh");
    }
}
