//! The SIGBUS handler: read the registers, call the hook, chain to the previous handler.

use super::{FaultInfo, Handled, Hook, access};
use crate::{Errno, ThreadId, sys};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

const ERROR_PROTECTION: i64 = 1;
const ERROR_WRITE: i64 = 1 << 1;
const TRAP_PAGE_FAULT: i64 = 14;
/// A poisoned page: a hardware error, or [`crate::userfault::Userfault::poison`].
const BUS_MCEERR_AR: c_int = 4;
const BUS_MCEERR_AO: c_int = 5;

static TAKEN: AtomicBool = AtomicBool::new(false);
/// The hook as a pointer. Never cleared, so that a handler still running in another thread after a removal finds it.
static HOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static PREVIOUS_ACTION: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);

/// The handler could not be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The caller's mistake: a hook is installed already; there is one per process. Drop it first.
    #[error("a SIGBUS hook is already installed in this process")]
    Taken,
    /// The kernel's refusal, unexpected.
    #[error("the SIGBUS handler could not be installed: {0}")]
    System(Errno),
}

/// The SIGBUS handler is installed. Dropping it puts the previous one back, unless somebody has installed a third over
/// ours, which then stays and may still call ours.
#[derive(Debug)]
#[must_use = "the handler is removed when this is dropped"]
pub struct Installed(());

/// Makes `hook` receive the page faults of the process that raise SIGBUS.
///
/// The handler runs on the thread's alternate stack if it has one ([`super::AlternateStack`]), may be entered again
/// from within (a hook may fault), and preserves `errno`.
///
/// # Errors
/// See [`InstallError`]; nothing is changed then.
pub fn install(hook: Hook) -> Result<Installed, InstallError> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(InstallError::Taken);
    }
    // In a forked child the number that was asked for before is the parent's, and hooks name the thread that waits.
    ThreadId::refresh();
    HOOK.store(hook as *mut (), Ordering::Release);
    exchange().map_err(|errno| {
        TAKEN.store(false, Ordering::Release);
        InstallError::System(errno)
    })?;
    Ok(Installed(()))
}

fn exchange() -> Result<(), Errno> {
    let previous = current()?;
    if previous.sa_sigaction == own_action() {
        // Left over from a removal that found a third handler, which has since put ours back. Chaining to ourselves
        // would never end; who was before us is remembered still.
        return Ok(());
    }
    // Remembered before the switch: the handler may run at once.
    PREVIOUS_FLAGS.store(previous.sa_flags, Ordering::Release);
    PREVIOUS_ACTION.store(previous.sa_sigaction, Ordering::Release);
    let mut action = previous;
    action.sa_sigaction = own_action();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    // SAFETY: sigemptyset writes the set it is given.
    unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
    // SAFETY: `handler` has the signature that SA_SIGINFO asks for and is async-signal-safe if the hook is.
    sys::check_int(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) }).map(|_| ())
}

fn own_action() -> libc::sighandler_t {
    handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

fn current() -> Result<libc::sigaction, Errno> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: with a null new action the call only fills `action`.
    sys::check_int(unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: filled by the successful call.
    Ok(unsafe { action.assume_init() })
}

impl Drop for Installed {
    fn drop(&mut self) {
        if let Ok(mut action) = current()
            && action.sa_sigaction == own_action()
        {
            action.sa_sigaction = PREVIOUS_ACTION.load(Ordering::Acquire);
            action.sa_flags = PREVIOUS_FLAGS.load(Ordering::Acquire);
            // SAFETY: this action, with an equal or smaller mask, was installed before ours.
            unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
        }
        TAKEN.store(false, Ordering::Release);
    }
}

extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::errno();
    // SAFETY: the kernel passes valid pointers to both to an SA_SIGINFO handler.
    let handled = unsafe { handle(&*info, &*context.cast::<libc::ucontext_t>()) };
    match handled {
        Handled::Yes => {}
        // SAFETY: as above; no other reference to the context lives.
        Handled::ResumeAt(instruction) => resume_at(unsafe { &mut *context.cast::<libc::ucontext_t>() }, instruction),
        Handled::No => chain(signal, info, context),
    }
    sys::set_errno(errno);
}

