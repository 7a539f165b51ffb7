//! Reading ahead, by a thread of its own: pages come into the cache before they are asked for, and never take the place
//! of a page that was used more than once.

use crate::files::{Files, victim_key};
use crate::inode::Inode;
use crate::own::{Evicted, PageKey};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

/// Pages to be read ahead.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) inode: Arc<Inode>,
    /// The content that is meant.
    pub(crate) file: u64,
    pub(crate) pages: Range<u32>,
}

/// Starts the thread. It ends with the last sender.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>, wanted: Receiver<Ahead>) -> Result<JoinHandle<()>, Errno> {
    let files = Arc::downgrade(files);
    let run = move || {
        while let Ok(ahead) = wanted.recv() {
            let Some(files) = files.upgrade() else { return };
            files.read_ahead(&ahead);
        }
    };
    let thread = std::thread::Builder::new().name("read-ahead".to_owned());
    thread.spawn(run).map_err(|_| Errno::AGAIN)
}

impl Files {
    fn read_ahead(&self, ahead: &Ahead) {
        let state = ahead.inode.content.read();
        let Some((reader, lease)) = state.still().filter(|(_, lease)| lease.file == ahead.file) else {
            return;
        };
        let key = |page| PageKey { file: lease.file, page };
        let absent: Vec<u32> = {
            let cache = self.cache();
            ahead.pages.clone().filter(|page| !cache.has(key(*page))).collect()
        };
        let (Some(first), Some(last)) = (absent.first(), absent.last()) else {
            return;
        };
        ahead.inode.content.begin_ahead(*first..*last + 1);
        // An error is told to whoever reads the page for use.
        if let Ok(Some(fetched)) = self.fetch(reader, lease, absent) {
            let mut cache = self.cache();
            let mut room = true;
            for page in fetched {
                self.victims.flush_page(victim_key(page.key));
                let mut evicted = |gone: Evicted| self.put_victim(&gone);
                room = room && cache.insert_ahead(page.key, page.bytes, &mut evicted);
            }
        }
        ahead.inode.content.end_ahead();
    }
}
