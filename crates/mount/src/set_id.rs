//! Set-user-ID and set-group-ID bits (inode(7)): who changes a file without the right to leave them takes them away.
//!
//! The kernel does most of it before it asks. It leaves out the set-group-ID bit of a file that its group may not
//! execute, and that of an access list's file: both go, too, where the caller is not in the group.

use crate::attributes::status_of;
use crate::inode::Inode;
use crate::tree::Tree;
use fuser::Request;
use rustix::fd::AsFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::OsStr;

/// The bit of `CAP_FSETID` in a set of capabilities (capabilities(7)).
const KEEPS_SET_ID: u64 = 1 << 4;
/// The attribute that setfacl(1) sets for a file's own permissions (acl(5)).
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Who changes an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changer {
    thread: u32,
    user: u32,
    group: u32,
}

impl Changer {
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            thread: request.pid(),
            user: request.uid(),
            group: request.gid(),
        }
    }

    /// Takes the bits of a regular file whose content is changed by one who may not leave them.
    ///
    /// # Errors
    /// What chmod(2) was refused with.
    pub(crate) fn strip(self, inode: &Inode) -> Result<(), Errno> {
        take(inode, self.going(inode)?)
    }

    /// The bits of a regular file that go where this one changes its content, its size or its owner.
    ///
    /// # Errors
    /// What statx(2) was refused with.
    pub(crate) fn going(self, inode: &Inode) -> Result<Mode, Errno> {
        let status = status_of(inode.place.as_fd())?;
        let bits = status.mode() & (Mode::SUID | Mode::SGID);
        if bits.is_empty() || !status.kind.is_file() {
            return Ok(Mode::empty());
        }
        let rights = self.rights();
        if self.keeps(&rights) {
            return Ok(Mode::empty());
        }
        let stays = !status.mode().contains(Mode::XGRP) && self.is_in(&rights, status.group());
        Ok(if stays { bits - Mode::SGID } else { bits })
    }

    /// The set-group-ID bit goes where one who may not leave it has set an access list.
    ///
    /// # Errors
    /// What chmod(2) was refused with.
    pub(crate) fn strip_listed(self, inode: &Inode, attribute: &OsStr) -> Result<(), Errno> {
        if attribute != ACCESS_LIST {
            return Ok(());
        }
        let status = status_of(inode.place.as_fd())?;
        if !status.mode().contains(Mode::SGID) {
            return Ok(());
        }
        let rights = self.rights();
        if self.is_in(&rights, status.group()) || self.keeps(&rights) {
            return Ok(());
        }
        take(inode, Mode::SGID)
    }

    /// What the kernel says of the thread, which waits for the answer meanwhile; nothing of one that is not to be seen.
    fn rights(self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.thread)).unwrap_or_default()
    }

    fn is_in(self, rights: &str, group: u32) -> bool {
        let groups = field(rights, "Groups:").unwrap_or_default();
        self.group == group || groups.split_ascii_whitespace().any(|other| other.parse() == Ok(group))
    }

    /// Whether it has `CAP_FSETID`, which counts in the user name space of the mount alone.
    fn keeps(self, rights: &str) -> bool {
        let Some(set) = field(rights, "CapEff:") else {
            return self.user == 0;
        };
        let has = u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & KEEPS_SET_ID != 0);
        let space = |thread: &str| std::fs::read_link(format!("/proc/{thread}/ns/user")).ok();
        has && space(&self.thread.to_string()) == space("self")
    }
}

/// Takes these bits of an inode's mode, if it has any of them.
///
/// # Errors
/// What chmod(2) was refused with.
pub(crate) fn take(inode: &Inode, going: Mode) -> Result<(), Errno> {
    if going.is_empty() {
        return Ok(());
    }
    let mode = status_of(inode.place.as_fd())?.mode();
    if !mode.intersects(going) {
        return Ok(());
    }
    rustix::fs::chmod(Tree::path_of(inode), mode - going)
}

fn field<'a>(rights: &'a str, name: &str) -> Option<&'a str> {
    rights.lines().find_map(|line| line.strip_prefix(name))
}
