//! Faults on real memory: SIGBUS in the faulting thread, resolved there.
//!
//! There is one hook per process, so every test that faults takes [`Pager::start`]'s lock.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use freehold_linux::fault::access::{self, Refused};
use freehold_linux::fault::{self, AlternateStack, FaultInfo, Handled};
use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, PageRange};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static SERIAL: Mutex<()> = Mutex::new(());
static PAGER: AtomicPtr<Arena> = AtomicPtr::new(std::ptr::null_mut());
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static WRITE_FAULTS: AtomicUsize = AtomicUsize::new(0);
static PROTECTION_FAULTS: AtomicUsize = AtomicUsize::new(0);
static LAST_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static CLOBBER_ERRNO: AtomicBool = AtomicBool::new(false);
static STACK_ADDRESS: AtomicUsize = AtomicUsize::new(0);

struct Arena {
    userfault: Userfault,
    object: Memfd,
    alias: SharedMapping,
    mapping: SharedMapping,
    protect: AtomicBool,
    /// Without CONFIG_MEMORY_FAILURE, a fault on a poisoned page looks like a missing page: the pager must know.
    poisoned: AtomicBool,
    /// A page filled through the alias is in a frame before its content is: filling must exclude mapping.
    filling: PiMutex<()>,
}

/// A pager in miniature: the simplest policy that resolves every fault.
struct Pager {
    arena: *mut Arena,
    installed: Option<fault::Installed>,
    _serial: MutexGuard<'static, ()>,
}

impl Pager {
    fn start(pages: usize) -> Self {
        let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let userfault = Userfault::open(Features::SELF_PAGING).unwrap();
        println!("userfaultfd scope: {:?}", userfault.scope());
        let object = Memfd::create(c"paging-test", pages).unwrap();
        let mut alias = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
        alias.lock_on_fault().unwrap();
        let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
        // SAFETY: the mapping is reached through raw pointers only.
        unsafe { userfault.register(mapping.addresses(mapping.whole()).unwrap(), Modes::ALL) }.unwrap();
        let arena = Box::into_raw(Box::new(Arena {
            userfault,
            object,
            alias,
            mapping,
            protect: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            filling: PiMutex::new(()),
        }));
        PAGER.store(arena, Ordering::Release);
        for counter in [&FAULTS, &WRITE_FAULTS, &PROTECTION_FAULTS, &LAST_ADDRESS] {
            counter.store(0, Ordering::Relaxed);
        }
        let installed = Some(fault::install(hook).unwrap());
        Self {
            arena,
            installed,
            _serial: serial,
        }
    }

    fn arena(&self) -> &Arena {
        // SAFETY: allocated in `start`, freed in `drop`.
        unsafe { &*self.arena }
    }

    fn read(&self, page: usize) -> u8 {
        // SAFETY: within the mapping; an absent page faults and is filled.
        unsafe { self.arena().mapping.page(page).unwrap().read_volatile() }
    }

    /// Reads the page's first word by an access that may fail.
    fn try_read(&self, page: usize) -> Result<u64, Refused> {
        // SAFETY: as in `read`.
        unsafe { access::load(self.arena().mapping.page(page).unwrap().cast()) }
    }

    fn write(&self, page: usize, value: u8) {
        // SAFETY: as in `read`.
        unsafe { self.arena().mapping.page(page).unwrap().write_volatile(value) }
    }

    fn range(&self, page: usize) -> AddressRange {
        self.arena().mapping.addresses(PageRange::single(page)).unwrap()
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.installed.take();
        PAGER.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: made by Box::into_raw in `start`; the hook no longer finds it.
        drop(unsafe { Box::from_raw(self.arena) });
    }
}

fn hook(info: FaultInfo) -> Handled {
    let arena = PAGER.load(Ordering::Acquire);
    if arena.is_null() {
        return Handled::No;
    }
    // SAFETY: non-null while a Pager lives, and faults of the test happen while it does.
    let arena = unsafe { &*arena };
    let Some(page) = arena.mapping.page_of(info.address) else {
        return Handled::No;
    };
    let here = 0_u8;
    STACK_ADDRESS.store((&raw const here).addr(), Ordering::Relaxed);
    FAULTS.fetch_add(1, Ordering::Relaxed);
    WRITE_FAULTS.fetch_add(usize::from(info.write), Ordering::Relaxed);
    PROTECTION_FAULTS.fetch_add(usize::from(info.protection), Ordering::Relaxed);
    LAST_ADDRESS.store(info.address, Ordering::Relaxed);
    if CLOBBER_ERRNO.load(Ordering::Relaxed) {
        // SAFETY: closing an impossible descriptor only sets errno.
        unsafe { libc::close(-1) };
    }
    resolve(arena, page, info)
}

