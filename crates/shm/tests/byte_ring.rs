//! The ring of bytes against a queue, and against a side that writes random numbers into the indices.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_shm::byte_ring::{ByteRing, Consumer, Corrupt, LayoutError, Producer, PutError, size_for};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

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
        put_batch in 0_u32..200,
        get_batch in 0_u32..200,
        steps in prop::collection::vec((any::<bool>(), 0_usize..310), 0..200),
    ) {
        let mut memory = Memory::new();
        let ring = memory.ring(capacity);
        let mut producer = Producer::new(ring).unwrap().with_batch(put_batch);
        let mut consumer = Consumer::new(ring).unwrap().with_batch(get_batch);
        let mut queue = VecDeque::new();
        let mut next = 0_u8;
        for (puts, length) in steps {
            if puts {
                let message: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                match producer.put(&message) {
                    Ok(()) => queue.extend(message),
                    Err(PutError::Full(room)) => prop_assert!((room as usize) < length),
                    Err(PutError::Corrupt) => prop_assert!(false, "nobody spoiled it"),
                }
                prop_assert!(queue.len() <= capacity as usize);
            } else {
                producer.publish();
                let mut into = vec![0; length];
                let count = consumer.get(&mut into).unwrap();
                prop_assert_eq!(count, length.min(queue.len()));
                prop_assert!(into[..count].iter().copied().eq(queue.drain(..count)));
            }
        }
    }

    #[test]
    fn indices_that_cannot_be_are_refused_and_nothing_beside_the_ring_is_touched(
        capacity in 1_u32..64,
        claims in prop::collection::vec((any::<bool>(), any::<u32>(), 0_usize..80), 1..60),
    ) {
        let mut memory = Memory::new();
        let end = size_for(capacity).unwrap();
        let base = NonNull::from(&mut memory.0).cast::<u8>();
        // SAFETY: memory of this test's own, which it reaches through this pointer until the ring is dropped.
        let ring = unsafe { ByteRing::at(base, 4096, capacity) }.unwrap();
        ring.reset();
        let (mut producer, mut consumer) = (Producer::new(ring).unwrap(), Consumer::new(ring).unwrap());
        let claim = |producers: bool, value: u32, memory: NonNull<u8>| {
            let place = if producers { 0 } else { 64 };
            // SAFETY: an index of the ring, which is an atomic word that anybody may write.
            unsafe { memory.add(place).cast::<AtomicU32>().as_ref() }.store(value, Ordering::Relaxed);
        };
        for (producers, value, length) in claims {
            claim(producers, value, base);
            let put = producer.put(&vec![7; length]);
            prop_assert!(put.is_ok() || matches!(put, Err(PutError::Full(_) | PutError::Corrupt)));
            let mut into = vec![0; length];
            prop_assert!(consumer.get(&mut into).is_ok_and(|count| count <= capacity as usize)
                || consumer.unread() == Err(Corrupt));
        }
        prop_assert!(memory.0[end..].iter().all(|byte| *byte == 0xa5));
    }
}

#[test]
fn a_message_is_whole_or_refused() {
    let mut memory = Memory::new();
    let ring = memory.ring(10);
    let (mut producer, mut consumer) = (Producer::new(ring).unwrap(), Consumer::new(ring).unwrap());
    assert_eq!(producer.put(b"seven.."), Ok(()));
    assert_eq!(producer.put(b"four"), Err(PutError::Full(3)));
    let mut into = [0; 16];
    assert_eq!(consumer.get(&mut into), Ok(7));
    assert_eq!(consumer.get(&mut into), Ok(0));
    assert_eq!(producer.put(b"four"), Ok(()));
    assert_eq!(
        Consumer::new(ring).unwrap().unread(),
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
