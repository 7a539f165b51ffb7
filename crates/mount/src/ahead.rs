//! Reading ahead, by threads of its own: pages come into the cache before they are asked for, and never take the place
//! of a page that was used more than once.

use crate::files::Files;
use crate::inode::Inode;
use crate::own::PageKey;
use freehold_linux::thread;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// Threads: while one has pages copied, the device reads for the other.
const THREADS: usize = 2;

/// Pages to be read ahead, told to their content ([`Content::begin_ahead`](crate::content::Content::begin_ahead)).
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) inode: Arc<Inode>,
    /// The content that is meant.
    pub(crate) file: u64,
    pub(crate) pages: Range<u32>,
}

/// Starts the threads. They end with the last sender.
///
/// # Errors
/// One cannot be started.
pub(crate) fn start(files: &Arc<Files>, wanted: Receiver<Ahead>) -> Result<(), Errno> {
    let wanted = Arc::new(Mutex::new(wanted));
    for _ in 0..THREADS {
        let (files, wanted) = (Arc::downgrade(files), Arc::clone(&wanted));
        let run = move || {
            while let Some(ahead) = next(&wanted) {
                if let Some(files) = files.upgrade() {
                    files.read_ahead(&ahead);
                }
                // Whoever waits for these pages reads what did not come.
                ahead.inode.content.end_ahead(&ahead.pages);
            }
        };
        drop(thread::spawn("read-ahead", run).map_err(|_| Errno::AGAIN)?);
    }
    Ok(())
}

fn next(wanted: &Mutex<Receiver<Ahead>>) -> Option<Ahead> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl Files {
    fn read_ahead(&self, ahead: &Ahead) {
        // Not behind somebody who waits to change it: a reader that waits for these pages would be waited for.
        let Some(state) = ahead.inode.content.try_read() else {
            return;
        };
        let Some((reader, lease)) = state.still().filter(|(_, lease)| lease.file == ahead.file) else {
            return;
        };
        let key = |page| PageKey { file: lease.file, page };
        let absent: Vec<u32> = {
            let cache = self.cache();
            ahead.pages.clone().filter(|page| !cache.has(key(*page))).collect()
        };
        // An error is told to whoever reads the page for use.
        if let Ok(Some(fetched)) = self.fetch(reader, lease, &absent) {
            let mut room = true;
            self.take_in(fetched, |cache, page, gone| {
                room = room && cache.insert_ahead(page.key, page.bytes, &mut |page| gone.push(page));
            });
        }
    }
}
