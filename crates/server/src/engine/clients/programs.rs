//! How many programs clients are: a forked child that connects has two rows for a while.
//!
//! The first row begins with the fork. The second begins as the child connects, of which nobody knows yet whose child
//! it is, and takes over what the first one has. A child that has a place must find both rows.

use crate::engine::clients::Client;
use crate::engine::keys::ClientRole;

/// Rows of a user's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Programs {
    rows: u64,
    /// Of children that have not connected.
    unconnected: u64,
    /// Of programs that have nothing yet: each may be a child that connects.
    new: u64,
}

impl Programs {
    pub(super) fn add(&mut self, client: &Client) {
        let unconnected = client.family.parent.is_some();
        let new = !unconnected && client.process.role == ClientRole::Program && client.tasks.is_empty();
        self.rows += 1;
        self.unconnected += u64::from(unconnected);
        self.new += u64::from(new);
    }

    /// How many they are at least.
    pub(super) fn count(self) -> u64 {
        self.rows - self.unconnected.min(self.new)
    }

    /// Whether another program that connects may be a child that has a row.
    pub(super) fn await_one(self) -> bool {
        self.new < self.unconnected
    }
}

#[cfg(test)]
mod tests {
    use super::Programs;

    fn programs(rows: u64, unconnected: u64, new: u64) -> Programs {
        Programs { rows, unconnected, new }
    }

    #[test]
    fn a_child_counts_once_before_and_after_it_connects() {
        // A parent, its child, and the child's second row; then it has taken over the first.
        let child = programs(2, 1, 0);
        assert!(child.await_one());
        let connects = programs(3, 1, 1);
        assert!(!connects.await_one());
        let connected = programs(2, 0, 0);
        assert_eq!([child, connects, connected].map(Programs::count), [2, 2, 2]);
    }

    #[test]
    fn what_nobody_forked_counts() {
        assert_eq!(programs(3, 0, 2).count(), 3);
        assert!(!programs(3, 0, 2).await_one());
        assert_eq!(programs(4, 1, 2).count(), 3);
    }
}
