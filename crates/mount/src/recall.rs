//! Pages for mappings and running programs: the kernel is given them, and a thread of its own takes them back.
//!
//! A fill that finds no frames waits here, and the thread that took it goes on to answer others. It holds pages locked
//! meanwhile, so what is taken back must not wait for it: fills that reach into what is about to be taken back are
//! answered first, out of the reserve.

use crate::content::State;
use crate::files::Files;
use crate::inode::Inode;
use crate::kernel_pages::Run;
use crate::own::PAGE;
use crate::page_cache::Room;
use crate::reading::Served;
use freehold_linux::thread::{self, Thread};
use fuser::{Errno as Refusal, ReplyData};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Pages taken back together: 1 MiB.
const BATCH: usize = 256;
/// How long pages of files that may change stay: many are taken back together then.
const URGENT: Duration = Duration::from_millis(1);
/// How often the thread looks by itself.
const LOOK: Duration = Duration::from_millis(100);

/// A read that fills pages of the kernel.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) inode: Arc<Inode>,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) reply: ReplyData,
}

impl Fill {
    fn pages(&self) -> Range<u64> {
        let end = self.offset.saturating_add(u64::from(self.size));
        self.offset / PAGE as u64..end.div_ceil(PAGE as u64)
    }
}

impl Files {
    /// Answers a fill, or keeps it until there are frames.
    pub(crate) fn fill(self: &Arc<Self>, fill: Fill) {
        if let Err(error) = self.lease(&fill.inode, false) {
            return fill.reply.error(Refusal::from_i32(error.raw_os_error()));
        }
        let inode = Arc::clone(&fill.inode);
        inode.content.mixed.note_filled();
        let state = inode.content.read();
        let urgent = state.still().is_none();
        {
            let mut cache = self.cache();
            let mut gone = Vec::new();
            if cache.give_to_kernel(inode.number, &fill.pages(), urgent, &mut |page| gone.push(page)) == Room::Wait {
                // Under the lock: what is taken back next must know of it.
                self.waiting().push(fill);
                drop(cache);
                self.wanted.notify_one();
                return;
            }
            self.put_victims(cache, gone);
        }
        self.cool();
        self.answer(fill, &state);
        drop(state);
        self.wake_recall();
    }

    fn answer(self: &Arc<Self>, fill: Fill, state: &State) {
        let served = self.read(&fill.inode, state, (fill.offset, fill.size), &fill.inode.content.fills);
        match served.and_then(Served::for_pages) {
            Ok(bytes) => {
                if fill.offset == 0 {
                    fill.inode.content.note_text(&bytes);
                }
                fill.reply.data(&bytes);
            }
            Err(error) => fill.reply.error(Refusal::from_i32(error.raw_os_error())),
        }
    }

    fn recall(self: &Arc<Self>) {
        while !self.stop.load(Ordering::Relaxed) {
            let (runs, urgent) = self.next_runs();
            if urgent {
                std::thread::sleep(URGENT);
            }
            for run in runs {
                self.take_back(run);
            }
            let waiting = std::mem::take(&mut *self.waiting());
            for fill in waiting {
                self.fill(fill);
            }
        }
    }

    /// What is to be taken back; sleeps where there is nothing.
    fn next_runs(&self) -> (Vec<Run>, bool) {
        let find = || {
            let cache = self.cache();
            let waiting = !self.waiting().is_empty();
            (cache.to_take_back(BATCH, waiting), cache.is_urgent())
        };
        let found = find();
        if !found.0.is_empty() {
            return found;
        }
        let waiting = self.waiting();
        if waiting.is_empty() {
            drop(
                self.wanted
                    .wait_timeout(waiting, LOOK)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        find()
    }

    fn take_back(self: &Arc<Self>, run: Run) {
        let (stamp, met) = {
            let mut cache = self.cache();
            let stamp = cache.begin_taking_back(run.clone());
            let mut waiting = self.waiting();
            let all = std::mem::take(&mut *waiting);
            let (met, others): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|fill| run.meets(fill.inode.number, &fill.pages()));
            *waiting = others;
            (stamp, met)
        };
        for fill in met {
            self.fill(fill);
        }
        // Where the kernel refuses, the mount is at its end, and so are its pages.
        self.drop_pages(run.inode, &run.pages);
        self.cache().end_taking_back(stamp);
    }
}

/// Starts the thread that takes pages back.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<Thread<()>, Errno> {
    let files = Arc::clone(files);
    thread::spawn("recall", move || files.recall()).map_err(|_| Errno::AGAIN)
}
