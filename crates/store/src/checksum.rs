//! A checksum against accidents: wrong slots, torn writes, flipped bits. It is no defence against an adversary.

use crate::Record;

const LANES: usize = 8;
const WORD: usize = 8;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of `record` as stored in slot `slot`: the same bytes in another slot have another checksum.
pub(crate) fn of(slot: u32, record: &Record) -> u64 {
    keyed([u64::from(slot), 0], record)
}

/// The checksum of `record` under a key: the same bytes under another key have another checksum. Against accidents; it
/// is no defence against an adversary.
///
/// Each step takes two words with one multiplication, in eight independent lanes, so that nothing waits for one.
#[must_use]
pub fn keyed(key: [u64; 2], record: &Record) -> u64 {
    let [first, second] = key;
    let first = if second == 0 {
        first
    } else {
        first ^ mix(second).rotate_left(17)
    };
    let mut lanes = [1_u64, 2, 3, 4, 5, 6, 7, 8].map(|lane| mix(first.wrapping_add(lane << 32)));
    for block in record.as_chunks::<{ 2 * WORD * LANES }>().0 {
        for (lane, pair) in lanes.iter_mut().zip(block.as_chunks::<{ 2 * WORD }>().0) {
            let [first, second] = words(*pair);
            *lane = fold(*lane ^ first, second ^ MULTIPLIER);
        }
    }
    lanes.iter().fold(0, |sum, lane| mix(sum.rotate_left(8) ^ lane))
}

/// The product of two words, of which no half is lost.
#[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ ((product >> 64) as u64)
}

fn words(pair: [u8; 2 * WORD]) -> [u64; 2] {
    let both = u128::from_le_bytes(pair);
    #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
    [both as u64, (both >> 64) as u64]
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

    /// Records that differ in one or two bits or in their slots, of zeros and of rubbish: no two are alike.
    #[test]
    fn similar_records_have_different_sums() {
        let mut sums = std::collections::BTreeSet::new();
        let (mut count, mut state) = (0, 1_u64);
        for rubbish in [false, true] {
            let mut record = [0_u8; RECORD_SIZE];
            if rubbish {
                record.fill_with(|| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state.to_le_bytes()[7]
                });
            }
            for bit in (0..RECORD_SIZE * 8).step_by(3) {
                record[bit / 8] ^= 1 << (bit % 8);
                for other in [0, 64, 8 * RECORD_SIZE / 2] {
                    record[other / 8] ^= 2;
                    sums.insert(of(7, &record));
                    record[other / 8] ^= 2;
                    count += 1;
                }
                record[bit / 8] ^= 1 << (bit % 8);
            }
            for slot in 0..1000 {
                sums.insert(of(slot, &record));
                count += 1;
            }
        }
        assert_eq!(sums.len(), count);
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
