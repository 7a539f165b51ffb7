//! What each user has of what is bounded. It is counted when it is charged for, and less when the charge is dropped:
//! so whatever ends, and however, its part returns.

use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a user can have only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connections,
    Tasks,
    Objects,
    Mappings,
    Pages,
    Frames,
}

const KINDS: usize = 6;

/// What one user has, by kind.
type Amounts = [u64; KINDS];

/// What all users have. Its lock is taken last: nothing else is locked or dropped while it is held.
#[derive(Debug)]
pub(crate) struct Accounts {
    users: PiMutex<BTreeMap<u32, Amounts>>,
}

/// A part of what a user may have, as long as this is there.
#[derive(Debug)]
#[must_use = "dropped, it returns"]
pub(crate) struct Charge {
    accounts: Arc<Accounts>,
    user: u32,
    kind: Kind,
    amount: u64,
}

/// The accounts, while something is decided by them.
pub(crate) struct Open<'a> {
    accounts: &'a Arc<Accounts>,
    users: PiGuard<'a, BTreeMap<u32, Amounts>>,
}

impl Accounts {
    /// Nobody has anything.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            users: PiMutex::new(BTreeMap::new()),
        })
    }

    /// Opens them: nobody else charges or returns anything meanwhile.
    pub(crate) fn open(self: &Arc<Self>) -> Open<'_> {
        Open {
            accounts: self,
            users: self.users.lock(),
        }
    }
}

impl Open<'_> {
    /// What a user has.
    pub(crate) fn has(&self, user: u32, kind: Kind) -> u64 {
        self.users.get(&user).map_or(0, |amounts| amounts[kind as usize])
    }

    /// What each user that has anything has of `kind`.
    pub(crate) fn each(&self, kind: Kind) -> impl Iterator<Item = (u32, u64)> {
        self.users
            .iter()
            .map(move |(user, amounts)| (*user, amounts[kind as usize]))
    }

    /// Charges a user for `amount` more, as long as that is no more than `limit` together; else nothing.
    pub(crate) fn charge(&mut self, user: u32, kind: Kind, amount: u64, limit: u64) -> Option<Charge> {
        let sum = self.has(user, kind).checked_add(amount).filter(|sum| *sum <= limit)?;
        self.users.entry(user).or_default()[kind as usize] = sum;
        Some(Charge {
            accounts: Arc::clone(self.accounts),
            user,
            kind,
            amount,
        })
    }
}

impl Charge {
    /// Whose it is.
    pub(crate) const fn user(&self) -> u32 {
        self.user
    }

    /// How much.
    pub(crate) const fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut users = self.accounts.users.lock();
        if let Some(amounts) = users.get_mut(&self.user) {
            let has = &mut amounts[self.kind as usize];
            *has = has.saturating_sub(self.amount);
            if *amounts == Amounts::default() {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_counts_until_it_is_dropped() {
        let accounts = Accounts::new();
        let first = accounts.open().charge(7, Kind::Tasks, 2, 3).unwrap();
        assert!(accounts.open().charge(7, Kind::Tasks, 2, 3).is_none());
        let second = accounts.open().charge(7, Kind::Tasks, 1, 3).unwrap();
        let other = accounts.open().charge(8, Kind::Frames, 5, u64::MAX).unwrap();
        assert_eq!((first.user(), first.amount(), second.amount()), (7, 2, 1));
        assert_eq!(accounts.open().has(7, Kind::Tasks), 3);
        assert_eq!(accounts.open().has(7, Kind::Objects), 0);
        drop(first);
        assert_eq!(accounts.open().has(7, Kind::Tasks), 1);
        let frames: Vec<_> = accounts.open().each(Kind::Frames).collect();
        assert_eq!(frames, [(7, 0), (8, 5)]);
        drop((second, other));
        assert_eq!(accounts.open().each(Kind::Tasks).count(), 0);
    }

    #[test]
    fn who_is_refused_has_no_row() {
        let accounts = Accounts::new();
        assert!(accounts.open().charge(7, Kind::Frames, 1, 0).is_none());
        assert_eq!(accounts.open().each(Kind::Frames).count(), 0);
        let all = accounts.open().charge(7, Kind::Frames, u64::MAX, u64::MAX).unwrap();
        assert!(accounts.open().charge(7, Kind::Frames, 1, u64::MAX).is_none());
        drop(all);
    }
}
