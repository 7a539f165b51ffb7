//! Which mappings of files are of the server's objects.
//!
//! Objects that have the paths of their files lie on a file system of the server's own, which nothing else is on.
//! Others are memory objects, as anybody may have, and are known by their names.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::client::Client;
use crate::sys::maps::Line;
use crate::sys::{self, FileId};

/// The device of objects that have paths; 0 while none is known.
static DEVICE: AtomicU64 = AtomicU64::new(0);

/// Looks at an object that the server has opened.
pub(super) fn look(client: &Client, memory: i32) {
    if DEVICE.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let (Ok(object), Ok(without_path)) = (sys::identity(memory), sys::identity(client.descriptors.transfer))
        && device(object) != device(without_path)
    {
        DEVICE.store(device(object), Ordering::Relaxed);
    }
}

/// Whether a mapping, whose path is known, is of such an object.
pub(crate) fn is_served(line: &Line<'_>) -> bool {
    line.path.starts_with(b"/memfd:freehold-file:") || is_of_device(line.file, DEVICE.load(Ordering::Relaxed))
}

fn is_of_device(file: FileId, known: u64) -> bool {
    known != 0 && file.inode != 0 && device(file) == known
}

fn device(file: FileId) -> u64 {
    u64::from(file.major) << 32 | u64::from(file.minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_known_by_their_device_once_it_is_known() {
        let file = |major, minor, inode| FileId { major, minor, inode };
        let known = device(file(0, 39, 1));
        assert!(is_of_device(file(0, 39, 7), known));
        for other in [file(39, 0, 7), file(0, 40, 7), file(0, 39, 0)] {
            assert!(!is_of_device(other, known), "{other:?}");
        }
        assert!(!is_of_device(file(0, 0, 7), 0));
    }
}
