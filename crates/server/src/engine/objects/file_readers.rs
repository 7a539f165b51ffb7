//! Threads that read files that are not in the page cache, so that no step of the engine waits for a disk.
//!
//! # Who goes first
//! The most urgent job is read first, of equals the oldest. One thread takes nothing but jobs for which somebody
//! hurries, so that these wait for no read that nobody hurries for, however long a file system takes over it. A thread
//! has the real-time priority of pager threads while it reads for somebody who hurries, else it is time-shared; a read
//! that is under way is lifted with its thread.

use crate::engine::objects::victim_pages::FileSource;
use crate::engine::transfers::completion_queue::{CompletionQueue, FileEnd};
use crate::error::EngineError;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use freehold_linux::event::Event;
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{self, Policy};
use freehold_linux::thread;
use freehold_linux::{Errno, ThreadId};
use freehold_store::PageLease;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Threads that take any job.
const READERS: usize = 4;

/// A page to read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) urgency: u8,
    pub(crate) source: FileSource,
    pub(crate) page: PageRef,
    pub(crate) pager: usize,
    pub(crate) loan: PageLease,
    /// The victim cache was asked for the page, and has not got it.
    pub(crate) missed: bool,
}

/// How a page of a file is read.
type Read = fn(&FileSource, PageRef, &mut PageLease) -> Result<(), Errno>;

/// A read that is under way.
#[derive(Debug)]
struct Serving {
    thread: ThreadId,
    page: PageRef,
    boosted: bool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    serving: Vec<Serving>,
    ending: bool,
}

#[derive(Debug)]
struct Desk {
    queue: PiMutex<Queue>,
    /// Signalled once for each job.
    submitted: Event,
    /// Signalled once for each job for which somebody hurries.
    boost: Event,
    priority: u32,
    /// How long each read takes at the least: what is declared of the store holds for files too.
    latency: Duration,
}

/// The threads; dropping this lets them end when they have read what they are at.
#[derive(Debug)]
pub(crate) struct Readers {
    desk: Arc<Desk>,
}

impl Readers {
    /// Starts the threads; `priority` is the SCHED_FIFO priority of those that read for somebody who hurries. Where it
    /// is refused they are late where CPUs are busy: pager threads say so of the same priority.
    ///
    /// # Errors
    /// [`EngineError::Limit`], [`EngineError::System`].
    pub(crate) fn start(
        completions: &Arc<CompletionQueue>,
        priority: u32,
        latency: Duration,
    ) -> Result<Self, EngineError> {
        Self::start_with(completions, priority, latency, FileSource::get_or_read)
    }

    /// Whether reads take a declared time: what is in the page cache is not to be read past the threads then.
    pub(crate) fn declares_latency(&self) -> bool {
        !self.desk.latency.is_zero()
    }

    fn start_with(
        completions: &Arc<CompletionQueue>,
        priority: u32,
        latency: Duration,
        read: Read,
    ) -> Result<Self, EngineError> {
        let event = || Event::new().map_err(EngineError::system("an event descriptor could not be made"));
        let desk = Arc::new(Desk {
            queue: PiMutex::new(Queue::default()),
            submitted: event()?,
            boost: event()?,
            priority,
            latency,
        });
        for number in 0..=READERS {
            let (desk, completions) = (Arc::clone(&desk), Arc::clone(completions));
            let name = format!("freehold-read-{number}");
            let started = thread::spawn(&name, move || work(&desk, &completions, read, number == READERS));
            started.map_err(|_| EngineError::Limit { what: "threads" })?;
        }
        Ok(Self { desk })
    }

    /// Has a page read; the end is told to the pager thread named.
    pub(crate) fn submit(&self, job: Job) {
        let boosted = job.urgency > 0;
        self.desk.queue.lock().jobs.push(job);
        self.desk.submitted.signal(1);
        self.desk.boost.signal(u64::from(boosted));
    }

