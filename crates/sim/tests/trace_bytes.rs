//! Traces that are damaged at random places. The fuzz target of the same name goes on from here.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "common/trace_bytes.rs"]
mod trace_bytes;

const WHOLE: &str = "t_us,app,kind,dev,ino,page,npages\n1,x,F,1:0,7,3,4\n2,x,M,1:0,7,0,16\n3,a,+,0:0,0,0,0\n\
                     4,x,R,1:1,9,8,2\n5,x,D,1:0,7,0,9\n6,b,+,0:0,0,0,3\n7,x,A,1:0,7,3,1\n8,x,F,1:0,8,0,30\n\
                     9,a,-,0:0,0,0,0\n10,x,F,1:0,7,0,20\n11,b,-,0:0,0,0,0\n";
const CSV: &str = "1.5,one,4096\n2,two,8192\n3,one,4096\n4,three,1\n";

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A byte other than it was, a part left out, or a part twice.
fn damage(bytes: &mut Vec<u8>, state: &mut u64) {
    let length = bytes.len() as u64;
    let (one, other) = (next(state) % length, next(state) % length);
    let range = usize::try_from(one.min(other)).unwrap()..usize::try_from(one.max(other)).unwrap();
    match next(state) % 4 {
        0 => drop(bytes.drain(range)),
        1 => bytes.extend_from_within(range),
        2 => bytes[range.start] = b"0123456789,.-+:\nFMRDA"[usize::try_from(next(state) % 21).unwrap()],
        _ => bytes[range.start] = next(state).to_le_bytes()[0],
    }
}

#[test]
fn damaged_traces_are_refused_or_replayed_with_every_page_counted() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..6000_u64 {
        let mut state = seed;
        let first = next(&mut state).to_le_bytes()[0];
        let text = if first % 5 < 2 { WHOLE } else { CSV };
        let mut bytes = vec![first];
        bytes.extend_from_slice(text.as_bytes());
        for _ in 0..next(&mut state) % 4 {
            damage(&mut bytes, &mut state);
            if bytes.is_empty() {
                break;
            }
        }
        if trace_bytes::run(&bytes) {
            good += 1;
        } else {
            bad += 1;
        }
    }
    assert!(good > 500 && bad > 500, "{good} traces, {bad} refused");
}
