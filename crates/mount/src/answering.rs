//! Answers that may take long: they are given by another thread, so that the one that took the request goes on.

use crate::attributes::{self, Changes};
use crate::files::Files;
use crate::inode::Inode;
use crate::replies::{NEVER, refusal, tell_entry, tell_open};
use crate::set_id::{Changer, take};
use crate::tree::Entry;
use freehold_linux::thread;
use fuser::{INodeNo, OpenAccMode, OpenFlags, ReplyAttr, ReplyEntry, ReplyOpen};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::sync::{Arc, Mutex};

/// The file system.
#[derive(Debug)]
pub(crate) struct Mounted(pub(crate) Arc<Files>);

impl Mounted {
    pub(crate) fn tell_attributes(&self, number: u64, reply: ReplyAttr) {
        let found = self.0.tree.inodes.get(number).and_then(|inode| {
            let status = attributes::status_of(rustix::fd::AsFd::as_fd(&inode.place))?;
            self.0.note_size(&inode, status.size());
            Ok((inode, status.attributes(number)?))
        });
        match found {
            Ok((inode, attributes)) if self.0.may_pass_over(&inode, attributes.size) => {
                self.elsewhere(move |mounted| {
                    mounted.0.store_end(&inode, attributes.size);
                    reply.attr(&NEVER, &attributes);
                })
            }
            Ok((_, attributes)) => reply.attr(&NEVER, &attributes),
            Err(error) => reply.error(refusal(error)),
        }
    }

    /// Answers a request that takes a descriptor, once there is room for one. `folder`: what the kernel holds until
    /// then.
    pub(crate) fn with_room(&self, folder: Option<INodeNo>, work: impl FnOnce(&Self) + Send + 'static) {
        // Nobody is overtaken: who waits would wait for ever where others take each descriptor that comes back.
        if self.0.aside.is_empty() && self.0.may_open() {
            return work(self);
        }
        let folder = folder.map(|folder| folder.0);
        self.0.put_aside(folder, move |files| work(&Mounted(Arc::clone(files))));
    }

    pub(crate) fn tell_found(&self, entry: Result<Entry, Errno>, reply: ReplyEntry) {
        if let Ok((inode, status)) = &entry {
            self.0.note_size(inode, status.size());
        }
        tell_entry(reply, entry);
    }

    /// Answers in a thread of its own; in this one where none can be had.
    fn elsewhere(&self, work: impl FnOnce(&Mounted) + Send + 'static) {
        let shared = Mounted(Arc::clone(&self.0));
        let work = Mutex::new(Some(work));
        let work = Arc::new(work);
        let take = |work: &Mutex<Option<_>>| work.lock().ok().and_then(|mut work| work.take());
        let theirs = Arc::clone(&work);
        let started = thread::spawn("write", move || {
            if let Some(work) = take(&theirs) {
                work(&shared);
            }
        });
        if started.is_err()
            && let Some(work) = take(&work)
        {
            work(self);
        }
    }

    pub(crate) fn open_file(&self, inode: &Arc<Inode>, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return tell_open(reply, self.0.open_to_read(inode, flags.0));
        }
        if self.0.begin_writing(inode) {
            return tell_open(reply, self.0.open_to_write(inode, flags.0));
        }
        let inode = Arc::clone(inode);
        self.elsewhere(move |mounted| tell_open(reply, mounted.0.open_to_write(&inode, flags.0)));
    }

    /// Does what waits for the kernel's pages: one at a time in a thread that answers requests, since the others answer
    /// those that it waits for.
    pub(crate) fn mix(&self, work: impl FnOnce(&Self) + Send + 'static) {
        if let Ok(_alone) = self.0.mixes_here.try_lock() {
            return work(self);
        }
        self.elsewhere(work);
    }

    pub(crate) fn set_size(
        &self,
        number: u64,
        handle: Option<u64>,
        size: u64,
        then: impl FnOnce(&Self, Result<(), Errno>) + Send + 'static,
    ) {
        let inode = match self.0.tree.inodes.get(number) {
            Ok(inode) => inode,
            Err(error) => return then(self, Err(error)),
        };
        if self.0.begin_writing(&inode) {
            let outcome = self.0.set_size(&inode, handle, size);
            return then(self, outcome);
        }
        self.elsewhere(move |mounted| {
            let outcome = mounted.0.set_size(&inode, handle, size);
            then(mounted, outcome);
        });
    }

    /// Changes what an inode is like. `changer`: who changed its size, or changes its owner.
    pub(crate) fn change(&self, number: u64, changes: &Changes, changer: Option<Changer>, reply: ReplyAttr) {
        let inode = self.0.tree.inodes.get(number);
        let changed = inode.and_then(|inode| {
            // Judged by the group that the file has before.
            let going = changer.map(|changer| changer.going(&inode)).transpose()?;
            changes.apply(&inode)?;
            take(&inode, going.unwrap_or(Mode::empty()))
        });
        match changed {
            Ok(()) => self.tell_attributes(number, reply),
            Err(error) => reply.error(refusal(error)),
        }
    }
}
