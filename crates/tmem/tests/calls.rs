//! Calls between components: results, stacks, inheritance, deaths and hangs of either side.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_linux::pi_word::Scope;
use freehold_linux::process::send_signal;
use freehold_linux::sched::{self, Deadline, DeadlineFlags, Policy};
use freehold_linux::{PAGE_SIZE, ThreadId, futex};
use freehold_tmem::channel::{ARGUMENTS, CallError, Callee, Caller, Channel, Request};
use freehold_tmem::{Pool, PoolSettings, job};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const CALLEE: &str = "FREEHOLD_TEST_CALLEE";
const CALLER: &str = "FREEHOLD_TEST_CALLER";

/// Functions of the callee that tests call.
const DOUBLE: u32 = 0;
const HANG: u32 = 1;
const DIE: u32 = 2;
const DEPTH: u32 = 3;

fn stacks(units: usize) -> Arc<Pool> {
    let settings = PoolSettings {
        component: 2,
        units,
        unit_bytes: 17 * PAGE_SIZE,
        minimum: 1,
        guard_pages: 1,
        bound: LONG,
        scope: Scope::Process,
    };
    Arc::new(Pool::create(settings).unwrap())
}

fn handle(request: Request) -> i64 {
    match request.function {
        DOUBLE => 2 * i64::try_from(request.arguments[0]).unwrap(),
        HANG => loop {
            std::thread::sleep(LONG);
        },
        DIE => std::process::abort(),
        DEPTH => recurse(request.arguments[0]),
        _ => -1,
    }
}

fn recurse(depth: u64) -> i64 {
    let frame = std::hint::black_box([depth; 32]);
    if depth == 0 {
        0
    } else {
        recurse(depth - 1) + i64::from(frame[31] > 0)
    }
}

fn duplicate(channel: &Channel) -> Channel {
    let fd = channel.as_fd().try_clone_to_owned().unwrap();
    Channel::open(fd, channel.contexts()).unwrap()
}

fn first(argument: u64) -> [u64; ARGUMENTS] {
    [argument, 0, 0, 0, 0, 0]
}

/// A callee in this process.
fn local(
    contexts: usize,
    bound: Duration,
    handler: impl Fn(Request) -> i64 + Send + Sync + 'static,
) -> (Callee, Caller) {
    let channel = Channel::create(contexts).unwrap();
    let callee = Callee::start("callee", duplicate(&channel), stacks(contexts), handler).unwrap();
    (callee, Caller::new(channel, bound))
}

fn path_of(channel: &Channel) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), channel.as_fd().as_raw_fd())
}

fn open(path: &str, contexts: usize) -> Channel {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    Channel::open(OwnedFd::from(file), contexts).unwrap()
}

fn program(test: &str, variable: &str, channel: &Channel) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, path_of(channel))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A callee in a process of its own, that serves already.
fn remote(channel: &Channel, bound: Duration) -> (Child, Caller) {
    let child = program("callee_process", CALLEE, channel);
    let caller = Caller::new(duplicate(channel), bound);
    while caller.call(DOUBLE, first(1)) == Err(CallError::CalleeDied) {
        std::thread::yield_now();
    }
    (child, caller)
}

/// Not a test, but what the callee's process runs.
#[test]
fn callee_process() {
    if let Ok(path) = std::env::var(CALLEE) {
        let _callee = Callee::start("callee", open(&path, 1), stacks(1), handle).unwrap();
        std::thread::sleep(LONG);
    }
}

/// Not a test, but what the process of a caller runs, to be killed in its call.
#[test]
fn caller_process() {
    if let Ok(path) = std::env::var(CALLER) {
        let _ = Caller::new(open(&path, 1), LONG).call(HANG, first(0));
    }
}

#[test]
fn calls_have_results_and_stacks_of_their_own() {
    let (callee, caller) = local(2, LONG, handle);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let caller = &caller;
            threads.spawn(move || {
                for call in 0..500 {
                    let argument = thread * 1000 + call;
                    assert_eq!(
                        caller.call(DOUBLE, first(argument)),
                        Ok(2 * i64::try_from(argument).unwrap())
                    );
                }
            });
        }
    });
    assert_eq!(callee.served(), 2000);
    assert_eq!(caller.call(DEPTH, first(100)), Ok(100));
    assert_eq!(caller.call(99, first(0)), Ok(-1));
}

#[test]
fn a_channel_without_a_callee_and_numbers_outside_its_range_are_refused() {
    let caller = Caller::new(Channel::create(1).unwrap(), LONG);
    assert_eq!(caller.call(DOUBLE, first(1)), Err(CallError::CalleeDied));
    assert!(Channel::create(0).is_err() && Channel::create(33).is_err());
}

