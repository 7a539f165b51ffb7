//! Programs with private memory: it is moved out by the program's own agent, to the transfer memory and the store.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::FrameCount;
use freehold_server::{Settings, StoreMedium};
use std::time::Duration;
use support::{Client, Server, client};

/// How many faults a program sends that looks at a page which is out, and then writes it.
fn faults_of_a_look_and_a_write(latency: Duration) -> u64 {
    let server = Server::with(&Settings {
        store: StoreMedium::Memory { latency, parallel: 1 },
        ..Settings::new(FrameCount::new(256))
    });
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(300);
    program.fill(memory, 0, 300, 1);
    let faults = || server.shared.engine().view().unwrap().clients[0].faults;
    let before = faults();
    assert_eq!(program.wrong_alone(memory, 0, 1, 1), 0);
    program.fill(memory, 0, 1, 2);
    let sent = faults() - before;
    assert_eq!(program.wrong(memory, 1, 299, 1), 0);
    assert_eq!(program.wrong(memory, 0, 1, 2), 0, "what was written is kept");
    server.check();
    sent
}

#[test]
fn what_comes_back_from_a_store_in_memory_is_written_without_a_second_fault() {
    assert_eq!(faults_of_a_look_and_a_write(Duration::ZERO), 1);
    assert_eq!(faults_of_a_look_and_a_write(Duration::from_micros(50)), 2);
}

#[test]
fn private_memory_is_filled_evicted_and_read_back() {
    let server = Server::start(256);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(64)));
    let memory = program.anonymous(300);
    for round in 1..4 {
        program.fill(memory, 0, 300, round);
        assert_eq!(program.wrong(memory, 0, 300, round), 0, "round {round}");
        server.check();
    }
    let counts = program.counts(task);
    assert!(
        counts.swap_ins > 300 && counts.zero_fills + counts.ahead >= 300,
        "{counts:?}"
    );
    let view = server.shared.engine().view().unwrap();
    assert!(view.reservations[0].lists.peak.get() <= 64, "{view:?}");
}

#[test]
fn dropped_and_unmapped_memory_is_forgotten() {
    let server = Server::start(256);
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(200);
    program.fill(memory, 0, 200, 1);
    assert_eq!(program.ask(&[client::DROP, memory, 50, 100]), 0);
    assert_eq!(program.wrong(memory, 50, 100, 1), 100);
    for page in 50..150 {
        assert_eq!(program.read_at(memory, page), 0, "page {page}");
    }
    assert_eq!(program.wrong(memory, 0, 50, 1) + program.wrong(memory, 150, 50, 1), 0);
    server.check();
    assert_eq!(program.ask(&[client::UNMAP, memory, 0, 200]), 0);
    server.until("its frames are free", |engine| {
        engine.view().unwrap().reservations[0].lists.free.get() == 64
    });
    server.check();
}

#[test]
fn memory_that_moves_keeps_its_content() {
    let server = Server::start(256);
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(3000);
    program.fill(memory, 0, 3000, 5);
    for _ in 0..3 {
        assert_eq!(program.ask(&[client::MOVE, memory]), 0);
        assert_eq!(program.wrong(memory, 0, 3000, 5), 0);
        server.check();
    }
}

#[test]
fn a_forked_child_has_its_parents_memory_as_it_was() {
    let server = Server::start(512);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(64)));
    let memory = program.anonymous(300);
    for round in 1..8 {
        program.fill(memory, 0, 300, round);
        assert_eq!(program.ask(&[client::FORK, memory, 0, 300, round]), 0, "round {round}");
        server.check();
    }
    assert!(program.counts(task).swap_ins > 300);
    server.until("the children are gone", |engine| {
        engine.view().unwrap().clients.len() == 1
    });
    server.check();
}

#[test]
fn a_child_of_a_parent_that_takes_many_steps_to_look_through_has_its_memory_too() {
    const PAGES: u64 = 3000;
    let server = Server::start(512);
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(PAGES);
    program.fill(memory, 0, PAGES, 1);
    assert_eq!(program.ask(&[client::FORK, memory, 0, PAGES, 1]), 0);
    assert_eq!(program.ask(&[client::UNMAP, memory, 0, PAGES]), 0);
    server.until("its frames are free", |engine| {
        engine.view().unwrap().reservations[0].lists.free.get() == 64
    });
    server.check();
}

