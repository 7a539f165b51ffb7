//! A checksum against accidents: wrong slots, torn writes, flipped bits. It is no defence against an adversary.

use crate::Record;

const LANES: usize = 4;
const WORD: usize = 8;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of `record` as stored in slot `slot`: the same bytes in another slot have another checksum.
///
/// Four independent lanes, so that a multiplier's latency is paid once for four words.
pub(crate) fn of(slot: u32, record: &Record) -> u64 {
    let mut lanes = [1_u64, 2, 3, 4].map(|lane| mix(u64::from(slot).wrapping_add(lane << 32)));
    for block in record.as_chunks::<{ WORD * LANES }>().0 {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<WORD>().0) {
            *lane = (*lane ^ u64::from_le_bytes(*word))
                .wrapping_mul(MULTIPLIER)
                .rotate_left(29);
        }
    }
    lanes.iter().fold(0, |sum, lane| mix(sum ^ lane))
}

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 31)).wrapping_mul(MULTIPLIER);
    word ^ (word >> 29)
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::RECORD_SIZE;

    #[test]
    fn every_flipped_bit_and_every_other_slot_shows() {
        let mut record = [0_u8; RECORD_SIZE];
        let sum = of(3, &record);
        assert_ne!(sum, of(4, &record));
        for bit in 0..RECORD_SIZE * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(3, &record), sum, "bit {bit}");
            record[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(of(3, &record), sum);
    }

    #[test]
    fn swapped_words_show() {
        let mut record = [0_u8; RECORD_SIZE];
        record[0] = 1;
        let first = of(0, &record);
        record[0] = 0;
        record[32] = 1;
        assert_ne!(of(0, &record), first);
    }
}
