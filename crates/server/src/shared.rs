//! The engine behind its lock, and the pager threads.

use crate::closing::Closing;
use crate::engine::{ClientChannels, Engine, ReadyEvent, SourceFile};
use crate::error::EngineError;
use crate::stalls::{Stalls, Watch};
use crate::timeout::Timeout;
use crate::victims::Victims;
use crate::view::EngineView;
use freehold_linux::event::Wakeup;
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use freehold_linux::sched::{self, Policy};
use freehold_linux::thread::{self, Thread};
use freehold_linux::{ThreadId, clock};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

/// Things that are ready looked at in one dispatch, at most.
const DISPATCHED: usize = 64;
/// What epoll says when the threads are to end: no source has this number.
const ENDING: u64 = 0xff;
/// What it says when a thread's timer has expired, likewise.
const TIMEOUT: u64 = 0xfe;

/// What all threads of the server hold.
#[derive(Debug)]
pub struct Shared {
    engine: PiMutex<Engine>,
    closing: Closing,
    stalls: Stalls,
    /// Twice the number of holds that have ended, and one more while there is one.
    holds: AtomicU64,
    victims: OnceLock<Arc<Victims>>,
    recorded: bool,
}

/// Holds the engine.
#[derive(Debug)]
pub struct EngineGuard<'a> {
    engine: PiGuard<'a, Engine>,
    holds: &'a AtomicU64,
    /// When it was wanted and when it was had, in nanoseconds, where holds are recorded.
    since: Option<(u64, u64)>,
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for EngineGuard<'_> {
    fn drop(&mut self) {
        if let Some((wanted, from)) = self.since {
            self.engine.record_hold(wanted, from);
        }
        count(self.holds);
    }
}