#[test]
fn a_callee_that_dies_ends_the_call_at_once_and_another_takes_its_place() {
    let channel = Channel::create(1).unwrap();
    let (mut child, caller) = remote(&channel, LONG);
    assert_eq!(caller.call(DOUBLE, first(21)), Ok(42));
    let began = Instant::now();
    assert_eq!(caller.call(DIE, first(0)), Err(CallError::CalleeDied));
    child.wait().unwrap();
    assert_eq!(caller.call(DOUBLE, first(1)), Err(CallError::CalleeDied));
    // Not a measure of speed: the bound is a minute.
    assert!(began.elapsed() < LONG / 2);
    let (mut child, _) = remote(&channel, LONG);
    assert_eq!(caller.call(DOUBLE, first(4)), Ok(8));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_callee_that_is_stopped_ends_the_call_at_the_bound_and_serves_again_when_it_goes_on() {
    let channel = Channel::create(1).unwrap();
    let (mut child, caller) = remote(&channel, Duration::from_millis(20));
    send_signal(child.id(), 19).unwrap();
    while !std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
        .unwrap()
        .contains(") T ")
    {
        std::thread::yield_now();
    }
    assert_eq!(caller.call(DOUBLE, first(1)), Err(CallError::TimedOut));
    assert_eq!(
        caller.call(DOUBLE, first(2)),
        Err(CallError::TimedOut),
        "the context still has the first call"
    );
    send_signal(child.id(), 18).unwrap();
    let patient = Caller::new(duplicate(&channel), LONG);
    assert_eq!(
        patient.call(DOUBLE, first(3)),
        Ok(6),
        "not the result of an earlier call"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_caller_that_dies_leaves_its_context_to_the_next() {
    let channel = Channel::create(1).unwrap();
    let release = Arc::new(AtomicBool::new(false));
    let entered = Arc::new(AtomicU32::new(0));
    let (released, seen) = (Arc::clone(&release), Arc::clone(&entered));
    let handler = move |request: Request| {
        if request.function == HANG {
            seen.store(1, Ordering::Release);
            while !released.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        handle(Request {
            function: DOUBLE,
            ..request
        })
    };
    let _callee = Callee::start("callee", duplicate(&channel), stacks(1), handler).unwrap();
    let mut child = program("caller_process", CALLER, &channel);
    while entered.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let caller = Caller::new(channel, LONG);
    std::thread::scope(|threads| {
        let call = threads.spawn(|| caller.call(DOUBLE, first(5)));
        release.store(true, Ordering::Release);
        assert_eq!(call.join().unwrap(), Ok(10));
    });
}

/// The priority that the kernel runs a thread with: -1 − priority for a real-time one.
fn effective_priority(thread: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let fields = stat.rsplit(") ").next().unwrap();
    fields.split(' ').nth(15).unwrap().parse().unwrap()
}

fn become_fifo(priority: u32) -> bool {
    let became = sched::set_policy(ThreadId::current(), Policy::Fifo { priority }).is_ok();
    if !became {
        eprintln!("left out: no right to real-time priorities");
    }
    became
}

fn become_deadline() {
    let deadline = Deadline {
        runtime: Duration::from_millis(5),
        deadline: Duration::from_millis(20),
        period: Duration::from_millis(20),
        flags: DeadlineFlags::NONE,
    };
    sched::set_policy(ThreadId::current(), Policy::Deadline(deadline)).unwrap();
}

#[test]
fn callees_run_with_the_callers_priority_or_deadline_transitively_and_no_longer() {
    let (_inner_callee, inner) = local(1, LONG, |_| effective_priority(ThreadId::current().get()).into());
    let outer = move |request: Request| {
        let own = effective_priority(ThreadId::current().get());
        let inner = inner.call(0, request.arguments).unwrap();
        i64::from(own) * 1000 + inner
    };
    let (_outer_callee, outer) = local(1, LONG, outer);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let before = outer.call(0, first(0)).unwrap();
            assert!(before >= 0, "ordinary threads lend nothing");
            if become_fifo(30) {
                assert_eq!(outer.call(0, first(0)).unwrap(), -31 * 1000 - 31);
                become_deadline();
                // The kernel's number for every deadline.
                assert_eq!(outer.call(0, first(0)).unwrap(), -101 * 1000 - 101);
            }
        });
    });
    assert!(outer.call(0, first(0)).unwrap() >= 0, "for the extent of the call only");
}

/// How a caller of priority 30 reaches an ordinary callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A call: the callee inherits.
    Call,
    /// The same work handed over with a futex: nothing is inherited.
    Futex,
}

/// What the caller and its callee share where no call is made.
#[derive(Default)]
struct Plain {
    asked: AtomicU32,
    answered: AtomicU32,
    steps: AtomicU64,
}

fn work(steps: u64) {
    for step in 0..steps {
        std::hint::black_box(step);
    }
}

