//! A pool behind a mutex and a condition variable, as programs have it, and the same with `freehold_tmem::Pool`: four
//! ordinary threads share two buffers. Then a second process takes part in the pool, and is killed with a buffer.
//!
//! `cargo run --release -p freehold-tmem --example bounded_pool`
#![allow(clippy::unwrap_used, reason = "an example")]

use freehold_linux::pi_word::Scope;
use freehold_tmem::{Pool, PoolSettings};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 20_000;
const SECOND: &str = "FREEHOLD_EXAMPLE_POOL";

/// What it replaces: a wait without a limit, which lends no priority, and a buffer that is lost with its thread.
struct MutexPool {
    free: Mutex<Vec<Box<[u8; 4096]>>>,
    returned: Condvar,
}

impl MutexPool {
    fn take(&self) -> Box<[u8; 4096]> {
        let mut free = self.free.lock().unwrap();
        loop {
            if let Some(buffer) = free.pop() {
                return buffer;
            }
            free = self.returned.wait(free).unwrap();
        }
    }

    fn release(&self, buffer: Box<[u8; 4096]>) {
        self.free.lock().unwrap().push(buffer);
        self.returned.notify_one();
    }
}

fn main() {
    if let Ok(path) = std::env::var(SECOND) {
        die_with_a_buffer(&path);
    }
    let before = MutexPool {
        free: Mutex::new((0..2).map(|_| Box::new([0; 4096])).collect()),
        returned: Condvar::new(),
    };
    let took = run(|| before.release(before.take()));
    println!(
        "mutex and condition variable: {} ns for each buffer",
        took.as_nanos() / u128::from(4 * ROUNDS)
    );

    let pool = Pool::create(PoolSettings {
        component: 1,
        units: 2,
        unit_bytes: 4096,
        minimum: 1,
        guard_pages: 0,
        bound: Duration::from_secs(1),
        scope: Scope::Shared,
    })
    .unwrap();
    let took = run(|| pool.release(pool.take(4096).unwrap().start).unwrap());
    println!(
        "freehold pool: {} ns for each buffer",
        took.as_nanos() / u128::from(4 * ROUNDS)
    );

    let path = format!("/proc/{}/fd/{}", std::process::id(), pool.as_fd().as_raw_fd());
    let status = Command::new(std::env::current_exe().unwrap())
        .env(SECOND, path)
        .status();
    println!("a second process took a buffer, and ended: {}", status.unwrap());
    let (one, other) = (
        pool.take(1).unwrap(),
        std::thread::scope(|threads| threads.spawn(|| pool.take(1).unwrap().id).join().unwrap()),
    );
    println!("both buffers are there: {:x} and {:x}", one.id.raw(), other.raw());
}

fn die_with_a_buffer(path: &str) -> ! {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let pool = Pool::open(OwnedFd::from(file)).unwrap();
    pool.take(4096).unwrap();
    std::process::abort();
}

fn run(one: impl Fn() + Sync) -> Duration {
    let began = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..ROUNDS).for_each(|_| one()));
        }
    });
    began.elapsed()
}
