//! Barriers.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::futex;
use freehold_shm::pi_word::PiWord;

use super::conditions::wait_for_change;
use super::given;
use crate::runtime::call::Call;
use crate::runtime::pi_word;
use crate::runtime::waiting::{self, Place};

/// `rtl_barrier_t` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct Barrier {
    lock: PiWord,
    count: AtomicU32,
    arrived: AtomicU32,
    /// Changes with each round that is complete; a futex.
    sequence: AtomicU32,
    waiters: AtomicU32,
}

/// What one of those that a barrier lets go is answered.
const SERIAL_THREAD: i32 = -1;

/// `pthread_barrier_init`: EINVAL for nobody to wait for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_barrier_init(barrier: *mut Barrier, _attributes: *const libc::c_void, count: u32) -> i32 {
    if barrier.is_null() || count == 0 {
        return libc::EINVAL;
    }
    let new = Barrier {
        lock: PiWord::default(),
        count: AtomicU32::new(count),
        arrived: AtomicU32::new(0),
        sequence: AtomicU32::new(0),
        waiters: AtomicU32::new(0),
    };
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { barrier.write(new) };
    0
}

/// `pthread_barrier_destroy`: EBUSY while somebody waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_barrier_destroy(barrier: *const Barrier) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(barrier) } {
        Some(barrier) if barrier.waiters.load(Ordering::Acquire) == 0 => 0,
        Some(_) => libc::EBUSY,
        None => libc::EINVAL,
    }
}

/// The round that the caller waits for; None where the caller has completed it.
fn arrive(barrier: &Barrier) -> Result<Option<u32>, i32> {
    // A thread that is deleted meanwhile has arrived, or it has not.
    let _call = Call::enter();
    pi_word::take(&barrier.lock, None)?;
    let round = barrier.sequence.load(Ordering::Relaxed);
    let arrived = barrier.arrived.load(Ordering::Relaxed) + 1;
    let complete = arrived >= barrier.count.load(Ordering::Relaxed);
    barrier
        .arrived
        .store(if complete { 0 } else { arrived }, Ordering::Relaxed);
    if complete {
        barrier.sequence.store(round.wrapping_add(1), Ordering::Release);
    }
    pi_word::release(&barrier.lock)?;
    if complete {
        futex::wake(&barrier.sequence, u32::MAX);
    }
    Ok((!complete).then_some(round))
}

/// `pthread_barrier_wait`: -1 for the one that came last, 0 for the others. A thread that ends while it waits stays
/// counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_barrier_wait(barrier: *const Barrier) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(barrier) = (unsafe { given(barrier) }) else {
        return libc::EINVAL;
    };
    match arrive(barrier) {
        Ok(None) => SERIAL_THREAD,
        Ok(Some(seen)) => {
            let place = Place {
                waiters: &barrier.waiters,
                word: &barrier.sequence,
                seen,
                mutex: None,
            };
            waiting::during(&place, || wait_for_change(&place, None));
            0
        }
        Err(errno) => errno,
    }
}
