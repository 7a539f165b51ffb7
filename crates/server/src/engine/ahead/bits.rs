//! A set of small numbers: pages of a file, or pieces of it.

use std::ops::Range;

/// A bit for each number, up to the last that is in it.
#[derive(Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn note(&mut self, number: u32) {
        let (word, bit) = place(number);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The first numbers in a range that follow each other and are not in here. O(numbers in the range).
    pub(super) fn next_missing(&self, range: &Range<u32>) -> Option<Range<u32>> {
        let start = range.clone().find(|number| !self.has(*number))?;
        let end = (start..range.end).find(|number| self.has(*number));
        Some(start..end.unwrap_or(range.end))
    }

    /// The first number from `from` on that is in here and not in `others`. O(words up to it).
    pub(super) fn next_beside(&self, others: &Self, from: u32) -> Option<u32> {
        let (first, bit) = place(from);
        let words = (0..).zip(&self.0).skip(first);
        words
            .map(|(at, word): (u32, _)| {
                let rest = if at as usize == first { !(bit - 1) } else { u64::MAX };
                let other = others.0.get(at as usize).copied().unwrap_or(0);
                (at, word & !other & rest)
            })
            .find(|(_, left)| *left != 0)
            .map(|(at, left)| at * u64::BITS + left.trailing_zeros())
    }
}

fn place(number: u32) -> (usize, u64) {
    ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn what_is_missing_is_found_in_runs() {
        let mut bits = Bits::default();
        for number in [3, 4, 63, 64, 70] {
            bits.note(number);
        }
        assert!(bits.has(64) && !bits.has(65) && !bits.has(1_000_000));
        assert_eq!(bits.next_missing(&(3..70)), Some(5..63));
        assert_eq!(bits.next_missing(&(63..70)), Some(65..70));
        assert_eq!(bits.next_missing(&(60..64)), Some(60..63));
        assert_eq!(bits.next_missing(&(63..65)), None);
        assert_eq!(bits.next_missing(&(71..71)), None);
        assert_eq!(bits.next_missing(&(900..910)), Some(900..910));
    }
}
