//! Pages read from the files behind their objects.
//!
//! What is in the page cache is read at once, the rest by threads of its own. Neighbours of a page that was faulted on
//! are gathered and read together, straight into their frames: one by one each costs two system calls and a copy more.

use crate::engine::Engine;
use crate::engine::objects::file_readers::Job;
use crate::engine::objects::victim_pages::{CachedPages, FileSource};
use crate::engine::transfers::completion_queue::FileEnd;
use crate::engine::transfers::describe;
use freehold_core::fact::{PageRef, Request};
use freehold_driver::End;
use freehold_linux::{PAGE_SIZE, PageRange};
use freehold_store::PageLease;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;

/// Pages that are to be read together.
#[derive(Debug, Default)]
pub(in crate::engine) struct Gathered {
    gathers: bool,
    pages: Vec<PageRef>,
}

impl Engine {
    /// From now on pages of files are gathered.
    pub(in crate::engine) fn gather_reads(&mut self) {
        self.prefetcher.gathered.gathers = true;
    }

    /// Gathers a page, if that is what is done now; else it is to be read at once.
    pub(in crate::engine) fn gather(&mut self, page: PageRef) -> bool {
        if self.prefetcher.gathered.gathers {
            self.prefetcher.gathered.pages.push(page);
        }
        self.prefetcher.gathered.gathers
    }

    /// Reads what was gathered, neighbours together.
    pub(in crate::engine) fn read_gathered(&mut self) {
        self.prefetcher.gathered.gathers = false;
        let mut pages = std::mem::take(&mut self.prefetcher.gathered.pages);
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
        self.prefetcher.gathered.pages = pages;
    }

    /// Reads neighbouring pages of one file.
    fn read_run(&mut self, run: &[PageRef]) {
        let source = run.first().and_then(|page| self.source_of(page.object()));
        let Some(source) = source else {
            for page in run {
                self.end(*page, Request::Fill, End::Failed);
            }
            return;
        };
        self.drop_left();
        let cache = source.cache();
        let mut rest = run;
        while !rest.is_empty() {
            let misses = rest
                .iter()
                .take_while(|page| !self.take_victim(**page, (&source, cache), 0))
                .count();
            let (missed, others) = rest.split_at_checked(misses).unwrap_or((rest, &[]));
            self.read_missed(missed, &source, 0);
            rest = others.get(1..).unwrap_or_default();
        }
    }

    /// Reads neighbouring pages that are nowhere but in the file.
    fn read_missed(&mut self, run: &[PageRef], source: &FileSource, urgency: u8) {
        let done = self.read_cached(run, source);
        for (at, page) in run.iter().enumerate() {
            if at < done {
                self.end(*page, Request::Fill, End::Done);
            } else {
                self.read_single(*page, source, urgency);
            }
        }
    }

    /// Reads pages straight into their frames, as far as the page cache has them one after the other: how many.
    fn read_cached(&mut self, run: &[PageRef], source: &FileSource) -> usize {
        let [first, _, ..] = run else { return 0 };
        if self.io.readers.declares_latency() {
            return 0;
        }
        let page = first.page().get() as usize;
        let (range, offset) = (PageRange::new(page, run.len()), page as u64 * crate::PAGE);
        let mut byte = [0];
        let flags = source.flags() | ReadWriteFlags::NOWAIT;
        if rustix::io::preadv2(&**source.file, &mut [IoSliceMut::new(&mut byte)], offset, flags) != Ok(1) {
            // Not in the page cache, or a file system that cannot say: no frames for nothing.
            return 0;
        }
        self.drop_left();
        let Some(memory) = self.object(first.object()).and_then(|object| object.memory()) else {
            return 0;
        };
        if self.with_headroom(|| memory.populate(range)).is_err() {
            return 0;
        }
        let read = memory
            .read_cached(range, &**source.file, offset, source.flags())
            .unwrap_or(0);
        // The end of the last page is zeros, as fresh frames are.
        let whole = read as u64 >= source.size.saturating_sub(offset);
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

    /// Takes a page from the victim cache, or reads it.
    pub(in crate::engine) fn read_file(&mut self, page: PageRef, source: &FileSource, urgency: u8) {
        // What has left in this step is put before it is asked for.
        self.drop_left();
        if !self.take_victim(page, (source, source.cache()), urgency) {
            self.read_single(page, source, urgency);
        }
    }

    /// Takes a page from the victim cache, at once or by a thread of its own; false where it is not there.
    fn take_victim(
        &mut self,
        page: PageRef,
        (source, cache): (&FileSource, Option<CachedPages<'_>>),
        urgency: u8,
    ) -> bool {
        let Some(cache) = cache else { return false };
        let mut loan = self.loan();
        match cache.try_get(page, &mut loan) {
            Some(true) => self.enter_page(page, loan),
            Some(false) => {
                self.give_back(loan);
                return false;
            }
            None => self.read_apart((page, source), urgency, loan, false),
        }
        true
    }

    /// Reads a page that the victim cache has not got from the kernel's page cache, or by a thread of its own.
    fn read_single(&mut self, page: PageRef, source: &FileSource, urgency: u8) {
        let mut loan = self.loan();
        if self.read_from_kernel(page, source, &mut loan) {
            self.enter_page(page, loan);
        } else {
            self.read_apart((page, source), urgency, loan, true);
        }
    }

    fn enter_page(&mut self, page: PageRef, loan: PageLease) {
        let placed = self.place(page, &loan);
        self.give_back(loan);
        self.end(page, Request::Fill, if placed { End::Done } else { End::Failed });
    }

    fn read_apart(&self, (page, source): (PageRef, &FileSource), urgency: u8, loan: PageLease, missed: bool) {
        self.io.readers.submit(Job {
            urgency,
            source: source.clone(),
            page,
            pager: self.step.pager,
            loan,
            missed,
        });
    }

    /// Reads a page, if the kernel's page cache has it and the file system can say so. Where the file is read past that
    /// cache, the kernel begins to read the page that it has not, and drops it when it has been read.
    fn read_from_kernel(&self, page: PageRef, source: &FileSource, loan: &mut PageLease) -> bool {
        if self.io.readers.declares_latency() {
            return false;
        }
        let offset = u64::from(page.page().get()) * crate::PAGE;
        let wanted = usize::try_from(source.size.saturating_sub(offset))
            .unwrap_or(PAGE_SIZE)
            .min(PAGE_SIZE);
        let bytes = loan.bytes_mut();
        let flags = source.flags() | ReadWriteFlags::NOWAIT;
        let mut parts = [IoSliceMut::new(bytes.get_mut(..wanted).unwrap_or_default())];
        let whole = rustix::io::preadv2(&**source.file, &mut parts, offset, flags) == Ok(wanted);
        bytes.get_mut(wanted..).unwrap_or_default().fill(0);
        whole
    }

    pub(in crate::engine) fn file_ended(&mut self, FileEnd { page, result }: FileEnd) {
        match result {
            Ok(loan) => self.enter_page(page, loan),
            Err(errno) => {
                self.notice(format!("a file could not be read: {}", describe(errno)));
                self.end(page, Request::Fill, End::Failed);
            }
        }
    }
}
