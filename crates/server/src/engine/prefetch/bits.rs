//! A set of small numbers: pieces of a file.

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