    /// Somebody more urgent waits for a page, which may be being read. O(jobs).
    pub(crate) fn lift(&self, object: ObjectId, page: PageIndex, urgency: u8) {
        let same = |found: PageRef| found.object() == object && found.page() == page;
        let mut queue = self.desk.queue.lock();
        if let Some(job) = queue.jobs.iter_mut().find(|job| same(job.page)) {
            let begins = job.urgency == 0;
            job.urgency = job.urgency.max(urgency);
            drop(queue);
            self.desk.boost.signal(u64::from(begins));
            return;
        }
        let serving = queue.serving.iter_mut().find(|serving| same(serving.page));
        if let Some(serving) = serving.filter(|serving| !serving.boosted) {
            // Under the lock, so that it does not outlast the read.
            serving.boosted = true;
            boost(serving.thread, self.desk.priority);
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.desk.queue.lock().ending = true;
        self.desk.submitted.signal(READERS as u64);
        self.desk.boost.signal(1);
    }
}

fn boost(thread: ThreadId, priority: u32) {
    // Without it the read is late where the CPU is busy, and nothing is wrong.
    let _ = sched::set_policy(thread, Policy::Fifo { priority });
}

/// Reads; `boosted`: only for those who are boosted.
fn work(desk: &Desk, completions: &CompletionQueue, read: Read, boosted: bool) {
    let event = if boosted { &desk.boost } else { &desk.submitted };
    // Without its event a thread would never be woken again.
    while event.wait().is_ok() {
        if desk.queue.lock().ending {
            return;
        }
        // Another thread may have been faster.
        let Some(mut job) = take(desk, boosted) else { continue };
        if !desk.latency.is_zero() {
            std::thread::sleep(desk.latency);
        }
        let read = if job.missed { FileSource::read } else { read };
        let result = read(&job.source, job.page, &mut job.loan).map(|()| job.loan);
        completions.file_ended(job.pager, FileEnd { page: job.page, result });
        leave(desk);
    }
}

/// Takes the most urgent job, of equals the oldest; the calling thread has the priority for it then.
fn take(desk: &Desk, boosted: bool) -> Option<Job> {
    let mut queue = desk.queue.lock();
    let job = queue.next(boosted)?;
    let thread = ThreadId::current();
    let boosted = job.urgency > 0;
    queue.serving.push(Serving {
        thread,
        page: job.page,
        boosted,
    });
    if boosted {
        boost(thread, desk.priority);
    }
    Some(job)
}

/// The calling thread has ended its read.
fn leave(desk: &Desk) {
    let thread = ThreadId::current();
    let mut queue = desk.queue.lock();
    let at = queue.serving.iter().position(|serving| serving.thread == thread);
    let boosted = at.is_some_and(|at| queue.serving.swap_remove(at).boosted);
    if boosted {
        // One's own priority can always be lowered.
        let _ = sched::set_policy(thread, Policy::Other { nice: 0 });
    }
}

impl Queue {
    fn next(&mut self, boosted: bool) -> Option<Job> {
        let jobs = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| !boosted || job.urgency > 0);
        let (at, _) = jobs.rev().max_by_key(|(_, job)| job.urgency)?;
        Some(self.jobs.remove(at))
    }
}