#[test]
fn what_was_dropped_just_before_a_fork_the_child_has_from_the_store() {
    const PAGES: u64 = 300;
    // What comes back from a store that takes its time is as the store has it until it is written.
    let server = Server::with(&Settings {
        store: StoreMedium::Memory {
            latency: Duration::from_micros(20),
            parallel: 8,
        },
        ..Settings::new(FrameCount::new(512))
    });
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(PAGES);
    program.fill(memory, 0, PAGES, 1);
    let mut between = 0;
    for round in 0..20 {
        assert_eq!(program.wrong(memory, 0, PAGES, 1), 0);
        // Pages that could not be demoted leave from where the program has them: what the store has is dropped.
        assert_eq!(program.ask(&[client::BUSY, 1]), 0);
        assert_eq!(program.wrong_alone(memory, 10 * round, 6, 1), 0);
        assert_eq!(program.ask(&[client::BUSY, 0]), 0);
        let forked = program.ask(&[client::FORK_BETWEEN, memory, 0, PAGES, 1]);
        assert_eq!(forked >> 1, 0, "round {round}");
        between += forked & 1;
        server.check();
    }
    assert!(between > 0, "no fork was between a drop and its answer");
}

#[test]
fn what_is_being_read_for_a_child_that_has_ended_its_parent_has_too() {
    const PAGES: u64 = 100;
    let mut settings = Settings::new(FrameCount::new(512));
    settings.store = StoreMedium::Memory {
        latency: Duration::from_millis(30),
        parallel: 1,
    };
    let server = Server::with(&settings);
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(PAGES);
    program.fill(memory, 0, PAGES, 1);
    // Its end is seen while some of what it is given is still on its way.
    for _ in 0..2 {
        assert_eq!(program.ask(&[client::FORK_IN_VAIN, memory, 0, PAGES, 1]), 0);
    }
    server.check();
}

#[test]
fn a_program_uses_no_more_frames_than_it_reserved() {
    let server = Server::start(512);
    let program = Client::program(&server);
    program.task(Some(server.reserve(100)));
    let memory = program.anonymous(400);
    for round in 1..4 {
        program.fill(memory, 0, 400, round);
        let engine = server.shared.engine();
        let view = engine.view().unwrap();
        let used = view.clients[0].private.resident + view.clients[0].private.slots;
        // A page on its way has a place at both ends.
        let moving = u64::from(view.orders.outstanding);
        assert!(used <= 100 + moving, "{used} frames, {moving} orders");
    }
}

#[test]
fn what_a_parent_lost_is_an_error_for_its_child_and_never_zeros() {
    let server = Server::start(512);
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(150);
    program.fill(memory, 0, 60, 3);
    // Its agent takes pages and says nothing of them; then it forks, and is killed.
    program.tell(&[client::LOSE, memory, 0, 60, 3], None);
    assert_eq!(program.answer(), 0, "it has forked");
    program.signal(rustix::process::Signal::KILL);
    let found = program.answer();
    let (errors, wrong) = (found & 0xffff_ffff, found >> 32);
    assert_eq!(wrong, 0, "{errors} errors");
    assert!((1..60).contains(&errors), "{errors} errors");
    let notices = server.shared.engine().take_notices();
    assert!(
        notices.iter().any(|notice| notice.text.contains("is lost")),
        "{notices:?}"
    );
    server.until("the child has ended", |engine| {
        engine.view().unwrap().clients.is_empty()
    });
    server.check();
}

#[test]
fn an_agent_that_faults_while_its_program_forks_is_served() {
    let server = Server::start(512);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(64)));
    let memory = program.anonymous(200);
    let own = program.anonymous(1);
    assert_eq!(program.ask(&[client::CLUMSY, own, 0]), 0);
    for round in 1..30 {
        program.fill(memory, 0, 200, round);
        assert_eq!(program.ask(&[client::FORK, memory, 0, 200, round]), 0, "round {round}");
    }
    assert!(program.counts(task).swap_ins > 300);
    server.check();
}

#[test]
fn new_memory_that_is_looked_at_first_is_not_faulted_on_twice() {
    let server = Server::start(256);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(200)));
    let memory = program.anonymous(100);
    for page in 0..100 {
        assert_eq!(program.read_at(memory, page), 0);
    }
    program.fill(memory, 0, 100, 1);
    assert_eq!(program.wrong(memory, 0, 100, 1), 0);
    let counts = program.counts(task);
    assert_eq!((counts.write_faults, counts.swap_ins), (0, 0), "{counts:?}");
    server.check();
}

#[test]
fn new_memory_that_is_only_looked_at_is_never_written_to_the_store() {
    let server = Server::start(256);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(64)));
    let memory = program.anonymous(300);
    for page in (0..300).chain(0..300) {
        assert_eq!(program.read_at(memory, page), 0);
    }
    assert!(program.counts(task).evictions > 300, "{:?}", program.counts(task));
    assert_eq!(server.shared.engine().store().stats().writes, 0);
    server.check();
}
