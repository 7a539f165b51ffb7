//! The processes that are recorded: one, and all that descend from it.

use std::collections::BTreeSet;

use super::row::Field;

/// Their numbers, of threads too: a sample of a fork does not say which of the two it begins.
#[derive(Debug)]
pub(super) struct Family {
    members: BTreeSet<u32>,
    /// Whose children are members by [`Family::add`] only.
    recorder: u32,
    child: Field,
}

impl Family {
    /// Nobody; `recorder` begins the first, and `child` is where a fork's sample has the number of what it begins.
    pub(super) fn new(recorder: u32, child: Field) -> Self {
        Self {
            members: BTreeSet::new(),
            recorder,
            child,
        }
    }

    pub(super) fn add(&mut self, process: u32) {
        self.members.insert(process);
    }

    pub(super) fn has(&self, process: u32) -> bool {
        self.members.contains(&process)
    }

    /// What a process of theirs begins is theirs. What a stranger begins is not, though a dead member had its number.
    pub(super) fn begun(&mut self, parent: u32, child: u32) {
        if self.has(parent) {
            self.members.insert(child);
        } else if parent != self.recorder {
            self.members.remove(&child);
        }
    }

    /// Whom a fork begins.
    pub(super) fn child(&self, fields: &[u8]) -> Option<u32> {
        self.child.number(fields).and_then(|number| u32::try_from(number).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, Field};

    #[test]
    fn descendants_belong_and_who_takes_a_dead_members_number_does_not() {
        let mut family = Family::new(5, Field::at(0, 4));
        family.add(10);
        // The recorder adds whom it has begun, and learns of that fork only afterwards.
        family.begun(5, 10);
        family.begun(10, 11);
        family.begun(11, 12);
        family.begun(99, 100);
        assert!(family.has(12) && !family.has(100));
        family.begun(99, 12);
        assert!(!family.has(12));
    }
}
