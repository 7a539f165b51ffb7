//! Pages read from the files behind their objects.
//!
//! What is in the page cache is read at once, the rest by threads of its own. Neighbours of a page that was faulted on
//! are gathered and read together, straight into their frames: one by one each costs two system calls and a copy more.

use crate::closing::LentFile;
use crate::engine::Engine;
use crate::engine::ends::FileEnd;
use crate::engine::readers::Job;
use crate::engine::rows::Content;
use crate::engine::transfers::describe;
use freehold_core::fact::{PageRef, Request};
use freehold_driver::End;
use freehold_linux::{PAGE_SIZE, PageRange};
use rustix::fd::OwnedFd;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::sync::Arc;

/// Pages that are to be read together.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    gathers: bool,
    pages: Vec<PageRef>,
}

impl Engine {
    /// From now on pages of files are gathered.
    pub(super) fn gather_reads(&mut self) {
        self.along.gathered.gathers = true;
    }

    /// Gathers a page, if that is what is done now; else it is to be read at once.
    pub(super) fn gather(&mut self, page: PageRef) -> bool {
        if self.along.gathered.gathers {
            self.along.gathered.pages.push(page);
        }
        self.along.gathered.gathers
    }

    /// Reads what was gathered, neighbours together.
    pub(super) fn read_gathered(&mut self) {
        self.along.gathered.gathers = false;
        let mut pages = std::mem::take(&mut self.along.gathered.pages);
        let mut rest = &pages[..];
        while let Some(first) = rest.first() {
            let follows = |(at, page): &(u32, &PageRef)| {
                page.object() == first.object() && page.page().get() == first.page().get() + at
            };
            let count = (0..).zip(rest).take_while(follows).count();
            let (run, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            self.read_run(run);
            rest = others;
        }
        pages.clear();
        self.along.gathered.pages = pages;
    }

    /// Reads neighbouring pages of one file.
    fn read_run(&mut self, run: &[PageRef]) {
        let Some((file, size)) = run.first().and_then(|page| self.file_of(*page)) else {
            for page in run {
                self.end(*page, Request::Fill, End::Failed);
            }
            return;
        };
        let done = self.read_cached(run, &file, size);
        for (at, page) in run.iter().enumerate() {
            if at < done {
                self.end(*page, Request::Fill, End::Done);
            } else {
                self.read_file(*page, Arc::clone(&file), size, 0);
            }
        }
    }

    fn file_of(&self, page: PageRef) -> Option<(LentFile, u64)> {
        match self.object(page.object()).map(|object| &object.content) {
            Some(Content::File {
                file: Some(file),
                identity,
                ..
            }) => Some((Arc::clone(file), identity.size)),
            _ => None,
        }
    }

    /// Reads pages straight into their frames, as far as the page cache has them one after the other: how many.
    fn read_cached(&mut self, run: &[PageRef], file: &OwnedFd, size: u64) -> usize {
        let [first, _, ..] = run else { return 0 };
        if self.readers.declares_latency() {
            return 0;
        }
        let page = first.page().get() as usize;
        let (range, offset) = (PageRange::new(page, run.len()), page as u64 * crate::PAGE);
        let mut byte = [0];
        if rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) != Ok(1) {
            // Not in the page cache, or a file system that cannot say: no frames for nothing.
            return 0;
        }
        self.drop_frames();
        let Some(memory) = self.object(first.object()).and_then(|object| object.memory()) else {
            return 0;
        };
        if self.with_headroom(|| memory.populate(range)).is_err() {
            return 0;
        }
        let read = memory.read_cached(range, file, offset).unwrap_or(0);
        // The end of the last page is zeros, as fresh frames are.
        let whole = read as u64 >= size.saturating_sub(offset);
        let done = if whole {
            read.div_ceil(PAGE_SIZE)
        } else {
            read / PAGE_SIZE
        }
        .min(run.len());
        if done < run.len() {
            let left = PageRange::new(page + done, run.len() - done);
            if memory.punch(left).is_err() {
                self.notice("a frame could not be given back");
            }
        }
        done
    }

    pub(super) fn read_file(&mut self, page: PageRef, file: LentFile, size: u64, urgency: u8) {
        let mut loan = self.loan();
        let offset = u64::from(page.page().get()) * crate::PAGE;
        let wanted = usize::try_from(size.saturating_sub(offset))
            .unwrap_or(PAGE_SIZE)
            .min(PAGE_SIZE);
        let bytes = loan.bytes_mut();
        let mut parts = [IoSliceMut::new(bytes.get_mut(..wanted).unwrap_or_default())];
        let cached = if self.readers.declares_latency() {
            None
        } else {
            rustix::io::preadv2(&file, &mut parts, offset, ReadWriteFlags::NOWAIT).ok()
        };
        match cached {
            Some(count) if count == wanted => {
                bytes.get_mut(wanted..).unwrap_or_default().fill(0);
                let placed = self.place(page, &loan);
                self.give_back(loan);
                self.end(page, Request::Fill, if placed { End::Done } else { End::Failed });
            }
            // Not in the page cache, or a file system that cannot say.
            _ => self.readers.submit(Job {
                urgency,
                file,
                page,
                pager: self.pager,
                loan,
            }),
        }
    }

    pub(super) fn file_ended(&mut self, FileEnd { page, result }: FileEnd) {
        let done = match result {
            Ok(loan) => {
                let placed = self.place(page, &loan);
                self.give_back(loan);
                placed
            }
            Err(errno) => {
                self.notice(format!("a file could not be read: {}", describe(errno)));
                false
            }
        };
        self.end(page, Request::Fill, if done { End::Done } else { End::Failed });
    }
}
