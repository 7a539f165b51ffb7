//! Pages in and out.

use crate::device::Row;
use crate::error::CacheError;
use crate::region::Region;
use crate::returns::{self, Returns};
use freehold_core::law::Violation;
use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::error::PutError;
use freehold_core::victim_cache::{
    DeviceEffect, DeviceId, FileId, FrameIndex, Got, Placement, Policy, VictimCache, VictimCacheSpec,
};
use freehold_linux::PAGE_SIZE;
use freehold_linux::thread::Thread;
use freehold_scenario::DeviceFile;
use freehold_store::checksum;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockResult};
use tracing::warn;

/// Copies that can be under way at once.
const COPIES: u16 = 1024;

/// Which page of which file. What a file is, the front has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The file.
    pub file: FileId,
    /// The page of it.
    pub page: PageIndex,
}

/// Device memory that caches clean pages. Any thread may call anything; pages are copied outside the lock.
///
/// A copy that is out is the front's: a [`flush_page`](Self::flush_page) that comes while another thread's
/// [`get`](Self::get) copies does not reach that copy.
#[derive(Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    returner: Option<Thread<()>>,
}

/// What all threads use.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) region: Region,
    /// Of (key, content) of the page in each frame, written and read by whoever copies there.
    sums: Vec<AtomicU64>,
    pub(crate) mismatches: AtomicU64,
    state: Mutex<State>,
    /// A device has been handed frames, or some have come back.
    pub(crate) changed: Condvar,
    /// There is something to take back, or nothing any more.
    pub(crate) work: Condvar,
}

/// What the lock keeps.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: VictimCache,
    pub(crate) rows: Vec<Row>,
    pub(crate) returns: Returns,
}

impl Cache {
    /// Sets memory aside for the devices of a file, all of it at once.
    ///
    /// # Errors
    /// See [`CacheError`].
    pub fn new(file: &DeviceFile) -> Result<Self, CacheError> {
        let sizes: Vec<FrameCount> = file.devices.iter().map(|device| device.size).collect();
        let frames = file.frames();
        // A quick refusal comes before any memory is taken.
        let spec = |granule| VictimCacheSpec {
            frames,
            devices: &sizes,
            granule: FrameCount::new(granule),
            copies: COPIES,
            files: frames.get(),
            policy: Policy::Lru,
            placement: Placement::Safe,
        };
        let _ = spec(1).seal()?;
        let region = Region::new(file)?;
        for shortfall in region.shortfalls() {
            warn!("{shortfall}");
        }
        let core = spec(region.cuts().granule()).seal()?;
        let shared = Arc::new(Shared {
            region,
            sums: (0..frames.get()).map(|_| AtomicU64::new(0)).collect(),
            mismatches: AtomicU64::new(0),
            state: Mutex::new(State {
                core,
                rows: file.devices.iter().cloned().map(Row::new).collect(),
                returns: Returns::default(),
            }),
            changed: Condvar::new(),
            work: Condvar::new(),
        });
        let returner = returns::start(&shared).map_err(|error| CacheError::Thread(error.to_string()))?;
        Ok(Self {
            shared,
            returner: Some(returner),
        })
    }

    /// Takes a clean page that the front has evicted. It replaces what was there of this key.
    ///
    /// # Errors
    /// See [`PutError`]: the page is not here then, nor what was there of this key.
    pub fn put(&self, key: Key, content: &[u8; PAGE_SIZE]) -> Result<(), PutError> {
        let frame = self.shared.begin_put(key)?;
        let copied = self.shared.copy_in(frame, key, content);
        self.shared.end_copy(frame, copied);
        Ok(())
    }

    /// Gives a page back, which is in the cache no more; false where it is not here: what `content` holds then is
    /// undefined.
    pub fn get(&self, key: Key, content: &mut [u8; PAGE_SIZE]) -> bool {
        let Got::Hit(frame) = self.shared.begin_get(key) else {
            return false;
        };
        let right = self.shared.copy_out(frame, key, content);
        self.shared.end_copy(frame, true);
        if !right {
            self.complain(key);
        }
        right
    }

