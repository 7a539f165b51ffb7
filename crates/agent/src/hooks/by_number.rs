//! The C library's `syscall`: each call as by the function of its name.

use core::ffi::{c_int, c_void};

use crate::client::attach;
use crate::hooks::behind;
use crate::hooks::{self, advice, brk_ahead, locks, remap, shared_segments};
use crate::kernel_paths::{memory_files, needed};
use crate::sys::{self, Answer, Errno};
use crate::threads::alone;
use crate::{filters, forks, programs};

const OPEN: usize = 2;
const OPENAT2: usize = 437;

/// The C library's `syscall`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the caller's word.
    if let Some(answer) = unsafe { replaced(number, arguments) } {
        return answer;
    }
    // SAFETY: the caller's word.
    let made = unsafe {
        if is_fork(number, a, b) {
            fork(number, arguments)
        } else {
            call(number, arguments)
        }
    };
    match made {
        Ok(answer) => answer.cast_signed(),
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// The function that takes the place of the C library's of this number, if there is one: such a function leaves -1 and
/// `errno` too. Numbers that are no `int` are for the kernel to judge.
///
/// # Safety
/// As the C library's `syscall`.
unsafe fn replaced(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> Option<isize> {
    let at = |address: usize| -> *mut c_void { core::ptr::with_exposed_provenance_mut(address) };
    let of_pointer = |made: *mut c_void| (made as usize).cast_signed();
    let of_number = |done: c_int| isize::try_from(done).unwrap_or(-1);
    Some(match number {
        sys::MMAP => of_pointer(hooks::mmap(
            at(a),
            b,
            small(c)?,
            small(d)?,
            low(e),
            f.cast_signed() as i64,
        )),
        sys::MREMAP => of_pointer(remap::mremap(at(a), b, c, small(d)?, at(e))),
        sys::MUNMAP => of_number(hooks::munmap(at(a), b)),
        sys::MPROTECT => of_number(locks::mprotect(at(a), b, small(c)?)),
        sys::BRK => brk_ahead::by_number(a).cast_signed(),
        locks::MLOCK => of_number(locks::mlock(at(a), b)),
        locks::MLOCK2 => of_number(locks::mlock2(at(a), b, small(c)?.cast_unsigned())),
        locks::MUNLOCK => of_number(locks::munlock(at(a), b)),
        locks::MLOCKALL => of_number(locks::mlockall(small(a)?)),
        locks::MUNLOCKALL => of_number(locks::munlockall()),
        programs::EXECVE => of_number(programs::execve(at(a).cast(), at(b).cast(), at(c).cast())),
        programs::EXECVEAT => of_number(programs::execveat(
            low(a),
            at(b).cast(),
            at(c).cast(),
            at(d).cast(),
            small(e)?,
        )),
        _ => return None,
    })
}

/// Flags that are an `int`.
fn small(flags: usize) -> Option<c_int> {
    c_int::try_from(flags).ok()
}

/// A descriptor, of which the kernel looks at the lower half.
fn low(descriptor: usize) -> c_int {
    u32::try_from(descriptor & 0xffff_ffff)
        .unwrap_or_default()
        .cast_signed()
}

/// A call that has a meaning for the agent, or none.
///
/// # Safety
/// As the kernel's.
unsafe fn call(number: usize, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    match number {
        filters::SECCOMP => filters::set_up(a, b, c, [d, e, f]),
        sys::MADVISE => advice::advise(a, b, c),
        // SAFETY: the caller's word.
        sys::PRCTL => unsafe { hooks::set_process(a, [b, c, d, e]) },
        sys::UNSHARE => alone::unshare_all(a),
        sys::SETNS => alone::join(sys::descriptor(a), b),
        // SAFETY: the caller's word.
        sys::PROCESS_MADVISE => unsafe { advice::advise_process(a, b, c, d, e) },
        // SAFETY: the caller's word.
        sys::IOCTL => unsafe { needed::control(a, b, c) },
        // SAFETY: the caller's word.
        sys::FUTEX => unsafe { needed::futex(arguments) },
        // SAFETY: the caller's word.
        sys::SHMAT => unsafe { shared_segments::attach(a, b, c) },
        // With flags that are no `int`.
        sys::MMAP | sys::MREMAP => hooks::giving_away(|| {
            // SAFETY: the caller's word.
            unsafe { sys::call(number, arguments) }
        }),
        _ => {
            if number == sys::PTRACE {
                needed::before_tracing(a, b);
            }
            // SAFETY: the program's own call.
            let made = unsafe { behind::call(number, arguments) };
            let path = match number {
                OPEN => Some(a),
                sys::OPENAT | OPENAT2 => Some(b),
                _ => None,
            };
            if let (Some(path), Ok(fd)) = (path, made) {
                memory_files::opened(core::ptr::with_exposed_provenance(path), sys::descriptor(fd));
            }
            made
        }
    }
}

/// Whether a call with these first arguments makes a process with memory of its own.
fn is_fork(number: usize, first: usize, second: usize) -> bool {
    const FORK: usize = 57;
    const CLONE3: usize = 435;
    const CLONE_VM: usize = 0x100;
    match number {
        FORK => true,
        sys::CLONE => first & CLONE_VM == 0,
        CLONE3 => flags_of(first, second).is_some_and(|flags| flags & CLONE_VM == 0),
        _ => false,
    }
}

/// The flags of a `clone_args` that the kernel would look at, its first word.
fn flags_of(structure: usize, size: usize) -> Option<usize> {
    const FIRST_SIZE: usize = 64;
    let whole = structure.is_multiple_of(size_of::<usize>()) && size >= FIRST_SIZE;
    // SAFETY: the kernel says that the word can be read, and it is aligned.
    (whole && sys::is_readable(structure))
        .then(|| unsafe { core::ptr::with_exposed_provenance::<usize>(structure).read() })
}

/// A call that makes a process, as the C library's `fork` is made.
///
/// # Safety
/// As the kernel's.
unsafe fn fork(number: usize, arguments: [usize; 6]) -> Answer {
    if forks::has_no_place() {
        return Err(Errno::AGAIN);
    }
    forks::before();
    // SAFETY: the program's own call.
    let made = unsafe { sys::call(number, arguments) };
    if made == Ok(0) {
        attach::forked();
    } else {
        forks::after();
    }
    made
}
