//! What a program keeps from the children of its forks (`MADV_WIPEONFORK`, `MADV_DONTFORK`).
//!
//! The kernel knows it of what is in the page table. What is elsewhere the server would give to a child, so it is told
//! of such ranges, and follows what becomes of them.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::error::EngineError;
use freehold_protocol::message::Inheritance;

/// Ranges of one client, at most.
const MOST_RANGES: usize = 4_096;

/// A range of addresses: start and end.
pub(crate) type Addresses = (u64, u64);

/// The ranges of which children get no content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Withheld {
    ranges: Vec<(Addresses, Inheritance)>,
}

impl Withheld {
    fn set(&mut self, range: Addresses, how: Inheritance) {
        self.cut(range);
        if how != Inheritance::Content {
            self.ranges.push((range, how));
        }
    }

    /// The range is unmapped: what is mapped there next is another's. What was withheld of it.
    pub(crate) fn cut(&mut self, range: Addresses) -> Vec<(Addresses, Inheritance)> {
        let (mut left, mut gone) = (Vec::new(), Vec::new());
        for (one, how) in std::mem::take(&mut self.ranges) {
            let (from, to) = (one.0.max(range.0), one.1.min(range.1));
            if from >= to {
                left.push((one, how));
                continue;
            }
            gone.push(((from, to), how));
            let rest = [(one.0, from), (to, one.1)].into_iter().filter(|(from, to)| from < to);
            left.extend(rest.map(|rest| (rest, how)));
        }
        self.ranges = left;
        gone
    }

    /// The range has moved.
    pub(crate) fn shift(&mut self, (from, end): Addresses, to: u64) {
        let moved = self.cut((from, end));
        self.cut((to, end - from + to));
        let elsewhere = |(start, stop): Addresses| (start - from + to, stop - from + to);
        self.ranges
            .extend(moved.into_iter().map(|(range, how)| (elsewhere(range), how)));
    }

    /// What of a range a child gets the content of.
    pub(crate) fn inherited(&self, range: Addresses) -> Vec<Addresses> {
        self.outside(range, |_| true)
    }

    /// What of a range a child has, with its content or without.
    pub(crate) fn mapped(&self, range: Addresses) -> Vec<Addresses> {
        self.outside(range, |how| how == Inheritance::Nothing)
    }

    fn outside(&self, range: Addresses, counts: impl Fn(Inheritance) -> bool) -> Vec<Addresses> {
        let mut pieces = vec![range];
        for ((start, end), _) in self.ranges.iter().filter(|(_, how)| counts(*how)) {
            let cut = pieces
                .into_iter()
                .flat_map(|(from, to)| [(from, to.min(*start)), (from.max(*end), to)]);
            pieces = cut.filter(|(from, to)| from < to).collect();
        }
        pieces
    }

    /// The ranges of which a child gets no content.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Addresses> {
        self.ranges.iter().map(|(range, _)| *range)
    }

    /// What holds for a child's own children: the kernel keeps the advice with what the child has.
    pub(crate) fn for_the_child(&self) -> Self {
        let kept = self.ranges.iter().filter(|(_, how)| *how == Inheritance::Zeros);
        Self {
            ranges: kept.copied().collect(),
        }
    }
}

/// The range of a request, if it is one: whole pages.
pub(super) fn addresses(address: u64, length: u64) -> Result<Addresses, EngineError> {
    let aligned = address.is_multiple_of(crate::PAGE) && length.is_multiple_of(crate::PAGE) && length > 0;
    let end = address.checked_add(length).filter(|_| aligned);
    let end = end.ok_or(EngineError::Range { what: "private memory" })?;
    Ok((address, end))
}

impl Engine {
    /// What children of forks to come are to have of a range of private memory.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::Range`], [`EngineError::Limit`].
    pub fn inherit(
        &mut self,
        client: ClientId,
        address: u64,
        length: u64,
        how: Inheritance,
    ) -> Result<(), EngineError> {
        let range = addresses(address, length)?;
        let row = self.client_mut(client).ok_or(EngineError::NoSuchClient)?;
        let withheld = &mut row.family.withheld;
        if how != Inheritance::Content && withheld.ranges.len() >= MOST_RANGES {
            return Err(EngineError::Limit {
                what: "ranges that children do not inherit",
            });
        }
        withheld.set(range, how);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Withheld {
        let mut withheld = Withheld::default();
        withheld.set((10, 20), Inheritance::Zeros);
        withheld.set((30, 40), Inheritance::Nothing);
        withheld
    }

    #[test]
    fn a_child_gets_what_is_not_withheld() {
        let withheld = some();
        assert_eq!(withheld.inherited((0, 50)), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(withheld.mapped((0, 50)), [(0, 30), (40, 50)]);
        assert_eq!(withheld.inherited((12, 18)), []);
        assert_eq!(withheld.for_the_child().ranges().collect::<Vec<_>>(), [(10, 20)]);
    }

    #[test]
    fn the_last_word_holds_and_what_is_unmapped_is_forgotten() {
        let mut withheld = some();
        withheld.set((12, 35), Inheritance::Content);
        assert_eq!(withheld.inherited((0, 50)), [(0, 10), (12, 35), (40, 50)]);
        withheld.cut((0, 11));
        assert_eq!(withheld.ranges().collect::<Vec<_>>(), [(11, 12), (35, 40)]);
    }

    #[test]
    fn what_moves_stays_withheld() {
        let mut withheld = some();
        withheld.shift((15, 25), 100);
        assert_eq!(withheld.inherited((0, 200)), [(0, 10), (15, 30), (40, 100), (105, 200)]);
    }
}
