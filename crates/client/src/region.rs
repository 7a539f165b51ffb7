//! Regions: memory objects of the server.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use freehold_linux::PageRange;
use freehold_linux::memory::{Access, Memfd, MemfdError};
use freehold_protocol::message::{Answer, Regime, RegionKind, Request};

use crate::connection::Inner;
use crate::error::RequestError;
use crate::link::Link;

/// A region to be opened.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpec<'a> {
    /// Its name, among this user's regions. Root and the server's user name another user's with `UID:` before it.
    pub name: &'a str,
    /// Its size.
    pub pages: u32,
    /// Who it is for.
    pub kind: RegionKind,
    /// How it is shared; the first to open it decides.
    pub regime: Regime,
}

/// A region that is open. To touch its pages, map it for a task. Dropping it leaves its mappings.
#[derive(Debug)]
pub struct Region {
    inner: Arc<Inner>,
    object: Memfd,
    access: Access,
    handle: u32,
}

impl Region {
    pub(crate) fn open(
        inner: &Arc<Inner>,
        request: &Request<'_>,
        descriptors: &[BorrowedFd<'_>],
        access: Access,
    ) -> Result<Self, RequestError> {
        let opened = inner
            .link
            .ask(request, descriptors, |answer, descriptors| match answer {
                Answer::Opened { object, grant } => Some((object, grant.pages, descriptors.into_iter().next()?)),
                _ => None,
            })?;
        let (handle, pages, descriptor) = opened;
        let pages = usize::try_from(pages).map_err(|_| MemfdError::TooLong(usize::MAX))?;
        let object = Memfd::adopt(descriptor, pages)?;
        Ok(Self {
            inner: Arc::clone(inner),
            object,
            access,
            handle,
        })
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.object.pages()
    }

    /// Whether it can be written to.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    pub(crate) fn object(&self) -> (&Memfd, Access) {
        (&self.object, self.access)
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.inner.link
    }

    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    /// Whether there are pages in the range, and all of them here.
    pub(crate) fn has(&self, range: PageRange) -> bool {
        range.count() > 0 && range.fits(self.pages())
    }

    /// The connection, the object and its `pages` pages from page `first` on; none where they are not all here.
    pub(crate) fn place(&self, first: u32, pages: u32) -> Option<(&Arc<Link>, u32, u32, u32)> {
        let range = PageRange::new(usize::try_from(first).ok()?, usize::try_from(pages).ok()?);
        self.has(range).then_some((&self.inner.link, self.handle, first, pages))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Where this fails the object is given up with the connection.
        let _ = self.inner.link.ask_done(&Request::CloseObject { object: self.handle });
    }
}
