//! New memory that a program touches in order: more and more of it comes along, in steps of their own, from frames that
//! its reservation has to spare.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_server::TaskKey;
use std::time::{Duration, Instant};
use support::{Client, Server, client};

/// Pages of private memory that no step goes past the end of, and where the next such begin.
const OBJECT: u64 = 1_024;
/// Less than that: no stretch is cut.
const PAGES: u64 = 900;
const STRETCHES: [u64; 3] = [0, 300, 600];
/// The pages of a stretch that are faulted on.
const FAULTS: [u64; 3] = [0, 33, 98];
/// What comes with them in their own steps.
const AT_ONCE: u64 = 32 + 64 + 64;
/// What follows the last of them.
const LATER: u64 = 64;

/// Makes the faults of a stretch; how many pages have come along after a while, or as soon as all have.
fn along(program: &Client, task: TaskKey, memory: u64, stretch: u64, patience: Duration) -> u64 {
    let before = program.counts(task).ahead;
    for page in FAULTS {
        program.fill(memory, stretch + page, 1, 5);
    }
    let end = Instant::now() + patience;
    loop {
        let along = program.counts(task).ahead - before;
        if along >= AT_ONCE + LATER || Instant::now() >= end {
            return along;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has a program map memory; its number, and the first of `PAGES` pages that no step ends in the middle of by itself.
fn uncut(program: &Client) -> (u64, u64) {
    let memory = program.anonymous(PAGES + OBJECT);
    let page = program.ask(&[client::ADDRESS, memory]) / freehold_linux::PAGE_SIZE as u64;
    (memory, page.next_multiple_of(OBJECT) - page)
}

#[test]
fn what_is_touched_in_order_is_followed_by_more_than_one_step_takes() {
    let server = Server::start(4_096);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(3_000)));
    let (memory, first) = uncut(&program);
    let patience = Duration::from_secs(20);
    let came = STRETCHES.map(|stretch| along(&program, task, memory, first + stretch, patience));
    assert_eq!(came, [AT_ONCE + LATER; 3]);
    program.fill(memory, first, PAGES, 5);
    assert_eq!(program.wrong(memory, first, PAGES, 5), 0);
    server.check();
}

#[test]
fn a_small_reservation_is_not_filled_by_what_may_follow() {
    let server = Server::start(4_096);
    for stretch in STRETCHES {
        let program = Client::program(&server);
        let task = program.task(Some(server.reserve(300)));
        let (memory, first) = uncut(&program);
        let along = along(&program, task, memory, first + stretch, Duration::from_millis(50));
        assert!(along <= AT_ONCE + 300 / 16, "{along} pages");
        server.check();
    }
}

/// Pages that come along with 100 that are touched `step` apart, where a reservation of 1,000 has `kept` in use.
fn where_short(kept: u64, step: u64) -> u64 {
    let server = Server::start(4_096);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(1_000)));
    program.fill(program.anonymous(kept), 0, kept, 3);
    let (memory, first) = uncut(&program);
    let before = program.counts(task);
    for touch in 0..100 {
        program.fill(memory, first + touch * step, 1, 5);
    }
    let after = program.counts(task);
    assert_eq!(after.evictions, before.evictions);
    server.check();
    let zero_fills = after.zero_fills - before.zero_fills;
    assert!(zero_fills + after.ahead - before.ahead >= 100, "{before:?} {after:?}");
    after.ahead - before.ahead
}

#[test]
fn where_frames_are_short_the_next_pages_of_a_stream_come_along_and_no_others() {
    // Those beyond the last two batches, a quarter of them at a time.
    assert!(where_short(800, 1) >= 80, "{}", where_short(800, 1));
    assert_eq!(where_short(800, 2), 0);
}

#[test]
fn nothing_follows_where_somebody_more_urgent_runs() {
    let server = Server::start(4_096);
    let cpus = freehold_linux::sched::allowed_cpus().unwrap();
    let one = freehold_linux::ThreadId::current();
    // Started here, both run here.
    freehold_linux::sched::pin(one, cpus[0]).unwrap();
    let (program, other) = (Client::program(&server), Client::program(&server));
    let task = program.task_with(Some(server.reserve(3_000)), 10);
    other.task_with(Some(server.reserve(64)), 11);
    let (memory, first) = uncut(&program);
    for stretch in STRETCHES {
        let along = along(&program, task, memory, first + stretch, Duration::from_millis(50));
        assert!(along <= AT_ONCE, "{along} pages");
    }
    server.check();
}

#[test]
fn nothing_follows_past_a_hole_that_ends_where_a_step_does() {
    let server = Server::start(4_096);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(3_000)));
    let (memory, first) = uncut(&program);
    // Before anything of it is known. What is past it need not be the program's: the pages by which a forked child is
    // told from others are the agent's, and must not be there.
    let hole = FAULTS.len() as u64 - 1 + AT_ONCE;
    for stretch in STRETCHES {
        assert_eq!(program.ask(&[client::UNMAP, memory, first + stretch + hole, 1]), 0);
    }
    for stretch in STRETCHES {
        let along = along(&program, task, memory, first + stretch, Duration::from_millis(100));
        assert!(along < AT_ONCE + LATER / 2, "{along} pages");
        server.check();
    }
}

#[test]
fn what_is_unmapped_while_more_follows_is_gone() {
    let server = Server::start(4_096);
    let program = Client::program(&server);
    program.task(Some(server.reserve(3_000)));
    for round in 0..20 {
        let memory = program.anonymous(PAGES);
        for page in FAULTS {
            program.fill(memory, page, 1, round);
        }
        assert_eq!(program.ask(&[client::UNMAP, memory, 60, 200]), 0);
        program.fill(memory, 0, 60, round);
        assert_eq!(program.wrong(memory, 0, 60, round), 0);
        server.check();
    }
}
