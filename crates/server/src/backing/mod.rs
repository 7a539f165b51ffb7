//! Frames that are there: what reservations have free or conserved is backed by locked frames of the server's own.
//!
//! The *stock* is private memory whose first pages are resident, as many as are *due*: frames that the core counts
//! as free or conserved, and no page of anybody is in. A page that is filled takes a frame from the machine, so one is
//! released here; a page that is dropped gives one back, so one is taken here.
//!
//! The thread that fills pages releases, as many at a time as the headroom has: then they are at hand for the pages
//! that it fills next, where frames that another CPU releases are not, and nobody is interrupted. (Whoever unmaps
//! memory of a process interrupts every CPU that runs it; on a virtual machine that takes as long as three faults.)
//! Frames are taken by a thread of normal class, off the fault path, a batch at a time; when pages have ceased to move,
//! it also releases what is left over. Pager threads never take, and never wait for it.
//!
//! The *headroom* is a second one: given up when the machine has no frame for a fill, and taken again later.
//!
//! How quickly frames are taken is the business of [`refill_rate`].
//!
//! Between the release of a frame here and its allocation there, somebody else may take it.

mod refill_rate;

use freehold_linux::Errno;
use freehold_linux::event::Wakeup;
use freehold_linux::memory::LockedFrames;
use freehold_linux::pi_mutex::PiMutex;
use refill_rate::RefillRate;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Pages taken or released by the thread with one system call, and pages that may move before it is woken to take some.
pub(crate) const BATCH: usize = 32;
/// Frames of headroom, and pages that may move before a pager thread releases as many frames: half of what releasing
/// takes is the same for one frame and for all of these.
pub(crate) const HEADROOM: usize = 64;
/// After pages have moved, the thread looks again after this long, and sleeps for good when none have.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
const BREATH: Duration = Duration::from_micros(400);

/// Counts of what the backing did.
#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    released: AtomicU64,
    by_pagers: AtomicU64,
    headroom: AtomicU64,
}

/// What the backing is at one moment. Frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackingView {
    /// What is to be there: frames free or conserved, as the core counts them, and in no page.
    pub due: u64,
    /// What is there, as the kernel counts it.
    pub resident: u64,
    /// Headroom that is there, as the kernel counts it.
    pub headroom: u64,
    /// Taken so far.
    pub taken: u64,
    /// Released so far, by whomever.
    pub released: u64,
    /// Of these, by pager threads in the course of faults.
    pub released_by_pagers: u64,
    /// How often the headroom had to be given up.
    pub headroom_used: u64,
    /// Why it is not whole, if it cannot be.
    pub shortfall: Option<String>,
}

/// What the backing is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// At least.
    pub(crate) frames: usize,
    /// At most; not less than that.
    pub(crate) kept: usize,
    /// What is kept beyond what is due goes when its time is over.
    pub(crate) lingers: bool,
}

/// The backing of a server.
#[derive(Debug)]
pub(crate) struct LockedBacking {
    /// Both, or neither where memory cannot be locked.
    stocks: Option<(LockedFrames, LockedFrames)>,
    shortfall: PiMutex<Option<String>>,
    /// The shortfall is new, and nobody has been told.
    fresh: AtomicBool,
    /// Pages that have come or gone, and the stock has not followed yet.
    moved: AtomicUsize,
    /// The thread has been woken and has not looked yet.
    woken: AtomicBool,
    /// The thread sleeps until the first page moves.
    sleeps: AtomicBool,
    /// The thread rests between two batches that it takes.
    takes: AtomicBool,
    wakeup: Wakeup,
    counts: Counts,
}

impl LockedBacking {
    /// A backing that can back `frames`, empty at first. Where memory cannot be locked it is none, and says so.
    ///
    /// # Errors
    /// No eventfd is to be had.
    pub(crate) fn new(frames: usize) -> Result<Self, Errno> {
        let stock = LockedFrames::create(frames.max(1));
        let stocks = stock.and_then(|stock| Ok((stock, LockedFrames::create(HEADROOM)?)));
        let (stocks, shortfall) = match stocks {
            Ok(stocks) => (Some(stocks), None),
            Err(error) => (
                None,
                Some(format!("free frames are not backed by locked memory: {error}")),
            ),
        };
        Ok(Self {
            stocks,
            shortfall: PiMutex::new(shortfall),
            fresh: AtomicBool::new(false),
            moved: AtomicUsize::new(0),
            woken: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            takes: AtomicBool::new(false),
            wakeup: Wakeup::new()?,
            counts: Counts::default(),
        })
    }

    /// Frames that are there, by its own books.
    pub(crate) fn held(&self) -> usize {
        self.stocks.as_ref().map_or(0, |(stock, _)| stock.held())
    }