fn resolve(arena: &Arena, page: usize, info: FaultInfo) -> Handled {
    let Some(range) = arena.mapping.addresses(PageRange::single(page)) else {
        return Handled::No;
    };
    if arena.poisoned.load(Ordering::Relaxed) {
        return Handled::No;
    }
    if info.protection {
        return if arena.userfault.write_protect(range, false).is_ok() {
            Handled::Yes
        } else {
            Handled::No
        };
    }
    let protect = arena.protect.load(Ordering::Relaxed);
    let _guard = arena.filling.lock();
    match arena.userfault.continue_(range, protect) {
        Err(stopped) if stopped.errno == Errno::FAULT => {}
        Ok(()) => return Handled::Yes,
        Err(stopped) => {
            return if stopped.errno == Errno::EXIST {
                Handled::Yes
            } else {
                Handled::No
            };
        }
    }
    // In no frame: fill it through the alias, as a store would, then map it.
    let Some(target) = arena.alias.page(page) else {
        return Handled::No;
    };
    // SAFETY: within the alias, whose faults nobody intercepts.
    unsafe { target.write_volatile(100) };
    match arena.userfault.continue_(range, protect) {
        Ok(()) => Handled::Yes,
        Err(stopped) => {
            if stopped.errno == Errno::EXIST {
                Handled::Yes
            } else {
                Handled::No
            }
        }
    }
}

fn faults() -> usize {
    FAULTS.load(Ordering::Relaxed)
}