impl Shared {
    /// Puts the engine behind its lock.
    #[must_use]
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            closing: engine.closing(),
            stalls: engine.stalls(),
            holds: AtomicU64::new(0),
            victims: OnceLock::new(),
            recorded: engine.is_recorded(),
            engine: PiMutex::new(engine),
        })
    }

    /// The engine. Hold it for a short step only: faults wait meanwhile. Whoever waits lends its priority.
    pub fn engine(&self) -> EngineGuard<'_> {
        let wanted = self.recorded.then(clock::now);
        let engine = self.engine.lock();
        let since = wanted.map(|wanted| (wanted.as_nanos(), clock::now().as_nanos()));
        self.hold(engine, since)
    }

    /// The engine, if nobody has it.
    pub(crate) fn engine_if_free(&self) -> Option<EngineGuard<'_>> {
        let engine = self.engine.try_lock()?;
        Some(self.hold(engine, None))
    }

    fn hold<'a>(&'a self, engine: PiGuard<'a, Engine>, since: Option<(u64, u64)>) -> EngineGuard<'a> {
        count(&self.holds);
        let holds = &self.holds;
        EngineGuard { engine, holds, since }
    }

    /// The number of the hold of the engine that there is just now.
    pub(crate) fn step_under_way(&self) -> Option<u64> {
        Some(self.holds.load(Ordering::Relaxed)).filter(|count| count % 2 == 1)
    }

    pub(crate) fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// Looks at a file that a process of this user has sent, to be opened by the engine.
    ///
    /// # Errors
    /// [`EngineError::Descriptor`] where it is not a regular file open for reading, or empty; [`EngineError::System`].
    pub fn identify(&self, file: OwnedFd, user: u32) -> Result<SourceFile, EngineError> {
        let victims = self.victims.get().map(|victims| &**victims);
        SourceFile::identify(file, user, &self.closing, victims)
    }

    /// From now on clean pages of files go there when they leave.
    pub(crate) fn evict_into(&self, victims: Arc<Victims>) {
        self.engine().evict_into(Arc::clone(&victims));
        // It is set once.
        let _ = self.victims.set(victims);
    }

    /// How much of a user's is to be closed and is not yet.
    pub(crate) fn unclosed(&self, user: u32) -> u32 {
        self.closing.waiting(user)
    }

    /// Users of whom something is to be closed and is not yet.
    pub(crate) fn users_with_unclosed(&self) -> BTreeSet<u32> {
        self.closing.users()
    }

    /// A snapshot of everything, in holds of the engine that are short however much there is: faults are served between
    /// them. Every row is as it was at one moment, but not all at the same.
    ///
    /// # Errors
    /// [`EngineError::System`] where the kernel does not count resident pages, or has no descriptor to count with.
    pub fn view(&self) -> Result<EngineView, EngineError> {
        let mut snapshot = self.engine().begin_snapshot();
        while !snapshot.is_complete() {
            self.engine().advance(&mut snapshot)?;
            snapshot.count()?;
        }
        Ok(snapshot.into_view())
    }

    /// Takes back what clients have given up, piece by piece.
    pub(crate) fn tear_down(&self) {
        while self.engine().tear_down_some() {}
    }

    /// Brings in what is to be locked, piece by piece.
    fn go_on_locking(&self) {
        while self.engine().lock_some() {}
    }

    /// Gives back the memory of objects that are gone, while nobody waits for the engine.
    fn clear_deferred(&self) {
        loop {
            let next = self.engine().next_deferred();
            let Some(deferred) = next else { return };
            let mut rest = Some(0);
            while let Some(from) = rest {
                rest = self.engine().offer_deferred(&deferred, from);
            }
            deferred.clear();
            self.engine().forget_deferred(&deferred);
        }
    }

    /// Starts a pager thread on each CPU that the settings name.
    ///
    /// # Errors
    /// [`EngineError::System`] where threads cannot be started. A refused priority is no error: see the view.
    pub fn spawn_pagers(self: &Arc<Self>) -> Result<Pagers, EngineError> {
        let cpus = self.engine().cpus().to_vec();
        let what = "a pager thread could not be started";
        let ending = Arc::new(AtomicBool::new(false));
        let stop = Wakeup::new().map_err(EngineError::system(what))?;
        let mut pagers = Pagers {
            ending,
            stop,
            threads: Vec::new(),
        };
        let (report, reports) = mpsc::channel();
        for (pager, cpu) in cpus.iter().copied().enumerate() {
            let poll = self.engine().poll(pager).ok_or(EngineError::System {
                what,
                errno: freehold_linux::Errno::MFILE,
            })?;
            let ending = EventData::new_u64(ENDING);
            epoll::add(&poll, &pagers.stop, ending, EventFlags::IN).map_err(EngineError::system(what))?;
            let timer = Timeout::new().map_err(EngineError::system("a pager thread's timer could not be made"))?;
            let expires = EventData::new_u64(TIMEOUT);
            epoll::add(&poll, timer.descriptor(), expires, EventFlags::IN | EventFlags::ET)
                .map_err(EngineError::system(what))?;
            let (shared, ending) = (Arc::clone(self), Arc::clone(&pagers.ending));
            let report = report.clone();
            let thread = thread::spawn(&format!("freehold-page-{cpu}"), move || {
                // Whoever waits for the report may have gone.
                let _ = report.send((pager, prepare(cpu, shared.priority())));
                drop(report);
                let _abort = AbortOnPanic;
                shared.page(pager, &poll, timer, &ending);
            });
            pagers.threads.push(thread.map_err(|_| EngineError::System {
                what,
                errno: freehold_linux::Errno::AGAIN,
            })?);
        }
        drop(report);
        pagers.threads.push(self.spawn_keeper(&pagers)?);
        pagers.threads.push(self.spawn_watch(&pagers)?);
        for (pager, prepared) in reports {
            self.engine().note_pager(pager, prepared);
        }
        Ok(pagers)
    }

    /// Starts the thread that keeps the backing: of normal class, off the fault path.
    fn spawn_keeper(self: &Arc<Self>, pagers: &Pagers) -> Result<Thread<()>, EngineError> {
        let what = "the backing's thread could not be started";
        let stop = pagers.stop.try_clone().map_err(EngineError::system(what))?;
        let (shared, ending) = (Arc::clone(self), Arc::clone(&pagers.ending));
        let thread = thread::spawn("freehold-backing", move || {
            let _abort = AbortOnPanic;
            let backing = shared.engine().locked_backing();
            let due = |flow| {
                shared.tear_down();
                shared.clear_deferred();
                shared.go_on_locking();
                let (due, zombies, missing) = {
                    let mut engine = shared.engine();
                    (
                        engine.settle_due(flow),
                        engine.take_zombies(),
                        engine.channels_missing(),
                    )
                };
                shared.make_channels(missing);
                drop(zombies);
                due
            };
            backing.keep(due, |text| shared.engine().notice(text), &stop, &ending);
        });
        thread.map_err(|_| EngineError::System {
            what,
            errno: freehold_linux::Errno::AGAIN,
        })
    }

    /// Starts the thread that looks whether the engine goes on.
    fn spawn_watch(self: &Arc<Self>, pagers: &Pagers) -> Result<Thread<()>, EngineError> {
        let refused = |errno| EngineError::System {
            what: "the thread that watches the engine could not be started",
            errno,
        };
        let stop = pagers.stop.try_clone().map_err(refused)?;
        let (watch, ending) = (Watch::new(Arc::clone(self)), Arc::clone(&pagers.ending));
        let thread = thread::spawn("freehold-watch", move || {
            let _abort = AbortOnPanic;
            watch.keep(&stop, &ending);
        });
        thread.map_err(|_| refused(freehold_linux::Errno::AGAIN))
    }

    /// Makes what clients to come will need, while nobody waits for the engine. What cannot be had now is missed by the
    /// client that comes, and said to it.
    fn make_channels(&self, (count, pages): (usize, u32)) {
        for _ in 0..count {
            let Ok(channels) = ClientChannels::new(pages) else {
                return;
            };
            self.engine().give_channels_back(channels);
        }
    }

    fn priority(&self) -> u32 {
        self.engine().priority()
    }

    /// The work of a pager thread.
    fn page(&self, pager: usize, poll: &OwnedFd, mut timer: Timeout, ending: &AtomicBool) {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; DISPATCHED];
        let mut ready = Vec::with_capacity(DISPATCHED);
        let mut due = None;
        while !ending.load(Ordering::Acquire) {
            let timeout = timer.timeout(due);
            // Interrupted, or nothing is there: the dispatch looks at what is due.
            let count = epoll::wait(poll, &mut events, timeout.as_ref()).unwrap_or(0);
            let polled = events.get(..count).unwrap_or_default();
            if polled.iter().any(|event| { event.data }.u64() == TIMEOUT) {
                timer.has_expired();
            }
            ready.clear();
            ready.extend(polled.iter().filter_map(ReadyEvent::of));
            due = self.engine().dispatch(pager, &ready);
        }
    }
}

/// Counts a begin or an end of a hold: only the holder counts.
fn count(holds: &AtomicU64) {
    holds.store(holds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Ends the process where a pager thread panics: no client runs on with pages that nobody knows of any more.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Puts the calling thread on its CPU, and above what it serves.
fn prepare(cpu: usize, priority: u32) -> Result<u32, String> {
    let me = ThreadId::current();
    sched::pin(me, cpu).map_err(|error| error.to_string())?;
    sched::set_policy(me, Policy::Fifo { priority }).map_err(|error| error.to_string())?;
    Ok(priority)
}

/// The pager threads; dropping this ends them, and with it all paging.
#[derive(Debug)]
pub struct Pagers {
    ending: Arc<AtomicBool>,
    stop: Wakeup,
    threads: Vec<Thread<()>>,
}

impl Drop for Pagers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // Never cleared, so that it wakes every thread.
        self.stop.signal();
        for thread in self.threads.drain(..) {
            // A panic in a pager thread has ended the process already.
            let _ = thread.join();
        }
    }
}
