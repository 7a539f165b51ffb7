//! Several sides that take from one ring of bytes: each byte goes to one of them, whole and in order, and no claim of
//! an honest side is refused. `src/byte_ring`, compiled against a model checker.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(unreachable_pub, dead_code, reason = "the crate's own, of which this needs a part")]
#[path = "../src/byte_ring/mod.rs"]
mod byte_ring;
#[path = "model/racing_bytes.rs"]
mod bytes;
#[path = "model/sync.rs"]
#[allow(dead_code, unused_imports, unreachable_pub, reason = "of which this needs a part")]
mod sync;

use byte_ring::{ByteRing, Consumer, Indices, Producer};
use bytes::Bytes;
use loom::sync::atomic::AtomicU8;
use loom::thread;
use std::sync::Arc;

const CAPACITY: u32 = 2;

#[derive(Default)]
struct World {
    indices: Indices,
    bytes: [AtomicU8; CAPACITY as usize],
}

impl World {
    fn ring(&self) -> ByteRing<'_> {
        ByteRing {
            indices: &self.indices,
            bytes: Bytes(&self.bytes),
            capacity: CAPACITY,
        }
    }

    /// Puts messages of two bytes, 1 2, 3 4, and so on, as many as there is room for at once of so many.
    fn put(producer: &mut Producer<'_>, messages: &mut std::ops::Range<u8>) {
        while let Some(message) = messages.clone().next() {
            if producer.put(&[2 * message + 1, 2 * message + 2]).is_err() {
                return;
            }
            messages.next();
        }
    }

    /// Tries `times` to get what is there.
    fn get(&self, times: usize) -> Vec<u8> {
        let mut consumer = Consumer::new(self.ring());
        let mut all = Vec::new();
        for _ in 0..times {
            let mut bytes = [0; 2];
            let count = consumer.get(&mut bytes).unwrap();
            all.extend(&bytes[..count]);
        }
        all
    }
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Every byte that was put, once, and each taker's in order.
fn assert_shared_out(put: u8, takers: &[Vec<u8>]) {
    assert!(takers.iter().all(|taken| taken.is_sorted()), "out of order: {takers:?}");
    let mut all: Vec<u8> = takers.concat();
    all.sort_unstable();
    assert_eq!(
        all,
        (1..=2 * put).collect::<Vec<u8>>(),
        "lost, doubled or torn: {takers:?}"
    );
}

#[test]
fn two_consumers_share_out_what_is_put() {
    check(|| {
        let world = Arc::new(World::default());
        let mut messages = 0..2;
        let mut producer = Producer::new(world.ring());
        World::put(&mut producer, &mut messages);
        let [one, other] = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.get(1))
        });
        World::put(&mut producer, &mut messages);
        let taken = [one.join().unwrap(), other.join().unwrap(), world.get(1)];
        assert_shared_out(messages.start, &taken);
    });
}

#[test]
fn a_producer_that_takes_back_shares_with_the_consumers() {
    check(|| {
        let world = Arc::new(World::default());
        let other = Arc::clone(&world);
        let consumer = thread::spawn(move || other.get(2));
        let mut messages = 0..3;
        let mut producer = Producer::new(world.ring());
        World::put(&mut producer, &mut messages);
        let mut own = vec![0; 2];
        let count = producer.take(&mut own).unwrap();
        own.truncate(count);
        World::put(&mut producer, &mut messages);
        let taken = [own, consumer.join().unwrap(), world.get(1)];
        assert_shared_out(messages.start, &taken);
    });
}

#[test]
fn what_is_discarded_is_discarded_whole() {
    check(|| {
        let world = Arc::new(World::default());
        let other = Arc::clone(&world);
        let consumer = thread::spawn(move || other.get(2));
        let mut producer = Producer::new(world.ring());
        producer.put(&[1, 2]).unwrap();
        producer.discard().unwrap();
        producer.put(&[3, 4]).unwrap();
        let mut taken = consumer.join().unwrap();
        taken.extend(world.get(1));
        assert!(matches!(taken[..], [3, 4] | [1, 2, 3, 4]), "{taken:?}");
    });
}
