//! Tasks: threads that page for themselves.

use crate::context::Context;
use crate::error::{AccessError, EnterError, MapObjectError};
use crate::handler::{self, Binding, page_at};
use crate::pinned::Pinned;
use crate::report::TaskTimes;
use crate::shared::Shared;
use freehold_core::id::{MappingId, ObjectId, TaskId};
use freehold_core::view::TaskCounts;
use freehold_driver::HolderRow;
use freehold_linux::fault::AlternateStack;
use freehold_linux::fault::access;
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use freehold_store::Urgency;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of signal stack: the handler runs the whole core on it, also in a build without optimisation.
const SIGNAL_STACK: usize = 256 << 10;
const WORD: usize = 8;

/// What only the task's own thread uses, in the handler.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) task: TaskId,
    pub(crate) holder: HolderRow,
    pub(crate) context: Context,
    /// The task's mappings; room for one of each object.
    pub(crate) views: Vec<View>,
    /// Its pinned page pool, if it has one.
    pub(crate) pinned: Option<Pinned>,
}

/// One mapping of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) mapping: MappingId,
    pub(crate) object: usize,
    /// Its row among the object's mappings.
    pub(crate) row: usize,
    pub(crate) base: usize,
    pub(crate) length: usize,
}

impl Local {
    /// The mapping and the page in it that contain `address`.
    pub(crate) fn find(&self, address: usize) -> Option<(View, usize)> {
        self.views
            .iter()
            .find_map(|view| Some((*view, page_at(view.base, view.length, address)?)))
    }
}

/// An object as one task sees it: memory that comes and goes. No Rust reference into it may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRegion {
    base: *mut u8,
    length: usize,
    object: ObjectId,
    task: TaskId,
}

// SAFETY: it is an address and a length; accesses through it are checked ([`Bound`]) or the accessor's own business.
unsafe impl Send for MappedRegion {}
// SAFETY: as above.
unsafe impl Sync for MappedRegion {}

impl MappedRegion {
    /// The first byte. Only the thread that acts as the task may touch the region: in any other a fault goes to
    /// whoever handled SIGBUS before, which usually ends the process. A system call that touches an absent page fails
    /// with EFAULT.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The length in words of eight bytes.
    #[must_use]
    pub fn words(&self) -> usize {
        self.length / WORD
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }
}

/// A task. Dropping it removes the task from the core and takes its mappings away.
#[derive(Debug)]
pub struct TaskHandle {
    pub(crate) shared: Arc<Shared>,
    id: TaskId,
}

impl TaskHandle {
    pub(crate) fn new(shared: Arc<Shared>, id: TaskId) -> Self {
        Self { shared, id }
    }

    /// Its name in the core.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Maps an object for this task; no page of it is present at first.
    ///
    /// # Errors
    /// See [`MapObjectError`]; nothing is mapped then.
    pub fn map(&self, object: ObjectId) -> Result<MappedRegion, MapObjectError> {
        let found = self.shared.object(object).ok_or(MapObjectError::UnknownObject)?;
        let row = &self.shared.tasks[self.id.index()];
        let local = row.local.get().ok_or(MapObjectError::UnknownObject)?;
        let mut control = self.shared.control.lock();
        let holder = self.shared.holder_of(self.id.index());
        let place = found.attach(&self.shared.userfault, holder)?;
        let mapped = self
            .shared
            .step(&mut control.context, |core, _| core.map(self.id, object));
        let (Ok(mapping), Some(memory)) = (mapped, found.mapping(place)) else {
            found.detach(place);
            return Err(mapped
                .err()
                .map_or(MapObjectError::System(Errno::NOMEM), MapObjectError::from));
        };
        let region = MappedRegion {
            base: memory.base(),
            length: memory.length(),
            object,
            task: self.id,
        };
        local.lock().views.push(View {
            mapping,
            object: object.index(),
            row: place,
            base: region.base.addr(),
            length: region.length,
        });
        Ok(region)
    }

    /// Makes the calling thread act as this task until the guard is dropped: it gets a signal stack, SIGBUS is
    /// unblocked, and its faults in the task's regions are served.
    ///
    /// # Errors
    /// See [`EnterError`].
    pub fn enter(&self) -> Result<Bound<'_>, EnterError> {
        if handler::binding().is_some() {
            return Err(EnterError::ThreadIsBound);
        }
        let row = &self.shared.tasks[self.id.index()];
        if row.bound.swap(true, Ordering::AcqRel) {
            return Err(EnterError::TaskIsBound);
        }
        let stack = prepare_thread().inspect_err(|_| row.bound.store(false, Ordering::Release))?;
        let binding = Binding {
            shared: Arc::as_ptr(&self.shared),
            task: self.id.index(),
        };
        // SAFETY: the guard borrows the handle, which keeps the pager and the task's row; it unbinds when dropped. A
        // guard that is forgotten keeps the borrow's promise only as long as the handle lives, so `TaskHandle::drop`
        // refuses to go on while the task is bound.
        unsafe { handler::bind(Some(binding)) };
        Ok(Bound {
            task: self,
            _stack: stack,
            not_send: PhantomData,
        })
    }

    /// How much the task hurries: its transfers, and those that it waits for, overtake less urgent ones in front of
    /// the store. At first it is in the background. Async-signal-safe.
    pub fn set_urgency(&self, urgency: Urgency) {
        self.shared.tasks[self.id.index()].set_urgency(urgency);
    }

    /// What the core counted for the task.
    #[must_use]
    pub fn counts(&self) -> TaskCounts {
        self.shared.core.lock().task(self.id).unwrap_or_default()
    }

    /// Where the task's time in the pager went. Async-signal-safe.
    #[must_use]
    pub fn times(&self) -> TaskTimes {
        self.shared.tasks[self.id.index()].counters.times()
    }
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        let row = &self.shared.tasks[self.id.index()];
        if row.bound.load(Ordering::Acquire) {
            handler::die(b"freehold: a task was dropped while a thread acts as it\n");
        }
        let Some(local) = row.local.get() else { return };
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        // Stale: removed already, which nobody but this handle does.
        let _ = self.shared.step(context, |core, _| core.remove_task(self.id));
        for view in local.lock().views.drain(..) {
            self.shared.object_at(view.object).detach(view.row);
        }
    }
}