/// Asks the hook, unless the page is poisoned. Where that does not help, an access that may fail does.
fn handle(info: &libc::siginfo_t, context: &libc::ucontext_t) -> Handled {
    let Some(fault) = page_fault(info, context) else {
        return Handled::No;
    };
    let asked = if is_poisoned(info) {
        Handled::No
    } else {
        call_hook(fault)
    };
    match asked {
        Handled::No => access::landing(fault.instruction).map_or(Handled::No, Handled::ResumeAt),
        handled => handled,
    }
}

/// Makes the interrupted code go on elsewhere when the handler returns.
fn resume_at(context: &mut libc::ucontext_t, instruction: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP.unsigned_abs() as usize] = (instruction as u64).cast_signed();
}

fn call_hook(fault: FaultInfo) -> Handled {
    let hook = HOOK.load(Ordering::Acquire);
    // SAFETY: only `install` stores here, always a `Hook`, and before the handler is installed.
    let hook: Hook = unsafe { std::mem::transmute(hook) };
    hook(fault)
}

/// Whether the page is poisoned: no hook can bring it.
fn is_poisoned(info: &libc::siginfo_t) -> bool {
    info.si_code == BUS_MCEERR_AR
}

/// The fault that caused the signal; `None` if it was sent by a program or reports a page that nobody touched.
fn page_fault(info: &libc::siginfo_t, context: &libc::ucontext_t) -> Option<FaultInfo> {
    let register = |number: c_int| context.uc_mcontext.gregs[number.unsigned_abs() as usize];
    if info.si_code == BUS_MCEERR_AO {
        return None;
    }
    // When the kernel has no memory for the details of a signal it delivers a fault as if sent by nobody; the registers
    // are true even then. A signal that a program did send leaves the sender's identifier.
    // SAFETY: for codes of 0 and below the kernel fills the sender's identifier, or zero.
    let sent = info.si_code <= 0 && unsafe { info.si_pid() } != 0;
    if sent || register(libc::REG_TRAPNO) != TRAP_PAGE_FAULT {
        return None;
    }
    let error = register(libc::REG_ERR);
    Some(FaultInfo {
        address: usize::try_from(register(libc::REG_CR2).cast_unsigned()).ok()?,
        write: error & ERROR_WRITE != 0,
        protection: error & ERROR_PROTECTION != 0,
        instruction: usize::try_from(register(libc::REG_RIP).cast_unsigned()).ok()?,
    })
}

/// Does what would have happened without us.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let action = PREVIOUS_ACTION.load(Ordering::Acquire);
    let flags = PREVIOUS_FLAGS.load(Ordering::Acquire);
    // SAFETY: the kernel passed a valid pointer.
    let sent = unsafe { (*info).si_code } <= 0;
    match action {
        libc::SIG_IGN if sent => {}
        // A fault cannot be ignored: the kernel kills the process for it.
        libc::SIG_DFL | libc::SIG_IGN => default_action(signal, sent),
        _ if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: installed with SA_SIGINFO, so it has this signature.
            let previous: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(action) };
            previous(signal, info, context);
        }
        _ => {
            // SAFETY: installed without SA_SIGINFO, so it has this signature.
            let previous: extern "C" fn(c_int) = unsafe { std::mem::transmute(action) };
            previous(signal);
        }
    }
}

/// Restores the default action, by which the process dies when the access is repeated, or now if nothing repeats.
fn default_action(signal: c_int, sent: bool) {
    // SAFETY: restoring the default action has no precondition; both calls are async-signal-safe. SIGBUS is not blocked
    // here (SA_NODEFER), so a raised one acts at once.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if sent {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), ThreadId::current().as_pid(), signal);
        }
    }
}
