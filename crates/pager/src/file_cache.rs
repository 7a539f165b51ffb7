//! Where pages of files go that leave memory clean.

use freehold_core::fact::PageRef;
use freehold_linux::PAGE_SIZE;
use std::fmt;

/// Keeps pages of objects of kind file that leave memory clean, and gives them back before the store is asked: a page
/// is in memory or here, not in both.
///
/// Called in the signal handler of a task's thread, in the order in which the core decides: implementations allocate
/// nothing, and take no lock that the thread can have.
pub trait FileCache: Send + Sync + fmt::Debug {
    /// Takes a page, or does not.
    fn put(&self, page: PageRef, content: &[u8; PAGE_SIZE]);
    /// Gives a page back and forgets it; false where it is not here: what `content` holds then is undefined.
    fn get(&self, page: PageRef, content: &mut [u8; PAGE_SIZE]) -> bool;
}
