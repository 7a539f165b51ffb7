//! Calls between components: results, stacks, inheritance, deaths and hangs of either side.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_linux::pi_word::Scope;
use freehold_linux::process::send_signal;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{PAGE_SIZE, ThreadId};
use freehold_tmem::channel::{ARGUMENTS, CallError, Callee, Caller, Channel, Request};
use freehold_tmem::{Pool, PoolSettings};
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

#[test]
fn callees_run_with_the_callers_priority_transitively_and_no_longer() {
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
            }
        });
    });
    assert!(outer.call(0, first(0)).unwrap() >= 0, "for the extent of the call only");
}

/// A caller of priority 30 whose callee is ordinary, beside a thread of priority 20 that never sleeps, on one CPU: with
/// inheritance the callee's work ends before the other thread's; without, after it.
#[test]
fn work_of_a_callee_is_not_delayed_by_a_thread_less_urgent_than_its_caller() {
    const WORK: u64 = 2_000_000;
    let cpu = sched::allowed_cpus().unwrap()[0];
    let spun = Arc::new(AtomicU64::new(0));
    let (_callee, caller) = local(1, LONG, move |request| {
        sched::pin(ThreadId::current(), cpu).unwrap();
        for step in 0..request.arguments[0] {
            std::hint::black_box(step);
        }
        0
    });
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            caller.call(0, first(1)).unwrap();
            sched::pin(ThreadId::current(), cpu).unwrap();
            if !become_fifo(30) {
                return;
            }
            let spinner = threads.spawn(|| {
                sched::pin(ThreadId::current(), cpu).unwrap();
                sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 20 }).unwrap();
                let began = Instant::now();
                // Not for ever: a callee without inheritance would never end.
                while !ended.load(Ordering::Acquire) && began.elapsed() < Duration::from_millis(400) {
                    spun.fetch_add(1, Ordering::Relaxed);
                }
                ended.load(Ordering::Acquire)
            });
            caller.call(0, first(WORK)).unwrap();
            ended.store(true, Ordering::Release);
            assert!(spinner.join().unwrap(), "the callee's work ended after the spinner's");
        });
    });
}