#[test]
fn a_missing_page_faults_is_filled_and_faults_no_more() {
    let pager = Pager::start(4);
    assert_eq!(pager.read(2), 100);
    assert_eq!(faults(), 1);
    assert_eq!(LAST_ADDRESS.load(Ordering::Relaxed), pager.range(2).start());
    assert_eq!(WRITE_FAULTS.load(Ordering::Relaxed), 0);
    assert_eq!(pager.read(2), 100);
    assert_eq!(faults(), 1);
    pager.write(3, 5);
    assert_eq!((faults(), WRITE_FAULTS.load(Ordering::Relaxed)), (2, 1));
    assert_eq!(PROTECTION_FAULTS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_zapped_page_faults_and_keeps_its_content() {
    let pager = Pager::start(2);
    pager.write(0, 42);
    pager.arena().mapping.zap(PageRange::single(0)).unwrap();
    assert_eq!(pager.read(0), 42);
    assert_eq!(faults(), 2);
}

#[test]
fn a_punched_page_is_missing_again_for_every_mapper() {
    let pager = Pager::start(2);
    pager.write(0, 42);
    pager.arena().object.punch_hole(PageRange::single(0)).unwrap();
    assert_eq!(pager.arena().object.resident(PageRange::new(0, 2)).unwrap().pages, 0);
    let stopped = pager.arena().userfault.continue_(pager.range(0), false).unwrap_err();
    assert_eq!((stopped.done, stopped.errno), (0, Errno::FAULT));
    assert_eq!(pager.read(0), 100, "filled anew");
    assert_eq!(faults(), 2);
}

#[test]
fn a_write_to_a_protected_page_reports_protection() {
    let pager = Pager::start(2);
    pager.write(1, 7);
    pager.arena().userfault.write_protect(pager.range(1), true).unwrap();
    assert_eq!(pager.read(1), 7);
    assert_eq!(faults(), 1, "reading a protected page is no fault");
    pager.write(1, 8);
    assert_eq!((faults(), PROTECTION_FAULTS.load(Ordering::Relaxed)), (2, 1));
    assert_eq!(pager.read(1), 8);
}

#[test]
fn protection_is_kept_after_a_zap_only_when_asked_for() {
    let pager = Pager::start(2);
    pager.write(0, 1);
    for (asked, faults_expected) in [(true, 1), (false, 0)] {
        pager.arena().userfault.write_protect(pager.range(0), true).unwrap();
        pager.arena().mapping.zap(PageRange::single(0)).unwrap();
        pager.arena().protect.store(asked, Ordering::Relaxed);
        assert_eq!(pager.read(0), 1);
        PROTECTION_FAULTS.store(0, Ordering::Relaxed);
        pager.write(0, 1);
        assert_eq!(
            PROTECTION_FAULTS.load(Ordering::Relaxed),
            faults_expected,
            "asked: {asked}"
        );
    }
}

#[test]
fn a_second_continue_says_exists_and_names_the_page() {
    let pager = Pager::start(3);
    pager.arena().alias.populate(PageRange::new(0, 3)).unwrap();
    assert_eq!(pager.read(1), 0);
    let all = pager.arena().mapping.addresses(PageRange::new(0, 3)).unwrap();
    let stopped = pager.arena().userfault.continue_(all, false).unwrap_err();
    assert_eq!((stopped.done, stopped.errno), (PAGE_SIZE, Errno::EXIST));
    pager.arena().userfault.continue_(pager.range(2), false).unwrap();
    assert_eq!(faults(), 1);
}

#[test]
fn copy_and_zeropage_fill_missing_pages() {
    let pager = Pager::start(3);
    let userfault = &pager.arena().userfault;
    userfault
        .copy(pager.range(0).start(), &[9; 2 * PAGE_SIZE], false)
        .unwrap();
    userfault.zeropage(pager.range(2)).unwrap();
    userfault.wake(pager.range(2)).unwrap();
    assert_eq!([pager.read(0), pager.read(1), pager.read(2)], [9, 9, 0]);
    assert_eq!(faults(), 0);
    assert_eq!(
        userfault
            .copy(pager.range(0).start(), &[9; 3], false)
            .unwrap_err()
            .errno,
        Errno::INVAL
    );
}

#[test]
fn poison_is_undone_by_filling_and_by_zapping() {
    let pager = Pager::start(2);
    for page in [0, 1] {
        pager.arena().userfault.poison(pager.range(page)).unwrap();
    }
    pager.arena().userfault.zeropage(pager.range(0)).unwrap();
    pager.arena().mapping.zap(PageRange::single(1)).unwrap();
    assert_eq!((pager.read(0), pager.read(1), faults()), (0, 100, 1));
}

/// A page that was protected and has left keeps a mark, which poison does not overwrite.
#[test]
fn a_page_that_was_protected_and_has_left_is_poisoned() {
    let pager = Pager::start(1);
    let arena = pager.arena();
    arena.protect.store(true, Ordering::Relaxed);
    assert_eq!(pager.read(0), 100);
    arena.object.punch_hole(PageRange::single(0)).unwrap();
    let refused = arena.userfault.poison(pager.range(0)).unwrap_err();
    assert_eq!(refused.errno, Errno::EXIST);
    arena.userfault.poison_absent(pager.range(0)).unwrap();
    arena.poisoned.store(true, Ordering::Relaxed);
    assert_eq!(pager.try_read(0), Err(Refused));
}

#[test]
fn an_access_that_may_fail_ends_with_an_error_and_others_go_on() {
    let pager = Pager::start(2);
    let arena = pager.arena();
    arena.userfault.poison(pager.range(0)).unwrap();
    arena.poisoned.store(true, Ordering::Relaxed);
    assert_eq!([pager.try_read(0), pager.try_read(0)], [Err(Refused); 2]);
    // SAFETY: the first word of the mapping.
    assert_eq!(unsafe { access::store(arena.mapping.base().cast(), 7) }, Err(Refused));
    arena.mapping.zap(PageRange::single(0)).unwrap();
    arena.poisoned.store(false, Ordering::Relaxed);
    assert!(pager.try_read(0).is_ok() && pager.try_read(1).is_ok());
}

#[test]
fn errno_survives_a_fault() {
    let pager = Pager::start(1);
    CLOBBER_ERRNO.store(true, Ordering::Relaxed);
    // SAFETY: errno of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(libc::EXDEV) };
    let value = pager.read(0);
    // SAFETY: as above.
    let after = unsafe { errno.read() };
    CLOBBER_ERRNO.store(false, Ordering::Relaxed);
    assert_eq!((value, faults(), after), (100, 1, libc::EXDEV));
}

#[test]
fn the_hook_runs_on_the_alternate_stack() {
    let pager = Pager::start(1);
    let size = AlternateStack::least_size() + (64 << 10);
    let stack = AlternateStack::install(size).unwrap();
    assert!(stack.is_locked(), "root may lock 64 KiB");
    pager.read(0);
    let used = STACK_ADDRESS.load(Ordering::Relaxed);
    let mut current = std::mem::MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: only fills `current`.
    assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), current.as_mut_ptr()) }, 0);
    // SAFETY: filled by the successful call.
    let current = unsafe { current.assume_init() };
    assert!(
        used.wrapping_sub(current.ss_sp.addr()) < current.ss_size,
        "{used:#x} not in {:?}",
        current.ss_sp
    );
    drop(stack);
    assert!(AlternateStack::install(16).is_err());
}

#[test]
fn threads_fault_at_the_same_time() {
    let pager = Pager::start(64);
    let shared = &pager.arena().mapping;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for page in 0..64 {
                    // SAFETY: within the mapping; an absent page faults and is filled.
                    assert_eq!(unsafe { shared.page(page).unwrap().read_volatile() }, 100);
                }
            });
        }
    });
    assert!(faults() >= 64);
}

