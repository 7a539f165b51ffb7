//! The C library's functions behind those of this library.
//!
//! All are looked up as the program is loaded. Later the dynamic linker may be at work in another thread, whose lock is
//! held while a library's constructors run, and these may wait for the thread that would look.
//!
//! Those that may wait long are called with the ABI `C-unwind`: a thread may be cancelled there (pthreads(7)), and then
//! ends by being unwound through the functions that called them.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::hooks;
use crate::sys::Answer;

const NEXT: usize = usize::MAX;
/// There is none.
const NONE: usize = 1;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// The C library's function of a name.
pub(crate) struct Function {
    name: &'static CStr,
    found: AtomicUsize,
}

impl Function {
    /// Its address, if there is one.
    pub(crate) fn address(&self) -> Option<usize> {
        let found = match self.found.load(Ordering::Relaxed) {
            0 => self.look(),
            found => found,
        };
        (found != NONE).then_some(found)
    }

    fn look(&self) -> usize {
        // SAFETY: the name ends.
        let found = unsafe { dlsym(core::ptr::without_provenance_mut(NEXT), self.name.as_ptr()) } as usize;
        let found = if found == 0 { forget_error() } else { found };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The program asks for errors of its own only.
fn forget_error() -> usize {
    // SAFETY: the text is not looked at.
    unsafe { dlerror() };
    NONE
}

macro_rules! functions {
    ($($function:ident $name:literal)*) => {
        $(pub(crate) static $function: Function = Function { name: $name, found: AtomicUsize::new(0) };)*

        /// Looks all of them up.
        pub(crate) fn look_up() {
            for function in [$(&$function),*] {
                function.address();
            }
        }
    };
}

functions! {
    FGETC c"fgetc"
    FILENO c"fileno"
    FOPEN c"fopen"
    FOPEN64 c"fopen64"
    FORK c"fork"
    FSTAT c"fstat"
    FSTAT64 c"fstat64"
    FSTATAT c"fstatat"
    FSTATAT64 c"fstatat64"
    FXSTAT c"__fxstat"
    FXSTAT64 c"__fxstat64"
    FXSTATAT c"__fxstatat"
    FXSTATAT64 c"__fxstatat64"
    LSTAT c"lstat"
    LSTAT64 c"lstat64"
    LXSTAT c"__lxstat"
    LXSTAT64 c"__lxstat64"
    OPEN c"open"
    OPEN64 c"open64"
    OPENAT c"openat"
    OPENAT64 c"openat64"
    PTHREAD_ATTR_SETSTACK c"pthread_attr_setstack"
    PTHREAD_MUTEX_INIT c"pthread_mutex_init"
    STAT c"stat"
    STAT64 c"stat64"
    STATX c"statx"
    SYSCALL c"syscall"
    UNGETC c"ungetc"
    XSTAT c"__xstat"
    XSTAT64 c"__xstat64"
}

/// Calls the function behind this library's; where there is none, what follows `=>` is the answer, else -1.
macro_rules! behind {
    ($function:ident as $kind:ty, $($argument:expr),*) => {
        $crate::hooks::behind::behind!($function as $kind => -1, $($argument),*)
    };
    ($function:ident as $kind:ty => $failed:expr, $($argument:expr),*) => {
        match $crate::hooks::behind::$function.address() {
            None => $crate::hooks::fail($crate::sys::Errno::NOSYS, $failed),
            // SAFETY: the function of this name has these parameters; the caller's word about the arguments.
            Some(address) => unsafe {
                core::mem::transmute::<usize, $kind>(address)($($argument),*)
            },
        }
    };
}
pub(crate) use behind;

/// A call by its number, which the C library's `syscall` makes.
///
/// # Safety
/// As the kernel's.
pub(crate) unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> Answer {
    type Call = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;
    let answer = behind!(SYSCALL as Call, number, a, b, c, d, e, f);
    if answer == -1 {
        Err(hooks::error())
    } else {
        Ok(answer.cast_unsigned())
    }
}