    /// Whether a page is here; nothing changes.
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.shared.state().core.has(key.file, key.page)
    }

    /// A page of a file has changed or gone.
    pub fn flush_page(&self, key: Key) {
        self.shared.state().core.flush_page(key.file, key.page);
    }

    /// A file has changed or gone.
    pub fn flush_inode(&self, file: FileId) {
        self.shared.state().core.flush_file(file);
    }

    /// Checks the laws of the core. O(frames × devices): for tests.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn check_laws(&self) -> Result<(), Violation> {
        self.shared.state().core.check_laws()
    }

    pub(crate) fn complain(&self, key: Key) {
        let count = self.shared.mismatches.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            warn!(
                file = key.file.get(),
                page = key.page.get(),
                count,
                "a cached page is not what was put: it is read again"
            );
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_state(&self) -> TryLockResult<MutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// The first of a put's three steps; the frame is its until the last.
    fn begin_put(&self, key: Key) -> Result<FrameIndex, PutError> {
        self.state().core.put(key.file, key.page, 1).map(|put| put.frame)
    }

    /// The first of a get's.
    fn begin_get(&self, key: Key) -> Got {
        self.state().core.get(key.file, key.page)
    }

    pub(crate) fn copy_in(&self, frame: FrameIndex, key: Key, content: &[u8; PAGE_SIZE]) -> bool {
        if let Some(sum) = self.sum(frame) {
            sum.store(sum_of(key, content), Ordering::Relaxed);
        }
        self.region.write(frame.get(), content)
    }

    /// Whether the copy is what was put, which the copy itself is asked.
    pub(crate) fn copy_out(&self, frame: FrameIndex, key: Key, content: &mut [u8; PAGE_SIZE]) -> bool {
        let copied = self.region.read(frame.get(), content);
        let noted = self.sum(frame).map(|sum| sum.load(Ordering::Relaxed));
        copied && noted == Some(sum_of(key, content))
    }

    fn sum(&self, frame: FrameIndex) -> Option<&AtomicU64> {
        self.sums.get(usize::try_from(frame.get()).ok()?)
    }

    fn end_copy(&self, frame: FrameIndex, done: bool) {
        let mut state = self.state();
        state.end_copy(frame, done);
        if state.drain() {
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Tells the core how a copy has ended.
    pub(crate) fn end_copy(&mut self, frame: FrameIndex, done: bool) {
        let ended = if done {
            self.core.copied(frame)
        } else {
            self.core.copy_failed(frame)
        };
        debug_assert!(ended.is_ok(), "every copy is reported once: {ended:?}");
    }

    /// Takes what the core wants done to whom it concerns; whether there was anything.
    pub(crate) fn drain(&mut self) -> bool {
        let mut any = false;
        while let Some(effect) = self.core.poll_effect() {
            any = true;
            match effect {
                DeviceEffect::HandOver { device, range } => {
                    if let Some(row) = self.rows.get_mut(device.index()) {
                        row.handed = Some(range);
                    }
                }
                DeviceEffect::Revoke { device, range } => self.returns.add(device, range),
            }
        }
        debug_assert!(self.core.check_counts().is_ok(), "{:?}", self.core.check_counts());
        any
    }

    pub(crate) fn find(&self, name: &str) -> Option<DeviceId> {
        let place = self.rows.iter().position(|row| row.device.name == name)?;
        DeviceId::new(place)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.shared.state().returns.stop();
        self.shared.work.notify_all();
        if let Some(returner) = self.returner.take() {
            let _ = returner.join();
        }
    }
}

fn sum_of(key: Key, content: &[u8; PAGE_SIZE]) -> u64 {
    checksum([key.file.get(), u64::from(key.page.get()) + 1], content)
}

#[cfg(test)]
#[path = "interleavings.rs"]
mod interleavings;
