//! A FIFO that a process has open, and what waits for data or room in it.

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{Errno, PollEvents, PollNotifier, ReplyData, ReplyWrite};

use crate::directory::{Directory, Kind};
use crate::fifo::peer::{ProcessSide, WriteError};

/// How often what waits is looked at without having been woken: the kernel does not tell of signals.
const WATCH: Duration = Duration::from_millis(50);

/// An open FIFO.
pub(super) struct Opened {
    side: ProcessSide,
    /// Where writes go, if not to the same.
    pair: Option<ProcessSide>,
    directory: Directory,
    number: u64,
    queue: Mutex<Queue>,
    changed: Condvar,
    ended: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    poll: Option<PollNotifier>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A read or a write of a process that is not answered.
pub(super) enum Waiting {
    Read {
        reply: ReplyData,
        most: usize,
        thread: u32,
    },
    Write {
        reply: ReplyWrite,
        data: Vec<u8>,
        done: usize,
        thread: u32,
    },
}

impl Waiting {
    pub(super) fn read(reply: ReplyData, most: u32, thread: u32) -> Self {
        Self::Read {
            reply,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            thread,
        }
    }

    pub(super) fn write(reply: ReplyWrite, data: &[u8], thread: u32) -> Self {
        Self::Write {
            reply,
            data: data.to_vec(),
            done: 0,
            thread,
        }
    }

    fn thread(&self) -> u32 {
        match self {
            Self::Read { thread, .. } | Self::Write { thread, .. } => *thread,
        }
    }

    /// Answers what cannot go on.
    fn give_up(self, error: Errno) {
        match self {
            Self::Read { reply, .. } => reply.error(error),
            Self::Write { reply, done: 0, .. } => reply.error(error),
            Self::Write { reply, done, .. } => reply.written(u32::try_from(done).unwrap_or(u32::MAX)),
        }
    }
}

impl Opened {
    /// Opens; a thread of its own answers what has to wait.
    pub(super) fn begin(
        side: ProcessSide,
        pair: Option<ProcessSide>,
        directory: Directory,
        number: u64,
    ) -> std::io::Result<Arc<Self>> {
        side.set_opened(true);
        let opened = Arc::new(Self {
            side,
            pair,
            directory,
            number,
            queue: Mutex::new(Queue::default()),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&opened);
        let thread = std::thread::Builder::new()
            .name(format!("rtf{number}"))
            .stack_size(128 * 1024);
        thread.spawn(move || own.serve())?;
        Ok(opened)
    }

    /// The process has closed it.
    pub(super) fn end(&self) {
        self.side.set_opened(false);
        self.ended.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn used(&self) -> u64 {
        self.side.used()
    }

    fn writes_to(&self) -> &ProcessSide {
        self.pair.as_ref().unwrap_or(&self.side)
    }

    /// What can be done without waiting.
    pub(super) fn events(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        if self.used() > 0 {
            events |= PollEvents::POLLIN;
        }
        if self.writes_to().may_write() && self.writes_to().room() > 0 {
            events |= PollEvents::POLLOUT;
        }
        events
    }

    /// Has a process that polls be told when something changes.
    pub(super) fn notify_with(&self, notifier: PollNotifier) {
        self.lock().poll = Some(notifier);
        self.changed.notify_all();
    }

    /// Answers `request` if it can be, or if it may not wait; otherwise later.
    pub(super) fn submit(&self, request: Waiting, may_wait: bool) {
        let mut queue = self.lock();
        if !queue.waiting.is_empty() {
            queue.waiting.push_back(request);
            return;
        }
        if let Some(request) = self.attempt(request, may_wait) {
            queue.waiting.push_back(request);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers `request`, or gives it back where it has to wait.
    fn attempt(&self, request: Waiting, may_wait: bool) -> Option<Waiting> {
        match request {
            Waiting::Read { reply, most, thread } => {
                let there = usize::try_from(self.used()).unwrap_or(usize::MAX);
                let mut bytes = vec![0; most.min(there)];
                let count = self.side.read(&mut bytes);
                if count == 0 && most > 0 && may_wait {
                    return Some(Waiting::Read { reply, most, thread });
                }
                reply.data(&bytes[..count]);
                // An empty read of a FIFO that does not wait is one too.
                self.side.tell_handler();
                None
            }
            Waiting::Write {
                reply,
                data,
                mut done,
                thread,
            } => {
                let result = self.writes_to().write(&data[done..]);
                done += result.unwrap_or(0);
                match result {
                    Err(WriteError::OtherDirection) => reply.error(Errno::EACCES),
                    Err(WriteError::Full) if !may_wait && done == 0 => reply.error(Errno::EAGAIN),
                    _ if done < data.len() && may_wait => {
                        return Some(Waiting::Write {
                            reply,
                            data,
                            done,
                            thread,
                        });
                    }
                    _ => reply.written(u32::try_from(done).unwrap_or(u32::MAX)),
                }
                self.writes_to().tell_handler();
                None
            }
        }
    }

    /// Answers what waits, until the FIFO is closed.
    fn serve(&self) {
        while !self.ended.load(Ordering::Acquire) {
            self.sleep();
            let mut queue = self.lock();
            while let Some(request) = queue.waiting.pop_front() {
                match self.attempt(request, true) {
                    None => {}
                    Some(Waiting::Read { reply, .. }) if self.is_gone() => reply.data(&[]),
                    Some(request) if self.is_gone() => request.give_up(Errno::ENODEV),
                    Some(request) if has_signal(request.thread()) => request.give_up(Errno::EINTR),
                    Some(request) => {
                        queue.waiting.push_front(request);
                        break;
                    }
                }
            }
            if !self.events().is_empty()
                && let Some(notifier) = queue.poll.take()
            {
                // Who polled may have gone.
                let _ = notifier.notify();
            }
        }
        for request in self.lock().waiting.drain(..) {
            request.give_up(Errno::EINTR);
        }
    }

    /// Sleeps while nothing waits; then until the real-time side has done something, or [`WATCH`] is over.
    fn sleep(&self) {
        let mut queue = self.lock();
        while queue.waiting.is_empty() && queue.poll.is_none() && !self.ended.load(Ordering::Acquire) {
            let waited = self.changed.wait_timeout(queue, WATCH);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let writes = matches!(queue.waiting.front(), Some(Waiting::Write { .. }));
        drop(queue);
        if writes {
            self.writes_to().wait(WATCH, |side| side.room() > 0);
        } else {
            self.side.wait(WATCH, |side| side.used() > 0);
        }
    }

    /// Whether the module has destroyed it, or ended.
    fn is_gone(&self) -> bool {
        !self.directory.has(Kind::Fifo, &self.number.to_string())
    }
}

/// Whether a signal waits for a thread that it does not block: then its system call is to end.
fn has_signal(thread: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{thread}/status")) else {
        return true;
    };
    let mask = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim_start_matches(':').trim(), 16).ok())
    };
    let pending = mask("SigPnd").unwrap_or(0) | mask("ShdPnd").unwrap_or(0);
    pending & !mask("SigBlk").unwrap_or(0) & !mask("SigIgn").unwrap_or(0) != 0
}