/// Steps of some 150 ms: more than a kernel that keeps ordinary threads from starving gives them in that time.
fn long_work() -> u64 {
    const PROBE: u64 = 2_000_000;
    let times = [(); 3].map(|()| {
        let began = Instant::now();
        work(PROBE);
        began.elapsed()
    });
    let nanos = times.iter().min().unwrap().as_nanos().max(1);
    PROBE * u64::try_from(150_000_000 / nanos).unwrap()
}

/// Whether the work of an ordinary callee for a caller of priority 30 ended before a thread of priority 20 on the same
/// CPU stopped working, which it does when told or after `limit`. Nothing without the right to priorities.
fn ends_before_the_spinner(way: Way, limit: Duration) -> Option<bool> {
    let cpu = sched::allowed_cpus().unwrap()[0];
    let (_callee, caller) = local(1, LONG, move |request| {
        sched::pin(ThreadId::current(), cpu).unwrap();
        work(request.arguments[0]);
        0
    });
    let plain = Plain::default();
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Ordinary, on that CPU.
        threads.spawn(|| {
            sched::pin(ThreadId::current(), cpu).unwrap();
            while plain.asked.load(Ordering::Acquire) == 0 {
                let _ = futex::wait(&plain.asked, 0, None);
            }
            if plain.asked.load(Ordering::Acquire) == 1 {
                work(plain.steps.load(Ordering::Acquire));
            }
            plain.answered.store(1, Ordering::Release);
            futex::wake(&plain.answered, 1);
        });
        let urgent = threads.spawn(|| {
            caller.call(0, first(1)).unwrap();
            sched::pin(ThreadId::current(), cpu).unwrap();
            if !become_fifo(30) {
                plain.asked.store(2, Ordering::Release);
                futex::wake(&plain.asked, 1);
                return None;
            }
            let steps = long_work();
            plain.steps.store(steps, Ordering::Release);
            let spinner = threads.spawn(|| {
                sched::pin(ThreadId::current(), cpu).unwrap();
                sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 20 }).unwrap();
                let began = Instant::now();
                while !ended.load(Ordering::Acquire) && began.elapsed() < limit {
                    std::hint::spin_loop();
                }
                ended.load(Ordering::Acquire)
            });
            match way {
                Way::Call => {
                    caller.call(0, first(steps)).unwrap();
                    plain.asked.store(2, Ordering::Release);
                }
                Way::Futex => plain.asked.store(1, Ordering::Release),
            }
            futex::wake(&plain.asked, 1);
            while way == Way::Futex && plain.answered.load(Ordering::Acquire) == 0 {
                let _ = futex::wait(&plain.answered, 0, None);
            }
            ended.store(true, Ordering::Release);
            Some(spinner.join().unwrap())
        });
        urgent.join().unwrap()
    })
}

/// With inheritance the callee's work ends before the other thread's, however long that is; without, it ends after it,
/// however long that is.
#[test]
fn work_of_a_callee_is_not_delayed_by_a_thread_less_urgent_than_its_caller() {
    for limit in [600, 900].map(Duration::from_millis) {
        let before = |way| ends_before_the_spinner(way, limit).unwrap_or(way == Way::Call);
        assert!(before(Way::Call), "the callee's work ended after the spinner's");
        assert!(
            !before(Way::Futex),
            "without inheritance the spinner delays the work by all of its own"
        );
    }
}

/// A callee waits for a unit: that is a wait of the job for which its caller works, and who has the unit works for
/// another.
#[test]
fn a_callees_wait_counts_for_the_job_of_its_caller() {
    let buffers = Arc::new(
        Pool::create(PoolSettings {
            component: 3,
            units: 1,
            unit_bytes: PAGE_SIZE,
            minimum: 1,
            guard_pages: 0,
            bound: LONG,
            scope: Scope::Process,
        })
        .unwrap(),
    );
    let taken = Arc::clone(&buffers);
    let (_callee, caller) = local(1, LONG, move |_| {
        let buffer = taken.take(1).unwrap();
        i64::from(taken.release(buffer.start).is_ok())
    });
    job::set(7);
    let held = buffers.take(1).unwrap();
    let own = ThreadId::current().get();
    std::thread::scope(|threads| {
        let call = threads.spawn(|| {
            job::set(3);
            caller.call(0, first(0))
        });
        while buffers.waits(3).unwrap().waits_for.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(
            (buffers.waits(3).unwrap().waits_for, buffers.job_of(own)),
            (Some(own), Some(7))
        );
        buffers.release(held.start).unwrap();
        assert_eq!(call.join().unwrap(), Ok(1));
    });
    let waits = buffers.waits(3).unwrap();
    assert_eq!((waits.count, waits.waits_for), (1, None));
    assert!(!waits.blocked.is_zero() && buffers.waits(7).unwrap().count == 0);
    assert!(buffers.waits(0).is_none() && buffers.waits(65).is_none());
    job::set(job::NONE);
}
