//! POSIX timers: each has a thread above every thread of a module, which sends the timer's signal to the thread that
//! has created the timer. One that Linux has created is the first real-time thread's that sets it; until then it runs
//! the signal's handler itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{ThreadId, futex};

use super::call::Call;
use super::thread::{Thread, current};
use super::{modules, nudge};

/// Timers that a process can have.
const TIMERS: usize = 32;
const PRIORITY: u32 = 91;

/// When a timer expires, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The next time; 0 for none.
    pub(crate) next: u64,
    /// From one time to the following; 0 for once.
    pub(crate) interval: u64,
}

#[derive(Debug)]
struct Timer {
    module: usize,
    /// With the kernel's identifier: the structure may be another thread's one day.
    owner: PiMutex<Option<(&'static Thread, u32)>>,
    /// None where nobody is to be told.
    signal: Option<u32>,
    setting: PiMutex<Setting>,
    /// Changes with the setting, and at the end; a futex.
    changes: AtomicU32,
    /// Expirations beyond the first of the last signal.
    overruns: AtomicU32,
    stop: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    timer: Arc<Timer>,
    thread: JoinHandle<()>,
}

static TABLE: [PiMutex<Option<Box<Entry>>>; TIMERS] = [const { PiMutex::new(None) }; TIMERS];

/// `timer_create`; the timer's number.
pub(crate) fn create(signal: Option<u32>) -> Result<usize, i32> {
    let _call = Call::enter();
    let timer = Arc::new(Timer {
        module: modules::current(),
        owner: PiMutex::new(caller()),
        signal,
        setting: PiMutex::new(Setting::default()),
        changes: AtomicU32::new(0),
        overruns: AtomicU32::new(0),
        stop: AtomicBool::new(false),
    });
    for (number, place) in TABLE.iter().enumerate() {
        let mut place = place.lock();
        if place.is_none() {
            let own = Arc::clone(&timer);
            let thread = std::thread::Builder::new()
                .name(format!("timer{number}"))
                .spawn(move || own.serve())
                .map_err(|_| libc::EAGAIN)?;
            *place = Some(Box::new(Entry { timer, thread }));
            return Ok(number);
        }
    }
    Err(libc::EAGAIN)
}

/// The calling thread, if it is a real-time one.
fn caller() -> Option<(&'static Thread, u32)> {
    current().map(|thread| (thread, ThreadId::current().get()))
}

fn with<R>(number: usize, work: impl FnOnce(&Timer) -> R) -> Result<R, i32> {
    let _call = Call::enter();
    let place = TABLE.get(number).ok_or(libc::EINVAL)?.lock();
    let entry = place.as_ref().ok_or(libc::EINVAL)?;
    Ok(work(&entry.timer))
}

/// `timer_settime`; the setting before.
pub(crate) fn set(number: usize, new: Setting) -> Result<Setting, i32> {
    with(number, |timer| {
        let mut owner = timer.owner.lock();
        *owner = owner.or_else(caller);
        drop(owner);
        let before = std::mem::replace(&mut *timer.setting.lock(), new);
        timer.changed();
        before
    })
}

/// `timer_gettime`.
pub(crate) fn setting(number: usize) -> Result<Setting, i32> {
    with(number, |timer| *timer.setting.lock())
}

/// `timer_getoverrun`.
pub(crate) fn overruns(number: usize) -> Result<u32, i32> {
    with(number, |timer| timer.overruns.load(Ordering::Relaxed))
}

/// `timer_delete`. A handler that deletes its own timer is let end.
pub(crate) fn delete(number: usize) -> Result<(), i32> {
    let _call = Call::enter();
    let taken = TABLE.get(number).ok_or(libc::EINVAL)?.lock().take();
    let Entry { timer, thread } = *taken.ok_or(libc::EINVAL)?;
    timer.stop.store(true, Ordering::Release);
    timer.changed();
    if thread.thread().id() != std::thread::current().id() {
        // A handler that panics has said so.
        let _ = thread.join();
    }
    Ok(())
}

/// Deletes what a module has left.
pub(crate) fn delete_all_of(module: usize) {
    for number in 0..TIMERS {
        if with(number, |timer| timer.module) == Ok(module) {
            // It was there a moment ago.
            let _ = delete(number);
        }
    }
}

impl Timer {
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        futex::wake(&self.changes, 1);
    }

    fn serve(&self) {
        // Where Linux refuses it, the thread that is created next says so.
        let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority: PRIORITY });
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            if let Some(times) = self.expired() {
                self.overruns
                    .store(u32::try_from(times - 1).unwrap_or(u32::MAX), Ordering::Relaxed);
                self.tell();
                continue;
            }
            let Setting { next, .. } = *self.setting.lock();
            let until = (next != 0).then(|| MonotonicTime::from_nanos(next));
            // However it ends, everything is looked at again.
            let _ = futex::wait(&self.changes, seen, until);
        }
    }

    /// How often it has expired by now, if at all; moves on to the next time.
    fn expired(&self) -> Option<u64> {
        let now = clock::now().as_nanos();
        let mut setting = self.setting.lock();
        let times = setting.expirations(now);
        (times > 0).then_some(times)
    }

    fn tell(&self) {
        let Some(signal) = self.signal else { return };
        let owner = *self.owner.lock();
        match owner {
            Some((thread, kernel)) if thread.life.kernel.load(Ordering::Acquire) == kernel => {
                nudge::send(thread, signal);
            }
            // It has ended.
            Some(_) => {}
            None => {
                if let Some(handler) = modules::action(self.module, signal) {
                    modules::on_behalf(self.module, || handler.run(signal));
                }
            }
        }
    }
}

impl Setting {
    /// How often it has expired by `now`; the next time is behind that.
    fn expirations(&mut self, now: u64) -> u64 {
        if self.next == 0 || now < self.next {
            return 0;
        }
        if self.interval == 0 {
            self.next = 0;
            return 1;
        }
        let times = (now - self.next) / self.interval + 1;
        self.next = self.next.saturating_add(times.saturating_mul(self.interval));
        times
    }

    /// As `timer_gettime` tells it: what is left until the next time.
    pub(crate) fn left(self) -> Self {
        let left = |next: u64| {
            let left = Duration::from_nanos(next).saturating_sub(Duration::from_nanos(clock::now().as_nanos()));
            // A timer that is about to expire is not one that is not set.
            u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).max(1)
        };
        let next = if self.next == 0 { 0 } else { left(self.next) };
        Self { next, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::Setting;

    #[test]
    fn a_timer_expires_once_or_in_its_rhythm_and_late_times_are_counted() {
        let mut once = Setting { next: 10, interval: 0 };
        assert_eq!(once.expirations(9), 0);
        assert_eq!(once.expirations(10), 1);
        assert_eq!((once.expirations(1000), once.next), (0, 0));
        let mut often = Setting { next: 10, interval: 5 };
        assert_eq!((often.expirations(10), often.next), (1, 15));
        assert_eq!((often.expirations(14), often.next), (0, 15));
        assert_eq!((often.expirations(29), often.next), (3, 30));
    }
}