#[test]
fn only_one_hook_at_a_time_and_a_new_one_after_removal() {
    let pager = Pager::start(1);
    assert_eq!(fault::install(hook).unwrap_err(), fault::InstallError::Taken);
    drop(pager);
    let pager = Pager::start(1);
    assert_eq!(pager.read(0), 100);
}

#[test]
fn overlapping_userfaultfds_are_refused_with_the_reason() {
    let pager = Pager::start(1);
    let second = Userfault::open(Features::SELF_PAGING).unwrap();
    // SAFETY: refused, and the range is the pager's own.
    let error = unsafe { second.register(pager.range(0), Modes::ALL) }.unwrap_err();
    assert_eq!(error, freehold_linux::userfault::RegisterError::Busy);
}

static CHAINED: AtomicUsize = AtomicUsize::new(0);
static RESCUE: AtomicPtr<SharedMapping> = AtomicPtr::new(std::ptr::null_mut());
static RESCUED_OBJECT: AtomicPtr<Memfd> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn previous_handler(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    assert_eq!(signal, libc::SIGBUS);
    CHAINED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's pointer, passed on by the chain; the object lives through the test.
    unsafe {
        if (*info).si_code > 0 {
            // Beyond the end of the object: lengthen it, so that the repeated access succeeds.
            assert_eq!(
                (*info).si_addr().addr(),
                (*RESCUE.load(Ordering::Relaxed)).page(1).unwrap().addr()
            );
            (*RESCUED_OBJECT.load(Ordering::Relaxed)).set_pages(2).unwrap();
        }
    }
}

#[test]
fn what_the_hook_does_not_handle_goes_to_the_previous_handler() {
    let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut object = Memfd::create(c"chain-test", 2).unwrap();
    let mut mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    object.set_pages(1).unwrap();
    RESCUE.store(&raw mut mapping, Ordering::Relaxed);
    RESCUED_OBJECT.store(&raw mut object, Ordering::Relaxed);
    // SAFETY: a zeroed sigaction is valid; the handler has the signature of SA_SIGINFO.
    let (before, saved) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = previous_handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let mut saved = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, &raw mut saved), 0);
        (action.sa_sigaction, saved)
    };
    drop(serial);
    let pager = Pager::start(1);
    // SAFETY: within the mapping; the previous handler makes the page exist.
    assert_eq!(unsafe { mapping.page(1).unwrap().read_volatile() }, 0);
    assert_eq!((CHAINED.load(Ordering::Relaxed), faults()), (1, 0));
    // A signal that a program sent is no fault, whatever the registers still hold.
    pager.read(0);
    // SAFETY: raising a handled signal.
    unsafe { libc::raise(libc::SIGBUS) };
    assert_eq!((CHAINED.load(Ordering::Relaxed), faults()), (2, 1));
    drop(pager);
    let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: `saved` was filled by sigaction and is put back; `now` is filled.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const saved, &raw mut now), 0);
        assert_eq!(now.sa_sigaction, before, "the previous handler was put back");
    }
    drop(serial);
}

/// Names the way to die, in the process that [`without_a_previous_handler_the_process_dies_of_sigbus`] starts.
const DEATH: &str = "FREEHOLD_TEST_DEATH";

#[test]
fn without_a_previous_handler_the_process_dies_of_sigbus() {
    if let Ok(death) = std::env::var(DEATH) {
        die_of(&death);
        panic!("survived {death}");
    }
    for death in ["a fault", "an ignored fault", "a sent signal", "poison"] {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "without_a_previous_handler_the_process_dies_of_sigbus"])
            .env(DEATH, death)
            .output()
            .unwrap()
            .status;
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{death}: {status}");
    }
}

fn die_of(death: &str) {
    let previous = if death == "an ignored fault" {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: setting a default or ignoring action.
    unsafe { libc::signal(libc::SIGBUS, previous) };
    let pager = Pager::start(1);
    match death {
        "a sent signal" => {
            // SAFETY: raising a signal.
            unsafe { libc::raise(libc::SIGBUS) };
        }
        "poison" => {
            pager.arena().userfault.poison(pager.range(0)).unwrap();
            pager.arena().poisoned.store(true, Ordering::Relaxed);
            pager.read(0);
        }
        _ => {
            let mut object = Memfd::create(c"dying", 1).unwrap();
            let mapping = SharedMapping::of_whole(&object, Access::Read).unwrap();
            object.set_pages(0).unwrap();
            // SAFETY: within the mapping; the fault ends the process.
            unsafe { mapping.base().read_volatile() };
        }
    }
}
