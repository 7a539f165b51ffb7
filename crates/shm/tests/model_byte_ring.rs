//! No byte is lost, torn, doubled or out of order, no message is split, and no byte is read while it is written:
//! `src/byte_ring.rs`, compiled against a model checker, between a producer and a consumer in every interleaving.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(unreachable_pub, dead_code, reason = "the crate's own, of which this needs a part")]
#[path = "../src/byte_ring/mod.rs"]
mod byte_ring;
#[path = "model/bytes.rs"]
mod bytes;
#[path = "model/sync.rs"]
#[allow(dead_code, unused_imports, unreachable_pub, reason = "of which this needs a part")]
mod sync;

use byte_ring::{ByteRing, Consumer, Indices, Producer, PutError};
use bytes::Bytes;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

const CAPACITY: u32 = 4;

#[derive(Default)]
struct World {
    indices: Indices,
    bytes: [UnsafeCell<u8>; CAPACITY as usize],
}

// SAFETY: the model checker ends the run where a cell is accessed by two threads at the same time.
unsafe impl Sync for World {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for World {}

impl World {
    fn ring(&self) -> ByteRing<'_> {
        ByteRing {
            indices: &self.indices,
            bytes: Bytes(&self.bytes),
            capacity: CAPACITY,
        }
    }

    /// Puts messages of three bytes: 1 2 3, 4 5 6, and so on.
    fn put(&self, messages: u8) {
        let mut producer = Producer::new(self.ring());
        for message in 0..messages {
            let first = 3 * message + 1;
            while let Err(error) = producer.put(&[first, first + 1, first + 2]) {
                assert!(matches!(error, PutError::Full(room) if room < 3));
                thread::yield_now();
            }
        }
    }

    /// Gets them, two bytes at a time at most.
    fn get(&self, messages: u8) {
        let mut consumer = Consumer::new(self.ring());
        let mut next = 1;
        while next <= 3 * messages {
            let mut bytes = [0; 2];
            let count = consumer.get(&mut bytes).unwrap();
            if count == 0 {
                thread::yield_now();
            }
            for byte in &bytes[..count] {
                assert_eq!(*byte, next, "lost, doubled or out of order");
                next += 1;
            }
        }
    }
}

fn model(messages: u8) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let world = Arc::new(World::default());
        let producer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.put(messages))
        };
        world.get(messages);
        producer.join().unwrap();
    });
}

#[test]
fn messages_arrive_whole_and_in_order_when_the_ring_goes_round() {
    model(3);
}
