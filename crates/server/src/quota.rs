//! Who may have how much: rights of users.
//!
//! The kernel says which user is at the other end of a socket. Root and the server's own user may do everything. Other
//! users have a quota of frames that they may reserve, none by default, and may be real-time only where they are named.

use freehold_core::units::FrameCount;
use std::collections::BTreeMap;

/// The quotas that a server is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// The server's own user.
    own: u32,
    /// Frames that a user who is not named may reserve.
    others: FrameCount,
    /// Users who are named: their frames. They may also be real-time.
    named: BTreeMap<u32, FrameCount>,
    /// Frames that all users but root and the server's own may reserve together.
    total: FrameCount,
}

/// What one user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Root, or the server's own user: no quotas, and everything is shown.
    pub privileged: bool,
    /// May have an urgency above 0.
    pub real_time: bool,
    /// Frames that all reservations of the user may have together.
    pub frames: FrameCount,
}

impl Quotas {
    /// Quotas of a server that runs as `own`: everything for it and root, `others` frames for everybody else.
    #[must_use]
    pub fn new(own: u32, others: FrameCount) -> Self {
        Self {
            own,
            others,
            named: BTreeMap::new(),
            total: FrameCount::new(u32::MAX),
        }
    }

    /// Bounds what all users but root and the server's own may reserve together.
    pub fn limit_all(&mut self, frames: FrameCount) {
        self.total = frames;
    }

    /// What they may reserve together.
    #[must_use]
    pub fn total(&self) -> FrameCount {
        self.total
    }

    /// The user as who a process counts: its own, or the owner of its user name space, where `owner` is one. Whoever
    /// may have user name spaces may own many users. What root and the server's own user made is for others: it counts
    /// as the user that the process has.
    #[must_use]
    pub fn counted_as(&self, user: u32, owner: Option<u32>) -> u32 {
        let owner = owner.filter(|owner| !self.rights(*owner).privileged && !self.rights(user).privileged);
        owner.unwrap_or(user)
    }

    /// Gives `user` a quota of its own, and the right to be real-time.
    pub fn allow(&mut self, user: u32, frames: FrameCount) {
        self.named.insert(user, frames);
    }

    /// Whether any user but root and the server's own may have anything.
    #[must_use]
    pub fn serves_others(&self) -> bool {
        !self.others.is_zero() || !self.named.is_empty()
    }

    /// What `user` may do.
    #[must_use]
    pub fn rights(&self, user: u32) -> Rights {
        if user == 0 || user == self.own {
            return Rights {
                privileged: true,
                real_time: true,
                frames: FrameCount::new(u32::MAX),
            };
        }
        let named = self.named.get(&user);
        Rights {
            privileged: false,
            real_time: named.is_some(),
            frames: named.copied().unwrap_or(self.others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_as_who_owns_its_name_space() {
        let quotas = Quotas::new(1000, FrameCount::new(16));
        let counted = [
            (100_000, Some(1001)),
            (1002, None),
            (100_000, Some(0)),
            (100_000, Some(1000)),
            (0, Some(1001)),
        ];
        let counted = counted.map(|(user, owner)| quotas.counted_as(user, owner));
        assert_eq!(counted, [1001, 1002, 100_000, 100_000, 0]);
    }

    #[test]
    fn rights_follow_the_user() {
        let mut quotas = Quotas::new(1000, FrameCount::new(16));
        quotas.allow(1001, FrameCount::new(64));
        for user in [0, 1000] {
            let rights = quotas.rights(user);
            assert!(rights.privileged && rights.real_time && rights.frames.get() == u32::MAX);
        }
        let named = quotas.rights(1001);
        assert_eq!(
            (named.privileged, named.real_time, named.frames.get()),
            (false, true, 64)
        );
        let other = quotas.rights(1002);
        assert_eq!(
            (other.privileged, other.real_time, other.frames.get()),
            (false, false, 16)
        );
        assert!(quotas.serves_others());
        assert!(!Quotas::new(0, FrameCount::ZERO).serves_others());
    }
}
