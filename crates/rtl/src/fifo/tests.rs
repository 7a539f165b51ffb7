//! Both sides of one FIFO in one process.

use super::owner::{Owner, OwnerError};
use super::peer::{ProcessSide, WriteError};
use crate::area::Area;

fn pair(size: usize) -> (Owner, ProcessSide) {
    let owner = Owner::create(3, size).unwrap();
    let path = format!("/proc/self/fd/{}", owner.area().descriptor());
    let peer = ProcessSide::of(Area::open(path.as_ref()).unwrap()).unwrap();
    (owner, peer)
}

#[test]
fn what_is_put_is_read_in_order_and_nothing_beyond_the_size_is_taken() {
    let (mut owner, peer) = pair(100);
    let mut next = 0_u8;
    let mut expected = 0_u8;
    for round in 0..1000_usize {
        let message: Vec<u8> = (0..=(round % 40))
            .map(|_| {
                next = next.wrapping_add(1);
                next
            })
            .collect();
        if owner.put(&message) == Err(OwnerError::NoSpace) {
            next = next.wrapping_sub(u8::try_from(message.len()).unwrap());
            assert!(peer.room() < message.len() as u64);
        }
        let mut taken = [0; 33];
        let count = peer.read(&mut taken);
        for byte in &taken[..count] {
            expected = expected.wrapping_add(1);
            assert_eq!(*byte, expected);
        }
    }
    assert!(owner.put(&[0; 101]).is_err());
    assert_eq!(owner.corrupt_claims(), 0);
}

#[test]
fn an_index_that_cannot_be_is_counted_and_empties_the_fifo() {
    let (mut owner, peer) = pair(64);
    owner.put(b"lost").unwrap();
    for claim in [5, u64::MAX, 1 << 63] {
        peer.corrupt_read_index(claim);
        let before = owner.corrupt_claims();
        owner.put(b"kept").unwrap();
        assert_eq!(owner.corrupt_claims(), before + 1);
        let mut taken = [0; 8];
        assert_eq!(peer.read(&mut taken), 4, "after {claim}");
        assert_eq!(&taken[..4], b"kept");
    }
    // An index that goes back claims bytes that were overwritten.
    peer.corrupt_read_index(0);
    owner.put(b"more").unwrap();
    assert_eq!(owner.corrupt_claims(), 4);
    assert_eq!(owner.view().used, 4);
}

#[test]
fn the_first_writer_is_the_only_writing_side() {
    let (mut owner, peer) = pair(8);
    assert_eq!(peer.write(b"0123456789"), Ok(8));
    assert_eq!(peer.write(b"x"), Err(WriteError::Full));
    assert_eq!(owner.put(b"x"), Err(OwnerError::OtherDirection));
    let mut taken = [0; 5];
    assert_eq!(owner.get(&mut taken), 5);
    assert_eq!(&taken, b"01234");
    assert_eq!(peer.write(b"ab"), Ok(2));
    let mut rest = [0; 9];
    assert_eq!(owner.get(&mut rest), 5);
    assert_eq!(&rest[..5], b"567ab");
    assert_eq!(owner.get(&mut rest), 0);

    let (mut owner, peer) = pair(8);
    owner.put(b"x").unwrap();
    assert_eq!(peer.write(b"y"), Err(WriteError::OtherDirection));
}

#[test]
fn an_index_that_cannot_be_loses_nothing_that_processes_write_afterwards() {
    let (mut owner, peer) = pair(64);
    let mut taken = [0; 64];
    for (round, claim) in (1_u64..).zip([5, u64::MAX, 1 << 63]) {
        peer.corrupt_read_index(claim);
        // Until the owner looks, nobody knows how much room there is; a writer goes on.
        assert_eq!(peer.write(b"lost"), Ok(4), "after {claim}");
        assert_eq!(owner.get(&mut taken), 0);
        assert_eq!(owner.corrupt_claims(), round);
        for message in [&b"kept"[..], b"and this"] {
            assert_eq!(peer.write(message), Ok(message.len()));
            let count = owner.get(&mut taken);
            assert_eq!(&taken[..count], message, "after {claim}");
        }
        assert_eq!(owner.corrupt_claims(), round);
    }
}

#[test]
fn what_a_process_reads_before_the_owner_looks_is_no_corruption() {
    let (mut owner, peer) = pair(64);
    let mut taken = [0; 64];
    for _ in 0..40 {
        assert_eq!(peer.write(b"first"), Ok(5));
        assert_eq!(peer.read(&mut taken), 5);
        assert_eq!(peer.write(b"second"), Ok(6));
        assert_eq!(owner.get(&mut taken), 6);
        assert_eq!(&taken[..6], b"second");
    }
    assert_eq!(owner.corrupt_claims(), 0);
}
