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

const FULL: EngineError = EngineError::Limit {
    what: "ranges that children do not inherit",
};

/// A range of addresses: start and end.
pub(crate) type Addresses = (u64, u64);

/// Ranges that one piece of advice holds for.
#[derive(Clone, Debug, Default)]
struct Ranges(Vec<Addresses>);

impl Ranges {
    fn add(&mut self, range: Addresses) {
        self.cut(range);
        self.0.push(range);
    }

    /// Takes a range out: what was there of it.
    fn cut(&mut self, range: Addresses) -> Vec<Addresses> {
        let (mut left, mut gone) = (Vec::new(), Vec::new());
        for one in std::mem::take(&mut self.0) {
            let (from, to) = (one.0.max(range.0), one.1.min(range.1));
            if from >= to {
                left.push(one);
                continue;
            }
            gone.push((from, to));
            left.extend([(one.0, from), (to, one.1)].into_iter().filter(|(from, to)| from < to));
        }
        self.0 = left;
        gone
    }

    fn shift(&mut self, (from, end): Addresses, to: u64) {
        let moved = self.cut((from, end));
        self.cut((to, end - from + to));
        let elsewhere = |(start, stop): Addresses| (start - from + to, stop - from + to);
        self.0.extend(moved.into_iter().map(elsewhere));
    }

    fn has(&self, address: u64) -> bool {
        self.0.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// What of some pieces is in none of the ranges.
    fn outside(&self, mut pieces: Vec<Addresses>) -> Vec<Addresses> {
        for (start, end) in &self.0 {
            let cut = pieces
                .into_iter()
                .flat_map(|(from, to)| [(from, to.min(*start)), (from.max(*end), to)]);
            pieces = cut.filter(|(from, to)| from < to).collect();
        }
        pieces
    }
}

/// The ranges of which children get no content. The two pieces of advice are given and taken back each by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Withheld {
    /// A child finds zeros there.
    wiped: Ranges,
    /// A child does not have them.
    left_out: Ranges,
}

impl Withheld {
    fn set(&mut self, range: Addresses, how: Inheritance) {
        match how {
            Inheritance::Content => drop(self.wiped.cut(range)),
            Inheritance::Zeros => self.wiped.add(range),
            Inheritance::Nothing => self.left_out.add(range),
            Inheritance::Mapping => drop(self.left_out.cut(range)),
        }
    }

    /// What holds for an address holds for a range, which has nothing of its own.
    fn set_alike(&mut self, range: Addresses, other: u64) {
        for ranges in [&mut self.wiped, &mut self.left_out] {
            ranges.cut(range);
            if ranges.has(other) {
                ranges.add(range);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.wiped.0.len() + self.left_out.0.len() >= MOST_RANGES
    }

    /// The range is unmapped: what is mapped there next is another's.
    pub(crate) fn cut(&mut self, range: Addresses) {
        self.wiped.cut(range);
        self.left_out.cut(range);
    }

    /// The range has moved.
    pub(crate) fn shift(&mut self, range: Addresses, to: u64) {
        self.wiped.shift(range, to);
        self.left_out.shift(range, to);
    }

    /// What of a range a child gets the content of.
    pub(crate) fn inherited(&self, range: Addresses) -> Vec<Addresses> {
        self.wiped.outside(self.mapped(range))
    }

    /// What of a range a child has, with its content or without.
    pub(crate) fn mapped(&self, range: Addresses) -> Vec<Addresses> {
        self.left_out.outside(vec![range])
    }

    /// The ranges of which a child gets no content.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Addresses> {
        self.wiped.0.iter().chain(&self.left_out.0).copied()
    }

    /// What holds for a child's own children: the kernel keeps the advice with what the child has.
    pub(crate) fn for_the_child(&self) -> Self {
        let has = self.wiped.0.iter().flat_map(|range| self.mapped(*range));
        Self {
            wiped: Ranges(has.collect()),
            left_out: Ranges::default(),
        }
    }
}

/// The range of a request, if it is one: whole pages.
pub(in crate::engine) fn addresses(address: u64, length: u64) -> Result<Addresses, EngineError> {
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
        let withheld = self.withheld_of(client)?;
        let takes_back = matches!(how, Inheritance::Content | Inheritance::Mapping);
        if !takes_back && withheld.is_full() {
            return Err(FULL);
        }
        withheld.set(range, how);
        Ok(())
    }

    /// Children of forks to come are to have of a range of private memory what they have of the memory at `other`.
    ///
    /// # Errors
    /// As [`inherit`](Self::inherit)'s.
    pub fn inherit_alike(
        &mut self,
        client: ClientId,
        address: u64,
        length: u64,
        other: u64,
    ) -> Result<(), EngineError> {
        let range = addresses(address, length)?;
        let withheld = self.withheld_of(client)?;
        if withheld.is_full() {
            return Err(FULL);
        }
        withheld.set_alike(range, other);
        Ok(())
    }

    fn withheld_of(&mut self, client: ClientId) -> Result<&mut Withheld, EngineError> {
        let row = self.client_mut(client).ok_or(EngineError::NoSuchClient)?;
        Ok(&mut row.family.withheld)
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
    fn the_last_word_of_each_advice_holds_and_what_is_unmapped_is_forgotten() {
        let mut withheld = some();
        withheld.set((12, 35), Inheritance::Content);
        assert_eq!(withheld.inherited((0, 50)), [(0, 10), (12, 30), (40, 50)]);
        withheld.set((12, 35), Inheritance::Mapping);
        assert_eq!(withheld.inherited((0, 50)), [(0, 10), (12, 35), (40, 50)]);
        withheld.cut((0, 11));
        assert_eq!(withheld.ranges().collect::<Vec<_>>(), [(11, 12), (35, 40)]);
    }

    #[test]
    fn neither_advice_takes_the_other_back() {
        let mut withheld = Withheld::default();
        withheld.set((10, 20), Inheritance::Zeros);
        withheld.set((15, 30), Inheritance::Nothing);
        assert_eq!(withheld.mapped((0, 40)), [(0, 15), (30, 40)]);
        assert_eq!(withheld.for_the_child().inherited((0, 40)), [(0, 10), (15, 40)]);
        withheld.set((15, 30), Inheritance::Mapping);
        assert_eq!(withheld.mapped((0, 40)), [(0, 40)]);
        assert_eq!(withheld.inherited((0, 40)), [(0, 10), (20, 40)]);
    }

    #[test]
    fn what_moves_stays_withheld_and_what_grows_is_withheld_alike() {
        let mut withheld = some();
        withheld.shift((15, 25), 100);
        assert_eq!(withheld.inherited((0, 200)), [(0, 10), (15, 30), (40, 100), (105, 200)]);
        withheld.set_alike((105, 110), 104);
        withheld.set_alike((30, 35), 0);
        assert_eq!(withheld.inherited((0, 200)), [(0, 10), (15, 35), (40, 100), (110, 200)]);
    }
}