/// Reads until `bytes` are full or the file ends: how many.
pub(super) fn read_page(file: &OwnedFd, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let place = bytes.get_mut(done..).unwrap_or_default();
        match rustix::io::pread(file, &mut *place, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::{FileSource, Job, Queue, READERS, Readers};
    use crate::Settings;
    use crate::closing::{Closing, LentFile};
    use crate::engine::transfers::completion_queue::CompletionQueue;
    use freehold_core::effect::Effect;
    use freehold_core::fact::{Access, Fault, PageRef};
    use freehold_core::limits::{ObjectKind, ObjectSpec, Regime};
    use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};
    use freehold_linux::Errno;
    use freehold_linux::sched::{self, Policy};
    use freehold_store::PageLease;
    use rustix::fd::OwnedFd;
    use std::sync::Arc;
    use std::time::Duration;

    /// Pages of a file that a core wants: only a core makes them.
    fn pages(count: u32) -> Vec<PageRef> {
        let settings = Settings {
            pages: PageCount::new(65_536),
            ..Settings::new(FrameCount::new(64))
        };
        let mut core = crate::engine::limits(&settings).seal().unwrap();
        let spec = ObjectSpec {
            kind: ObjectKind::File,
            pages: PageCount::new(count),
            regime: Regime::Conserve,
        };
        let object = core.create_object(spec).unwrap();
        let wanted = (0..count).map(|page| {
            let task = core.add_task(None).unwrap();
            let fault = Fault {
                mapping: core.map(task, object).unwrap(),
                page: PageIndex::new(page),
                access: Access::Read,
            };
            core.handle_fault_for(Instant::ZERO, fault, task).unwrap();
            loop {
                if let Effect::Fill { page, .. } = core.poll_effect().expect("the page is to be filled") {
                    while core.poll_effect().is_some() {}
                    return page;
                }
            }
        });
        wanted.collect()
    }

    fn job(page: PageRef, urgency: u8, file: &LentFile) -> Job {
        Job {
            urgency,
            source: FileSource::plain(file),
            page,
            pager: 0,
            loan: PageLease::allocated(),
            missed: false,
        }
    }

    /// A file system that answers when the test says so: a byte for each read.
    fn read_from_pipe(source: &FileSource, _: PageRef, _: &mut PageLease) -> Result<(), Errno> {
        rustix::io::read(&**source.file, &mut [0; 1]).map(|_| ())
    }

    fn pipe() -> (LentFile, OwnedFd) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        (Arc::new(Closing::start().unwrap().lend(0, read)), write)
    }

    fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..20_000 {
            if let Some(found) = look() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("never: {what}");
    }

    #[test]
    fn the_most_urgent_is_read_first_and_of_equals_the_oldest() {
        let (file, _end) = pipe();
        let pages = pages(5);
        let urgencies = pages.iter().zip([0, 7, 0, 7, 3]);
        let mut queue = Queue {
            jobs: urgencies.map(|(page, urgency)| job(*page, urgency, &file)).collect(),
            ..Queue::default()
        };
        let mut order = Vec::new();
        while let Some(job) = queue.next(true) {
            order.push(job.page.page().get());
        }
        assert_eq!(order, [1, 3, 4], "only for those who are boosted");
        while let Some(job) = queue.next(false) {
            order.push(job.page.page().get());
        }
        assert_eq!(order, [1, 3, 4, 0, 2]);
    }

    #[test]
    fn who_hurries_waits_for_no_read_that_nobody_hurries_for() {
        let completions = Arc::new(CompletionQueue::new(1, 64).unwrap());
        let readers = Readers::start_with(&completions, 1, Duration::ZERO, read_from_pipe).unwrap();
        let pages = pages(6);
        let (stuck, release) = pipe();
        let (quick, answers) = pipe();
        rustix::io::write(&answers, &[0; 2]).unwrap();
        for page in &pages[..READERS] {
            readers.submit(job(*page, 0, &stuck));
        }
        let serving = || readers.desk.queue.lock().serving.len();
        until("all threads are stuck", || (serving() == READERS).then_some(()));
        readers.submit(job(pages[4], 9, &quick));
        let end = until("it is read", || completions.take_file(0));
        assert_eq!((end.page, end.result.is_ok()), (pages[4], true));
        // One that nobody was in need of at first.
        readers.submit(job(pages[5], 0, &quick));
        assert!(completions.take_file(0).is_none());
        readers.lift(pages[5].object(), pages[5].page(), 9);
        let end = until("it is read", || completions.take_file(0));
        assert_eq!(end.page, pages[5]);
        // One that is being read has its thread lifted until it has been.
        readers.lift(pages[0].object(), pages[0].page(), 9);
        let lifted: Vec<_> = {
            let queue = readers.desk.queue.lock();
            let lifted = queue.serving.iter().filter(|serving| serving.boosted);
            lifted.map(|serving| (serving.page, serving.thread)).collect()
        };
        assert_eq!(lifted.len(), 1);
        let (page, thread) = lifted[0];
        assert_eq!(page, pages[0]);
        match sched::policy(thread) {
            Ok(Policy::Fifo { priority: 1 }) => {}
            other => println!("passed over: no real-time priority here ({other:?})"),
        }
        rustix::io::write(&release, &[0; READERS]).unwrap();
        until("all have ended", || (serving() == 0).then_some(()));
        assert_eq!(sched::policy(thread).unwrap(), Policy::Other { nice: 0 });
    }
}
