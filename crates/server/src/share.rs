//! How the users of one server share a table: one rule for every table that somebody can fill.
//!
//! Root and the server's own user may take everything, and a part of each table is theirs alone. Of the rest a third is
//! *floors*, equal parts for sixteen users: whatever others have done, each of the first sixteen gets its floor. Two
//! thirds are lent: a user may have three times as much of them as it leaves, so that the next one finds some too. The
//! more users there are, the less each gets.

/// Users who have a floor.
const FLOORS: u64 = 16;
/// The part of what others than root may have that is floors, one in so many.
const FLOOR_SHARE: u64 = 3;
/// A user may borrow so many times what it leaves.
const LENT: u64 = 3;

/// A table, as others than root and the server's own user may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Rows that all of them may have together.
    rows: u64,
    floors: u64,
}

impl Share {
    /// Of a table of `size` rows, of which others may have so many percent.
    pub(crate) fn of(size: u64, percent: u8) -> Self {
        Self {
            rows: size.saturating_mul(u64::from(percent.min(100))) / 100,
            floors: FLOORS,
        }
    }

    /// What each of the first users may have, whatever the others do.
    fn floor(self) -> u64 {
        self.rows / FLOOR_SHARE / self.floors
    }

    /// The most that one user may have, beside others who have so much each.
    pub(crate) fn most(self, others: impl IntoIterator<Item = u64>) -> u64 {
        let others: Vec<u64> = others.into_iter().filter(|has| *has > 0).collect();
        let count = others.len() as u64;
        let floor = self.floor();
        let taken: u64 = others.iter().map(|has| (*has).max(floor)).sum();
        let to_come = floor * self.floors.saturating_sub(count + 1);
        let left = self.rows.saturating_sub(taken).saturating_sub(to_come);
        match left.checked_sub(floor) {
            Some(lent) => floor + lent * LENT / (LENT + 1),
            None => left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FLOORS, Share};
    use std::collections::BTreeSet;

    /// Users of the exhaustive test; one of them more than there are floors.
    const USERS: usize = 4;
    const SMALL: Share = Share { rows: 18, floors: 3 };

    fn most(share: Share, has: &[u64; USERS], user: usize) -> u64 {
        share.most((0..USERS).filter(|other| *other != user).map(|other| has[other]))
    }

    fn present(has: &[u64; USERS]) -> usize {
        has.iter().filter(|has| **has > 0).count()
    }

    /// Every state that users can reach, who take as much at a time as they like and give back what they like.
    fn reachable() -> BTreeSet<[u64; USERS]> {
        let mut seen = BTreeSet::from([[0; USERS]]);
        let mut open = vec![[0; USERS]];
        while let Some(has) = open.pop() {
            for user in 0..USERS {
                for next in 0..=most(SMALL, &has, user).max(has[user]) {
                    let mut after = has;
                    after[user] = next;
                    if seen.insert(after) {
                        open.push(after);
                    }
                }
            }
        }
        seen
    }

    #[test]
    fn whatever_users_do_each_of_as_many_as_have_floors_gets_its_own() {
        let all = reachable();
        assert!(all.len() > 1_000, "{}", all.len());
        let floor = SMALL.floor();
        assert_eq!(floor, 2);
        for has in &all {
            assert!(has.iter().sum::<u64>() <= SMALL.rows, "{has:?}");
            for user in 0..USERS {
                let users = present(has) + usize::from(has[user] == 0);
                let most = most(SMALL, has, user);
                assert!(
                    users as u64 > SMALL.floors || most >= floor,
                    "{has:?}: {most} for {user}"
                );
            }
        }
    }

    #[test]
    fn the_more_others_have_the_less_one_may_have() {
        for has in reachable() {
            for user in 1..USERS {
                let mut more = has;
                more[user] += 1;
                assert!(most(SMALL, &more, 0) <= most(SMALL, &has, 0), "{has:?}");
            }
        }
    }

    #[test]
    fn users_who_come_one_after_the_other_all_get_something() {
        let share = Share::of(8_192, 75);
        let mut has: Vec<u64> = Vec::new();
        for _ in 0..FLOORS {
            let most = share.most(has.iter().copied());
            assert!(most >= 128, "{has:?}");
            has.push(most);
        }
        assert!(has.windows(2).all(|pair| pair[0] >= pair[1]), "{has:?}");
        assert!(has[0] > 3_000, "{has:?}");
        assert!(has.iter().sum::<u64>() <= 8_192 * 3 / 4);
    }
}