/// Gives the calling thread what the fault handler needs.
fn prepare_thread() -> Result<AlternateStack, EnterError> {
    let stack = AlternateStack::install(SIGNAL_STACK)?;
    // SAFETY: an all-zero sigset_t is a valid value, and the three calls only read and write the set and this thread's
    // mask. SIGBUS has a handler: unblocking it surprises nobody.
    let result = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut())
    };
    match result {
        0 => Ok(stack),
        error => Err(EnterError::Mask(Errno::from_raw_os_error(error))),
    }
}

/// The calling thread acts as a task. Accesses to the task's regions that can fail are made through this.
#[derive(Debug)]
#[must_use = "the thread stops acting as the task when this is dropped"]
pub struct Bound<'a> {
    pub(crate) task: &'a TaskHandle,
    _stack: AlternateStack,
    /// A binding belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl Bound<'_> {
    /// The task.
    #[must_use]
    pub fn task(&self) -> &TaskHandle {
        self.task
    }

    /// Reads the `index`th word of `region`.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn read_word(&self, region: &MappedRegion, index: usize) -> Result<u64, AccessError> {
        let address = self.address(region, index.saturating_mul(WORD), WORD)?;
        // SAFETY: aligned, and in a region of the task that this thread acts as, as `address` checked.
        unsafe { access::load(address.cast()) }.map_err(failed)
    }

    /// Writes the `index`th word of `region`.
    ///
    /// # Errors
    /// See [`AccessError`]; nothing is written then.
    pub fn write_word(&self, region: &MappedRegion, index: usize, value: u64) -> Result<(), AccessError> {
        let address = self.address(region, index.saturating_mul(WORD), WORD)?;
        // SAFETY: as in `read_word`.
        unsafe { access::store(address.cast(), value) }.map_err(failed)
    }

    /// Copies bytes from `offset` in `region` on.
    ///
    /// # Errors
    /// See [`AccessError`]; a part at the front may have been copied.
    pub fn read(&self, region: &MappedRegion, offset: usize, to: &mut [u8]) -> Result<(), AccessError> {
        let address = self.address(region, offset, to.len())?;
        // SAFETY: as in `read_word`; `to` is ordinary memory, which managed memory does not overlap.
        unsafe { access::copy(to.as_mut_ptr(), address, to.len()) }.map_err(failed)
    }

    /// Copies bytes to `offset` in `region` and on.
    ///
    /// # Errors
    /// See [`AccessError`]; a part at the front may have been copied.
    pub fn write(&self, region: &MappedRegion, offset: usize, from: &[u8]) -> Result<(), AccessError> {
        let address = self.address(region, offset, from.len())?;
        // SAFETY: as in `read`.
        unsafe { access::copy(address, from.as_ptr(), from.len()) }.map_err(failed)
    }

    /// A job of the task has ended: transfers that are due are ended, and the backing follows the books. To be called
    /// between two jobs.
    pub fn job_end(&self) {
        let shared = &self.task.shared;
        let row = &shared.tasks[self.task.id.index()];
        let Some(local) = row.local.get() else { return };
        let mut local = local.lock();
        let holder = local.holder;
        let context = &mut local.context;
        shared.finish_due(context, holder, usize::MAX, shared.now());
        shared.adjust_backing_between_jobs(context);
        row.counters.lock_wait.add(context.take_lock_wait());
    }

    /// Drops this task's mappings of `pages` of `region`; the pages stay where they are. The next touch of each is a
    /// soft fault, and nothing else changes: the core need not know. To learn what is referenced, and to measure.
    ///
    /// # Errors
    /// [`AccessError::OutOfBounds`] if `pages` is empty or leaves the region, or that is not this task's.
    pub fn zap(&self, region: &MappedRegion, pages: PageRange) -> Result<(), AccessError> {
        let offset = pages.first().saturating_mul(PAGE_SIZE);
        self.address(region, offset, pages.count().saturating_mul(PAGE_SIZE))?;
        let row = &self.task.shared.tasks[self.task.id.index()];
        let local = row.local.get().ok_or(AccessError::OutOfBounds)?.lock();
        let (view, _) = local.find(region.base.addr()).ok_or(AccessError::OutOfBounds)?;
        let mapping = self.task.shared.object_at(view.object).mapping(view.row);
        let zapped = mapping.map(|mapping| mapping.zap(pages));
        // Refused: an empty range.
        zapped.and_then(Result::ok).ok_or(AccessError::OutOfBounds)
    }

    fn address(&self, region: &MappedRegion, offset: usize, length: usize) -> Result<*mut u8, AccessError> {
        let end = offset.checked_add(length).ok_or(AccessError::OutOfBounds)?;
        if region.task != self.task.id || end > region.length {
            return Err(AccessError::OutOfBounds);
        }
        Ok(region.base.wrapping_add(offset))
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        // SAFETY: binding to nothing needs nothing to stay.
        unsafe { handler::bind(None) };
        let row = &self.task.shared.tasks[self.task.id.index()];
        row.bound.store(false, Ordering::Release);
    }
}

fn failed(_: access::Refused) -> AccessError {
    AccessError::Failed(handler::take_failure())
}
