//! The files behind objects, as clients bring them.

use crate::closing::{Closing, LentFile};
use crate::engine::objects::Identity;
use crate::error::EngineError;
use crate::victims::{CachedFile, Victims};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A regular file that is open for reading, and which it is. Both are found once, by the thread that brings it: the
/// engine asks no file system. Whoever drops the last of them closes nothing himself.
#[derive(Clone, Debug)]
pub struct SourceFile {
    file: LentFile,
    identity: Identity,
    /// Its pages may be cached when they leave.
    cached: Option<CachedFile>,
}

impl SourceFile {
    /// Looks at a descriptor that a process of this user has sent. The file system is asked only for what it knows
    /// without asking others; still, look at which it is before.
    ///
    /// # Errors
    /// [`EngineError::Descriptor`] where it is not a regular file open for reading, or empty; [`EngineError::System`].
    pub(crate) fn identify(
        file: OwnedFd,
        user: u32,
        closing: &Closing,
        victims: Option<&Victims>,
    ) -> Result<Self, EngineError> {
        let mut found = identity(&file)?;
        let own = reopen(&file);
        // A lease on what others have open would be theirs to give up.
        let victims = victims.filter(|_| own.is_ok());
        let file = Arc::new(closing.lend(user, own.unwrap_or(file)));
        let leased = victims.map(|victims| victims.lease(&file, || identity(&file)));
        let cached = leased.transpose()?.flatten().map(|(still, cached)| {
            found = still;
            cached
        });
        Ok(Self {
            file,
            identity: found,
            cached,
        })
    }

    /// The descriptor.
    pub(super) fn file(&self) -> LentFile {
        Arc::clone(&self.file)
    }

    /// As what its pages may be cached.
    pub(super) fn cached(&self) -> Option<CachedFile> {
        self.cached
    }

    /// Which file it is.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }
}

/// The same file with flags of the server's own: who shares a descriptor can make every read of it an error
/// (`O_DIRECT`), for all who map the file. A server that may not open the file itself reads through what it was sent.
fn reopen(file: &OwnedFd) -> Result<OwnedFd, rustix::io::Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Nobody's lease is waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Which file a descriptor is of, if it can be served.
fn identity(file: &OwnedFd) -> Result<Identity, EngineError> {
    let wrong = |why| EngineError::Descriptor { what: "the file", why };
    let unseen = EngineError::system("the file cannot be looked at");
    let flags = rustix::fs::fcntl_getfl(file).map_err(&unseen)?;
    if flags & OFlags::ACCMODE == OFlags::WRONLY || flags.contains(OFlags::PATH) {
        return Err(wrong("it is not open for reading"));
    }
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(file, "", how, StatxFlags::BASIC_STATS).map_err(&unseen)?;
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
        return Err(wrong("it is not a regular file"));
    }
    if found.stx_size == 0 {
        return Err(wrong("it is empty"));
    }
    Ok(Identity {
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        size: found.stx_size,
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    })
}

#[cfg(test)]
mod tests {
    use super::SourceFile;
    use crate::closing::Closing;
    use rustix::fs::{Mode, OFlags, fcntl_getfl};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_read_with_flags_that_nobody_shares() {
        let closing = Closing::start().unwrap();
        let path = std::env::temp_dir().join(format!("freehold-source-file-{}", std::process::id()));
        std::fs::write(&path, "content").unwrap();
        let known = std::fs::metadata(&path).unwrap();
        let sent = rustix::fs::open(&path, OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let shared = sent.try_clone().unwrap();
        let source = SourceFile::identify(sent, 0, &closing, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        rustix::fs::fcntl_setfl(&shared, OFlags::NONBLOCK | OFlags::APPEND).unwrap();
        let flags = fcntl_getfl(&**source.file()).unwrap();
        assert!(!flags.intersects(OFlags::APPEND | OFlags::RDWR), "{flags:?}");
        let found = source.identity();
        assert_eq!((found.device, found.inode, found.size), (known.dev(), known.ino(), 7));
        assert_eq!(
            found.changed,
            (known.ctime(), u32::try_from(known.ctime_nsec()).unwrap())
        );
    }

    #[test]
    fn what_is_no_file_to_read_is_refused() {
        let closing = Closing::start().unwrap();
        let refused = |sent| SourceFile::identify(sent, 0, &closing, None).unwrap_err().to_string();
        let (pipe, writing) = rustix::pipe::pipe().unwrap();
        assert!(refused(pipe).contains("not a regular file"));
        assert!(refused(writing).contains("not open for reading"));
        let path = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        assert!(refused(path).contains("not open for reading"));
        let empty = rustix::fs::memfd_create("empty", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert!(refused(empty).contains("empty"));
    }
}
