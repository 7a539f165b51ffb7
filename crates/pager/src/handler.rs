//! The fault handler: what a thread does with its own fault. Everything here is async-signal-safe.

use crate::error::Failure;
use crate::mailbox::Answer;
use crate::report::Broken;
use crate::shared::{Shared, TaskRow};
use crate::task::{Local, View};
use crate::wait::Waiter;
use freehold_core::effect::{Protection, Resolution};
use freehold_core::fact::{Access, Fault};
use freehold_core::units::{Instant, PageIndex};
use freehold_linux::fault::access;
use freehold_linux::fault::{FaultInfo, Handled};
use freehold_linux::{Errno, PAGE_SIZE, PageRange, clock};
use std::cell::Cell;

/// What the calling thread acts as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) shared: *const Shared,
    pub(crate) task: usize,
}

thread_local! {
    /// Constant-initialised and without a destructor: reading it in a handler runs no registration code.
    static BINDING: Cell<Option<Binding>> = const { Cell::new(None) };
    static LAST_FAILURE: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// What the calling thread acts as.
pub(crate) fn binding() -> Option<Binding> {
    BINDING.get()
}

/// Makes the calling thread act as a task, or as none.
///
/// # Safety
/// The pager and the task row must stay until the thread is bound otherwise.
pub(crate) unsafe fn bind(binding: Option<Binding>) {
    BINDING.set(binding);
}

/// Why the last access of this thread was not served.
pub(crate) fn take_failure() -> Failure {
    LAST_FAILURE.take().unwrap_or(Failure::Integrity)
}

/// Says why on standard error and aborts, without allocating: for what nothing right can follow.
pub(crate) fn die(message: &[u8]) -> ! {
    // SAFETY: the pointer and length are those of a live slice; write is async-signal-safe.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    std::process::abort()
}

/// The process's fault hook. Each thread finds its own pager, so several pagers can live in one process.
pub(crate) fn hook(fault: FaultInfo) -> Handled {
    let Some(binding) = BINDING.get() else {
        return Handled::No;
    };
    // SAFETY: `bind`'s caller keeps the pager alive while the thread is bound to it.
    let shared = unsafe { &*binding.shared };
    let row = &shared.tasks[binding.task];
    let Some(local) = row.local.get() else {
        return Handled::No;
    };
    if local.is_held_by_caller() {
        // The fault is in the pager's own code.
        return Handled::No;
    }
    let mut local = local.lock();
    match shared.serve(row, &mut local, fault) {
        Served::Foreign => Handled::No,
        // Who restores wants the fault and not the access: that must not fault anew.
        Served::Repeat if local.restores() => access::landing(fault.instruction).map_or(Handled::No, Handled::ResumeAt),
        Served::Repeat => Handled::Yes,
        Served::Failed(failure) => {
            row.counters.failures.add(1);
            LAST_FAILURE.set(Some(failure));
            access::landing(fault.instruction).map_or(Handled::No, Handled::ResumeAt)
        }
    }
}

enum Served {
    /// Not in managed memory of this task.
    Foreign,
    /// The access is to be repeated.
    Repeat,
    /// The access cannot be served.
    Failed(Failure),
}

impl Shared {
    fn serve(&self, row: &TaskRow, local: &mut Local, fault: FaultInfo) -> Served {
        let Some((view, page)) = local.find(fault.address) else {
            return Served::Foreign;
        };
        let begun = clock::now().as_nanos();
        local.context.looked = Instant::new(begun);
        let waited_before = row.counters.waited();
        let cpu_before = local.pinned.map(|_| clock::thread_cpu_time());
        row.counters.faults.add(1);
        let served = self.resolve(row, local, view, page, fault);
        let lock_wait = local.context.take_lock_wait();
        row.counters.lock_wait.add(lock_wait);
        let waited = row.counters.waited() - waited_before;
        let cpu = cpu_before.map(|before| clock::thread_cpu_time().saturating_sub(before));
        let ended = clock::now().as_nanos();
        let service = (ended - begun).saturating_sub(waited + lock_wait);
        row.counters.service.add(service);
        row.counters.longest_service.raise(service);
        if let (Some(pinned), Some(cpu)) = (&mut local.pinned, cpu) {
            pinned.meter.end_fault(&row.counters, cpu, ended - begun);
        }
        if let Some(recorder) = &mut local.context.recorder {
            recorder.fault(begun, ended, view.object, page);
        }
        served
    }

    fn resolve(&self, row: &TaskRow, local: &mut Local, view: View, page: usize, fault: FaultInfo) -> Served {
        let holder = local.holder;
        let context = &mut local.context;
        self.finish_due(context, holder, self.store.burst(), self.lately(context));
        let access = match (fault.protection, fault.write) {
            (true, _) => Access::Upgrade,
            (false, true) => Access::Write,
            (false, false) => Access::Read,
        };
        let number = u32::try_from(self.object_at(view.object).number(page)).unwrap_or(u32::MAX);
        let fault = Fault {
            mapping: view.mapping,
            page: PageIndex::new(u32::try_from(page).unwrap_or(u32::MAX)),
            access,
        };
        row.mailbox.open();
        if self.step(context, |core, now| core.handle_fault(now, fault)).is_err() {
            row.mailbox.close();
            self.counters.note_broken(Broken::FaultRefused);
            return Served::Failed(Failure::Integrity);
        }
        let waiter = Waiter {
            task: local.task,
            holder,
            page: number,
        };
        let (answer, waited) = self.await_answer(context, row, waiter);
        if let Some(recorder) = &mut context.recorder {
            recorder.answered(answer);
        }
        if let Some(pinned) = &mut local.pinned {
            pinned.meter.answered(answer);
        }
        let served = self.carry_out_answer(row, view, page, number, answer);
        if waited && !local.restores() {
            self.tell_resumed(waiter.task, matches!(served, Served::Failed(_)));
        }
        served
    }

    fn carry_out_answer(&self, row: &TaskRow, view: View, page: usize, number: u32, answer: Answer) -> Served {
        match answer {
            Answer::Map {
                epoch,
                protection,
                resolution,
            } => {
                let Some(_stripe) = self.objects.epochs.hold(number as usize, epoch) else {
                    row.counters.epoch_retries.add(1);
                    return Served::Repeat;
                };
                self.make_mapping(row, view, page, protection, resolution == Resolution::Upgrade)
            }
            Answer::Retry => Served::Repeat,
            Answer::Fail(failure) => Served::Failed(failure.into()),
        }
    }

    /// Maps the page, its epoch being held.
    fn make_mapping(&self, row: &TaskRow, view: View, page: usize, protection: Protection, upgrade: bool) -> Served {
        let mapping = self.object_at(view.object).mapping(view.row);
        let Some(range) = mapping.and_then(|mapping| mapping.addresses(PageRange::single(page))) else {
            self.counters.note_broken(Broken::MappingRefused);
            return Served::Failed(Failure::Integrity);
        };
        let read_only = protection == Protection::ReadOnly;
        let made = if upgrade {
            // Where a late zap has taken the entry away this changes nothing, and the access faults once more.
            self.userfault.write_protect(range, read_only)
        } else {
            match self.userfault.continue_(range, read_only) {
                Err(stopped) if stopped.errno == Errno::EXIST => {
                    row.counters.mapped_already.add(1);
                    self.userfault.write_protect(range, read_only)
                }
                Err(stopped) => Err(stopped.errno),
                Ok(()) => Ok(()),
            }
        };
        match made {
            // AGAIN: the address space kept changing; the access asks again.
            Ok(()) | Err(Errno::AGAIN) => Served::Repeat,
            Err(errno) => {
                let absent = errno == Errno::FAULT;
                self.counters.note_broken(if absent {
                    Broken::PageAbsent
                } else {
                    Broken::MappingRefused
                });
                Served::Failed(Failure::Integrity)
            }
        }
    }
}

/// The page of a mapping that starts at `base`, for an address within its `length`.
pub(crate) fn page_at(base: usize, length: usize, address: usize) -> Option<usize> {
    let offset = address.checked_sub(base)?;
    (offset < length).then_some(offset / PAGE_SIZE)
}
