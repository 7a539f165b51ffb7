//! `make verify`: parsers over whole domains. With optimisation all values are gone through, without in steps.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use freehold_protocol::VERSION;
use freehold_protocol::field::Malformed;
use freehold_protocol::message::{Answer, HEADER, LIMIT, Request};
use freehold_protocol::packet::{messages, split};

fn header(kind: u16, length: u32) -> Vec<u8> {
    let mut bytes = b"FRHD".to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&7_u32.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes
}

/// What was understood is the one way to write what it says.
fn must_be_canonical(bytes: &[u8]) -> bool {
    let mut buffer = [0; LIMIT];
    let mut understood = false;
    if let Ok((serial, request)) = Request::decode(bytes) {
        let length = request.encode(serial, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], bytes, "{request:?}");
        understood = true;
    }
    if let Ok((serial, answer)) = Answer::decode(bytes) {
        let length = answer.encode(serial, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], bytes, "{answer:?}");
        understood = true;
    }
    understood
}

/// For each kind of message the length of what follows its header, with empty texts, and the values of zeros in it.
fn lengths(kind: u16) -> Vec<usize> {
    let understood = |length: &usize| {
        [0_u8, 1].iter().any(|fill| {
            let mut bytes = header(kind, u32::try_from(*length).unwrap());
            bytes.resize(HEADER + length, *fill);
            !matches!(
                Request::decode(&bytes),
                Err(Malformed::CutOff | Malformed::LeftOver | Malformed::Kind { .. })
            )
        })
    };
    (0..160).filter(understood).collect()
}

#[test]
fn every_kind_is_known_or_refused_by_its_number() {
    let mut known = 0;
    for kind in 0..=u16::MAX {
        let bytes = header(kind, 0);
        must_be_canonical(&bytes);
        match Request::decode(&bytes) {
            Err(Malformed::Kind { kind: found }) => assert_eq!(found, kind),
            _ => known += 1,
        }
    }
    assert!((26..100).contains(&known), "{known} requests");
}

#[test]
fn every_version_but_one_is_refused_by_its_number() {
    for theirs in (0..=u16::MAX).filter(|version| *version != VERSION) {
        let mut bytes = header(3, 0);
        bytes[4..6].copy_from_slice(&theirs.to_le_bytes());
        assert_eq!(Request::decode(&bytes), Err(Malformed::Version { theirs }));
        assert_eq!(Answer::decode(&bytes), Err(Malformed::Version { theirs }));
    }
}

/// Backgrounds before which bytes change.
const FILLS: &[u8] = if cfg!(debug_assertions) { &[0] } else { &[0, 1, 2, 0xff] };

/// Every byte of every kind of message takes every value, before several backgrounds.
#[test]
fn every_message_with_one_byte_changed_is_refused_or_means_what_it_says() {
    let mut understood = 0_u32;
    for kind in 1..=26 {
        for length in lengths(kind) {
            for fill in FILLS.iter().copied() {
                let mut bytes = header(kind, u32::try_from(length).unwrap());
                bytes.resize(HEADER + length, fill);
                for place in 0..bytes.len() {
                    let before = bytes[place];
                    for value in 0..=u8::MAX {
                        bytes[place] = value;
                        understood += u32::from(must_be_canonical(&bytes));
                    }
                    bytes[place] = before;
                }
            }
        }
    }
    assert!(understood > 10_000, "{understood} were understood");
}

/// Packets of up to some bytes, whose first message claims any length: nothing is lost, and it comes to an end.
#[test]
fn packets_come_apart_without_loss_whatever_lengths_they_claim() {
    let step = if cfg!(debug_assertions) { 7 } else { 1 };
    let extremes = [u32::MAX, u32::MAX - 15, u32::MAX - 16, 1 << 31];
    for size in 0..=LIMIT.min(200) {
        for claimed in (0..300).step_by(step).chain(extremes) {
            let mut packet = header(3, claimed);
            packet.resize(size, 0);
            let (first, rest) = split(&packet);
            assert_eq!(first.len() + rest.len(), packet.len());
            let claimed = claimed as usize;
            let whole = size >= HEADER && claimed.checked_add(HEADER).is_some_and(|end| end <= size);
            assert_eq!(first.len(), if whole { HEADER + claimed } else { size });
            assert_eq!(messages(&packet).map(<[u8]>::len).sum::<usize>(), packet.len());
        }
    }
}
