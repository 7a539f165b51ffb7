//! One pool for several processes, which are killed at random: no unit is lost, no two have one, nobody waits for ever.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::pi_word::Scope;
use freehold_linux::process::send_signal;
use freehold_linux::{PAGE_SIZE, ThreadId};
use freehold_tmem::{Pool, PoolSettings};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const UNITS: usize = 3;
const PROCESSES: u64 = 4;
const WORKER: &str = "FREEHOLD_TEST_POOL";

/// What the processes tell each other beside the pool.
#[repr(C)]
struct Board {
    done: AtomicU64,
    stop: AtomicU32,
    doubled: AtomicU32,
    /// The user of each unit.
    users: [AtomicU32; UNITS],
}

fn board(mapping: &SharedMapping) -> &Board {
    // SAFETY: the first page of a mapping that is borrowed, of zeros in the beginning; all of it is atomic.
    unsafe { &*mapping.base().cast::<Board>() }
}

fn open(path: &str) -> OwnedFd {
    let file = std::fs::File::options().read(true).write(true).open(path);
    file.unwrap().into()
}

fn start(pool: &Pool, memory: &Memfd) -> Child {
    let (process, pool, memory) = (std::process::id(), pool.as_fd().as_raw_fd(), memory.as_fd().as_raw_fd());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--nocapture"])
        .env(WORKER, format!("/proc/{process}/fd/{pool} /proc/{process}/fd/{memory}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test, but what the processes of the next one run.
#[test]
fn worker() {
    let Ok(paths) = std::env::var(WORKER) else {
        return;
    };
    let (pool, memory) = paths.split_once(' ').unwrap();
    let pool = &Pool::open(open(pool)).unwrap();
    let mapping = SharedMapping::of_whole(&Memfd::adopt(open(memory), 1).unwrap(), Access::ReadWrite).unwrap();
    let board = board(&mapping);
    std::thread::scope(|threads| {
        threads.spawn(|| work(pool, board));
        work(pool, board);
    });
}

fn work(pool: &Pool, board: &Board) {
    let own = ThreadId::current().get();
    while board.stop.load(Ordering::Relaxed) == 0 {
        let buffer = pool.take(PAGE_SIZE).unwrap();
        let unit = usize::try_from(buffer.id.raw() >> 24 & 0xff).unwrap();
        let before = board.users[unit].swap(own, Ordering::SeqCst);
        // A process that was killed has left its mark; who lives must not have the unit.
        if before != 0 && is_alive(before) {
            board.doubled.fetch_add(1, Ordering::Relaxed);
        }
        // Long enough for others to wait, and to be killed with it.
        for _ in 0..200 {
            std::hint::spin_loop();
        }
        if board.users[unit].swap(0, Ordering::SeqCst) != own {
            board.doubled.fetch_add(1, Ordering::Relaxed);
        }
        pool.release(buffer.start).unwrap();
        board.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a thread runs, and is not on its way out: the kernel passes its units on while it ends.
fn is_alive(thread: u32) -> bool {
    const ENDS: u64 = 4;
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return false;
    };
    let flags: u64 = rest.split(' ').nth(6).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    !rest.starts_with(['Z', 'X']) && flags & ENDS == 0
}

#[test]
fn processes_that_are_killed_lose_no_unit_and_leave_nobody_waiting() {
    let soak = std::env::var_os("FREEHOLD_SOAK").is_some();
    let (allocations, kills) = if soak { (1_000_000, 10_000) } else { (10_000, 40) };
    let pool = Pool::create(PoolSettings {
        component: 1,
        units: UNITS,
        unit_bytes: PAGE_SIZE,
        minimum: UNITS,
        guard_pages: 0,
        bound: Duration::from_secs(60),
        scope: Scope::Shared,
    })
    .unwrap();
    let memory = Memfd::create(c"board", 1).unwrap();
    let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
    let board = board(&mapping);
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| start(&pool, &memory)).collect();
    for kill in 0..kills {
        let wanted = board.done.load(Ordering::Relaxed) + allocations / kills;
        while board.done.load(Ordering::Relaxed) < wanted {
            std::thread::yield_now();
        }
        let victim = &mut children[usize::try_from(kill % PROCESSES).unwrap()];
        send_signal(victim.id(), 9).unwrap();
        victim.wait().unwrap();
        *victim = start(&pool, &memory);
    }
    board.stop.store(1, Ordering::Relaxed);
    for child in &mut children {
        assert!(child.wait().unwrap().success(), "a worker was left waiting or failed");
    }
    assert_eq!(board.doubled.load(Ordering::Relaxed), 0, "two users of a unit");
    let buffers: Vec<_> = (0..UNITS).map(|_| pool.take(1).unwrap()).collect();
    for buffer in buffers {
        pool.release(buffer.start).unwrap();
    }
    let usage = pool.usage();
    assert_eq!((usage.allocated, usage.held, usage.timed_out), (3, 0, 0));
    assert!(usage.contended > 0 && board.done.load(Ordering::Relaxed) >= allocations);
}
