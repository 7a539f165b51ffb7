//! `freehold mount`: the files of a directory at another place, over a page cache of a given size and a victim cache.
//!
//! Any unmodified program uses the mount (FUSE). What programs read lies in own pages of this process, in exact order
//! of use; what they map or run, in the kernel's, which are counted and taken back. Own and kernel pages together never
//! exceed the size ([`page_cache`]). Own pages that are evicted go to device memory ([`freehold_ecache::Cache`]), and
//! are looked for there before the file is read, past the kernel's page cache ([`reader`]).
//!
//! What is cached is what the file is: each cached file is held by a read lease, which its writer waits for
//! ([`coherence`]). A file without one is read anew each time.
//!
//! # Locks, outermost first
//! `Content::state` of one inode → `Files::cache` → `Files::waiting`; the victim cache's own lock and the slab's inside
//! all of them. No lock is held while the kernel is told to drop pages; that of a file's [`growth::End`] alone, outside
//! all others, while a byte is stored in its pages.
#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "the page is read with the sources")]

mod ahead;
mod answering;
mod aside;
mod attributes;
mod coherence;
#[cfg(test)]
mod concurrent;
mod content;
mod crowd;
mod directory;
mod files;
mod filesystem;
mod growth;
mod inode;
mod kernel_pages;
mod mixed;
mod mount;
mod opening;
mod own;
mod page_cache;
mod page_index;
mod place;
mod reader;
mod reading;
mod recall;
mod removed;
mod replies;
mod scratch;
mod set_id;
mod source;
mod status;
mod tree;

pub use mount::{Mount, MountError, Options, Watcher};
pub use place::TakenOff;
pub use source::SourceError;
pub use status::{MountRow, PageCacheRow};
