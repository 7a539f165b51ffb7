//! Mutexes, which inherit priorities and are not recursive, and spinlocks, which are the same lock.

use freehold_linux::clock::MonotonicTime;
use freehold_shm::pi_word::PiWord;

use super::given;
use crate::runtime::pi_word;

/// `rtl_pthread_mutex_t` of the header: zeros are a free mutex.
#[repr(C)]
#[derive(Debug)]
pub struct Mutex {
    pub(crate) word: PiWord,
    kind: i32,
    protocol: i32,
    ceiling: i32,
}

/// `rtl_pthread_mutexattr_t` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MutexAttributes {
    kind: i32,
    protocol: i32,
    ceiling: i32,
    shared: i32,
}

/// The number of a result.
pub(crate) fn number(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

/// `pthread_mutexattr_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutexattr_init(attributes: *mut MutexAttributes) -> i32 {
    if attributes.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { attributes.write(MutexAttributes::default()) };
    0
}

/// `pthread_mutexattr_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_pthread_mutexattr_destroy(_attributes: *mut MutexAttributes) -> i32 {
    0
}

macro_rules! attribute {
    ($set:ident, $get:ident, $field:ident, $allowed:expr) => {
        /// Sets the field.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(attributes: *mut MutexAttributes, value: i32) -> i32 {
            // SAFETY: null or valid, as the C API wants it.
            match unsafe { attributes.as_mut() } {
                Some(attributes) if $allowed.contains(&value) => {
                    attributes.$field = value;
                    0
                }
                _ => libc::EINVAL,
            }
        }

        /// Gets the field.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(attributes: *const MutexAttributes, value: *mut i32) -> i32 {
            // SAFETY: null or valid, as the C API wants it.
            match unsafe { (attributes.as_ref(), value.as_mut()) } {
                (Some(attributes), Some(value)) => {
                    *value = attributes.$field;
                    0
                }
                _ => libc::EINVAL,
            }
        }
    };
}

attribute!(
    rtl_pthread_mutexattr_settype,
    rtl_pthread_mutexattr_gettype,
    kind,
    (0..=1)
);
attribute!(
    rtl_pthread_mutexattr_setprotocol,
    rtl_pthread_mutexattr_getprotocol,
    protocol,
    (0..=2)
);
attribute!(
    rtl_pthread_mutexattr_setprioceiling,
    rtl_pthread_mutexattr_getprioceiling,
    ceiling,
    (0..=1_000_000)
);
attribute!(
    rtl_pthread_mutexattr_setpshared,
    rtl_pthread_mutexattr_getpshared,
    shared,
    (0..=1)
);

/// `pthread_mutex_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_init(mutex: *mut Mutex, attributes: *const MutexAttributes) -> i32 {
    if mutex.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: null or valid, as the C API wants it.
    let MutexAttributes {
        kind,
        protocol,
        ceiling,
        ..
    } = unsafe { given(attributes) }.copied().unwrap_or_default();
    let new = Mutex {
        word: PiWord::default(),
        kind,
        protocol,
        ceiling,
    };
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { mutex.write(new) };
    0
}

/// `pthread_mutex_destroy`: EBUSY while a thread that has not ended holds it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_destroy(mutex: *const Mutex) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(mutex) } {
        Some(mutex) if pi_word::is_held(&mutex.word) => libc::EBUSY,
        Some(_) => 0,
        None => libc::EINVAL,
    }
}

/// `pthread_mutex_lock`: EDEADLK when the calling thread holds it. Goes on waiting when a signal's handler has run. A
/// thread that ends gives back what it holds: the next has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_lock(mutex: *const Mutex) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    unsafe { given(mutex) }.map_or(libc::EINVAL, |mutex| number(pi_word::take(&mutex.word, None)))
}

/// `pthread_mutex_trylock`: EBUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_trylock(mutex: *const Mutex) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(mutex) }.map(|mutex| pi_word::try_take(&mutex.word)) {
        None => libc::EINVAL,
        Some(Ok(())) => 0,
        Some(Err(_)) => libc::EBUSY,
    }
}

/// `pthread_mutex_timedlock`: ETIMEDOUT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_timedlock(mutex: *const Mutex, until: *const libc::timespec) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { (given(mutex), given(until)) } {
        (Some(mutex), Some(until)) => {
            let until = u64::try_from(super::time::nanoseconds(until)).unwrap_or(0);
            number(pi_word::take(&mutex.word, Some(MonotonicTime::from_nanos(until))))
        }
        _ => libc::EINVAL,
    }
}

/// `pthread_mutex_unlock`: EPERM when another thread holds it, or nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_mutex_unlock(mutex: *const Mutex) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    unsafe { given(mutex) }.map_or(libc::EINVAL, |mutex| number(pi_word::release(&mutex.word)))
}

/// `pthread_spin_init`, `spin_lock_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_spin_init(lock: *const PiWord, _shared: i32) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(lock) } {
        Some(word) => {
            word.reset();
            0
        }
        None => libc::EINVAL,
    }
}

/// `pthread_spin_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_spin_destroy(lock: *const PiWord) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(lock) } {
        Some(word) if !pi_word::is_held(word) => 0,
        _ => libc::EBUSY,
    }
}

/// `pthread_spin_lock`, `rtl_spin_lock`: waits asleep, its holder inherits the priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_spin_take(lock: *const PiWord) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    unsafe { given(lock) }.map_or(libc::EINVAL, |word| number(pi_word::take(word, None)))
}

/// `pthread_spin_trylock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_spin_try(lock: *const PiWord) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(lock) }.map(pi_word::try_take) {
        Some(Ok(())) => 0,
        _ => libc::EBUSY,
    }
}

/// `pthread_spin_unlock`, `rtl_spin_unlock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_spin_release(lock: *const PiWord) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    unsafe { given(lock) }.map_or(libc::EINVAL, |word| number(pi_word::release(word)))
}