    /// So many pages have come or gone; true where it is to [`follow`](Self::follow).
    pub(crate) fn note(&self, moved: usize) -> bool {
        if self.stocks.is_none() {
            return false;
        }
        // In this order: a thread that goes to sleep says so, and then looks whether anything has moved.
        let before = self.moved.fetch_add(moved, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake();
        }
        before + moved >= BATCH
    }

    /// On the fault path: where less is there than is to be, the thread is woken; where more is, a part of that is
    /// released here once enough pages have moved. Never waits.
    pub(crate) fn follow(&self, due: Target) {
        if self.held() > due.kept {
            if self.moved.load(Ordering::SeqCst) >= HEADROOM {
                self.trim(due.kept);
            }
        } else if !self.turn_to(due) {
            // Not none where something lingers: a thread that is about to sleep would not know.
            self.moved.store(usize::from(due.lingers), Ordering::SeqCst);
        }
    }

    /// Wakes the thread where what is there is not what is to be, unless it is about to take more anyway; whether that
    /// is so.
    pub(crate) fn turn_to(&self, due: Target) -> bool {
        let held = self.held();
        let is_off = !(due.frames..=due.kept).contains(&held);
        if is_off && !(held < due.frames && self.takes.load(Ordering::SeqCst)) {
            self.wake();
        }
        is_off
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.wakeup.signal();
        }
    }

    /// Releases of what is there beyond `due` as much as has moved, within bounds. Never waits.
    fn trim(&self, due: usize) {
        let Some((stock, _)) = &self.stocks else { return };
        let moved = self.moved.load(Ordering::SeqCst).min(2 * HEADROOM);
        // What cannot be released now is released by the thread, which also reports it; or by the next page that moves,
        // where the thread has lost its CPU just while it changes the stock.
        if let Ok(Some(count)) = stock.shrink(due, moved) {
            self.counts.released.fetch_add(count as u64, Ordering::Relaxed);
            self.counts.by_pagers.fetch_add(count as u64, Ordering::Relaxed);
            self.has_followed(moved);
        }
    }

    /// The stock has come so many of the pages that moved nearer.
    fn has_followed(&self, count: usize) {
        // A pager thread may have set it to 0 meanwhile.
        let less = |moved: usize| Some(moved.saturating_sub(count));
        let _ = self.moved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// The machine has no frame for a page: gives up a headroom's worth of what is there beyond `due`, or where there
    /// is less, the headroom too; whether there was any.
    pub(crate) fn give_headroom(&self, due: usize) -> bool {
        let Some((stock, headroom)) = &self.stocks else {
            return false;
        };
        let spare = stock.shrink(due, HEADROOM).ok().flatten().unwrap_or(0);
        self.counts.released.fetch_add(spare as u64, Ordering::Relaxed);
        if spare == HEADROOM {
            return true;
        }
        let given = headroom.shrink(0, HEADROOM).is_ok_and(|count| count > Some(0));
        self.counts.headroom.fetch_add(u64::from(given), Ordering::Relaxed);
        given || spare > 0
    }

    /// The work of its thread, until `ending`, which `end` announces: keeps the stock at what `ask` says,
    /// which is told whether pages have moved since it was asked. What could not be done `report` gets, once.
    pub(crate) fn keep(
        &self,
        ask: impl Fn(bool) -> Target,
        report: impl Fn(String),
        end: &Wakeup,
        ending: &AtomicBool,
    ) {
        let mut refill_rate = RefillRate::new(std::thread::available_parallelism().map_or(1, usize::from));
        let mut calm = false;
        while !ending.load(Ordering::Acquire) {
            self.sleeps.store(calm, Ordering::SeqCst);
            let quiet = self.moved.load(Ordering::SeqCst) == 0;
            if !calm || quiet {
                self.wait(end, if calm { None } else { Some(&LOOK_AGAIN) });
            }
            self.sleeps.store(false, Ordering::SeqCst);
            // What moves from here on wakes it again.
            self.woken.store(false, Ordering::SeqCst);
            let before = self.moved.load(Ordering::SeqCst);
            let (mut moved, mut lingers) = (0, false);
            while !ending.load(Ordering::Acquire) {
                let seen = self.moved.load(Ordering::SeqCst);
                let due = ask(before > 0);
                lingers = due.lingers;
                let count = self.step(due);
                moved += count;
                self.has_followed(if count == 0 { seen } else { count });
                let missing = due.frames.saturating_sub(self.held());
                let rest = refill_rate.go_on(missing);
                if count == 0 {
                    break;
                }
                self.rest(rest, || ask(before > 0), end, ending);
            }
            calm = before == 0 && moved == 0 && !lingers;
            if let Some(shortfall) = self.shortfall().filter(|_| self.fresh.swap(false, Ordering::Relaxed)) {
                report(shortfall);
            }
        }
    }

    /// Rests so long before more is taken, as long as more is to be: whoever wakes it is asked at once, but no more
    /// often than once a [`BREATH`].
    fn rest(&self, length: Duration, ask: impl Fn() -> Target, end: &Wakeup, ending: &AtomicBool) {
        let until = Instant::now() + length;
        self.takes.store(true, Ordering::SeqCst);
        while !ending.load(Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            let Some(timeout) = Timespec::try_from(left).ok().filter(|_| !left.is_zero()) else {
                break;
            };
            self.wait(end, Some(&timeout));
            if self.woken.swap(false, Ordering::SeqCst) {
                if self.held() >= ask().frames {
                    break;
                }
                std::thread::sleep(BREATH.min(left));
            }
        }
        self.takes.store(false, Ordering::SeqCst);
    }

    fn wait(&self, end: &Wakeup, timeout: Option<&Timespec>) {
        let mut ready = [
            PollFd::new(&self.wakeup, PollFlags::IN),
            PollFd::new(end, PollFlags::IN),
        ];
        // Interrupted, or nothing has come: it looks in any case.
        let _ = rustix::event::poll(&mut ready, timeout);
        self.wakeup.clear();
    }

    /// One batch; how many frames have moved. 0 also where the kernel refuses, which is noted.
    fn step(&self, due: Target) -> usize {
        let Some((stock, headroom)) = &self.stocks else {
            return 0;
        };
        let before = stock.held();
        let wanted = before.min(due.kept).max(due.frames);
        let moved = headroom
            .approach(HEADROOM, HEADROOM)
            .and_then(|count| Ok(count + stock.approach(wanted, BATCH)?));
        let after = stock.held();
        let counts = &self.counts;
        counts
            .taken
            .fetch_add(after.saturating_sub(before) as u64, Ordering::Relaxed);
        counts
            .released
            .fetch_add(before.saturating_sub(after) as u64, Ordering::Relaxed);
        let refused = |errno: &Errno| {
            format!("free frames are not all backed by locked memory: {after} of {wanted} are there: {errno}")
        };
        let mut shortfall = self.shortfall.lock();
        let before = shortfall.is_some();
        *shortfall = moved.as_ref().err().map(refused);
        self.fresh.fetch_or(!before && shortfall.is_some(), Ordering::Relaxed);
        drop(shortfall);
        moved.unwrap_or(0)
    }

    /// Frames that are there, as the kernel counts them, headroom excepted.
    ///
    /// # Errors
    /// The kernel's refusal to count.
    pub(crate) fn resident(&self) -> Result<u64, Errno> {
        match &self.stocks {
            Some((stock, _)) => stock.resident().map(|pages| pages as u64),
            None => Ok(0),
        }
    }

    /// Why it is not whole, if it cannot be.
    pub(crate) fn shortfall(&self) -> Option<String> {
        self.shortfall.lock().clone()
    }

    /// What it is now; `due` as the engine counts it. What is there is counted apart: [`resident`](Self::resident).
    pub(crate) fn view(&self, due: usize) -> BackingView {
        let headroom = self.stocks.as_ref().map(|(_, headroom)| headroom.resident());
        let counts = &self.counts;
        BackingView {
            due: due as u64,
            resident: 0,
            headroom: headroom.and_then(Result::ok).map_or(0, |pages| pages as u64),
            taken: counts.taken.load(Ordering::Relaxed),
            released: counts.released.load(Ordering::Relaxed),
            released_by_pagers: counts.by_pagers.load(Ordering::Relaxed),
            headroom_used: counts.headroom.load(Ordering::Relaxed),
            shortfall: self.shortfall(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, BackingView, HEADROOM, LockedBacking, Target};
    use freehold_linux::event::Wakeup;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    fn seen(backing: &LockedBacking, due: usize) -> BackingView {
        BackingView {
            resident: backing.resident().unwrap(),
            ..backing.view(due)
        }
    }

    fn exactly(frames: usize) -> Target {
        Target {
            frames,
            kept: frames,
            lingers: false,
        }
    }

    fn settle(backing: &LockedBacking, due: usize) -> usize {
        std::iter::repeat_with(|| backing.step(exactly(due)))
            .take_while(|moved| *moved > 0)
            .count()
    }

    #[test]
    fn the_stock_follows_what_is_due_in_batches_and_is_bounded() {
        let backing = LockedBacking::new(100).unwrap();
        assert_eq!(settle(&backing, 70), 3);
        let view = seen(&backing, 70);
        assert_eq!((view.resident, view.headroom), (70, HEADROOM as u64));
        assert_eq!(settle(&backing, 70), 0);
        settle(&backing, 5);
        assert_eq!(seen(&backing, 5).resident, 5);
        settle(&backing, 1_000);
        let view = seen(&backing, 1_000);
        assert_eq!((view.resident, view.taken, view.released), (100, 165, 65));
        assert_eq!(view.shortfall, None);
    }

    #[test]
    fn a_pager_releases_and_never_takes() {
        let backing = LockedBacking::new(100).unwrap();
        settle(&backing, 100);
        assert!(!backing.note(BATCH - 1));
        assert!(backing.note(1));
        backing.follow(exactly(36));
        assert_eq!(seen(&backing, 36).resident, 100, "too few to be worth it");
        assert!(backing.note(HEADROOM - BATCH));
        backing.follow(exactly(36));
        let view = seen(&backing, 36);
        assert_eq!((view.resident, view.released_by_pagers), (36, 64));
        assert!(!backing.woken.load(Ordering::SeqCst), "nobody else need do anything");
        assert!(backing.note(HEADROOM));
        backing.follow(exactly(90));
        assert_eq!(seen(&backing, 90).resident, 36);
        assert!(backing.woken.load(Ordering::SeqCst));
    }

    #[test]
    fn pages_that_moved_are_followed_later_where_somebody_changes_the_stock() {
        let backing = LockedBacking::new(100).unwrap();
        settle(&backing, 100);
        assert!(backing.note(HEADROOM));
        let (stock, _) = backing.stocks.as_ref().unwrap();
        stock.while_changing(|| backing.follow(exactly(36)));
        assert_eq!(backing.held(), 100);
        assert!(backing.note(1));
        backing.follow(exactly(35));
        assert_eq!(backing.held(), 35);
        assert!(!backing.note(BATCH - 1));
        backing.has_followed(BATCH);
        assert!(!backing.note(BATCH - 1));
    }

    #[test]
    fn what_may_be_kept_stays_and_nothing_is_taken_for_it() {
        let backing = LockedBacking::new(100).unwrap();
        let due = |frames, kept| Target {
            frames,
            kept,
            lingers: true,
        };
        settle(&backing, 80);
        assert!(backing.note(HEADROOM));
        backing.follow(due(10, 90));
        // There is nothing to follow; but the thread, if it is about to sleep, is to see what lingers.
        assert_eq!(backing.moved.load(Ordering::SeqCst), 1);
        assert_eq!((backing.step(due(10, 90)), backing.held()), (0, 80));
        assert_eq!((backing.step(due(10, 76)), backing.held()), (4, 76));
        // What is beyond what is due goes before the headroom does, and with it where it is less.
        assert!(backing.give_headroom(10));
        assert_eq!((backing.held(), seen(&backing, 10).headroom_used), (12, 0));
        assert!(backing.give_headroom(10));
        assert_eq!((backing.held(), seen(&backing, 10).headroom_used), (10, 1));
        assert!(!backing.give_headroom(10));
    }

    #[test]
    fn a_rest_ends_when_no_more_is_to_be_taken() {
        let (backing, end) = (LockedBacking::new(100).unwrap(), Wakeup::new().unwrap());
        let (ending, asked, hours) = (AtomicBool::new(false), AtomicUsize::new(0), Duration::from_secs(36_000));
        let count = || asked.fetch_add(1, Ordering::SeqCst);
        // Asked twice; what is there is less than what is due the first time only.
        let less = || exactly(1 - count().min(1));
        std::thread::scope(|scope| {
            let rests = scope.spawn(|| backing.rest(hours, less, &end, &ending));
            while !rests.is_finished() {
                assert!(backing.turn_to(exactly(1)), "it is about to take it");
                backing.wake();
                std::thread::yield_now();
            }
        });
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert!(!backing.takes.load(Ordering::SeqCst));
        // Nobody wakes it.
        backing.woken.store(false, Ordering::SeqCst);
        backing.rest(Duration::from_millis(1), || exactly(count()), &end, &ending);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn the_headroom_is_given_once_and_taken_again() {
        let backing = LockedBacking::new(1).unwrap();
        assert!(!backing.give_headroom(0));
        settle(&backing, 0);
        assert!(backing.give_headroom(0));
        assert!(!backing.give_headroom(0));
        let view = seen(&backing, 0);
        assert_eq!((view.headroom, view.headroom_used), (0, 1));
        settle(&backing, 0);
        assert_eq!(seen(&backing, 0).headroom, HEADROOM as u64);
    }
}
