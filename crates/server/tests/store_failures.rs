//! A store that fails under real processes: the one that faults gets its error, and nobody else notices.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// The client answers no more: it was ended by SIGBUS.
fn assert_ended_by_error(server: &Server, mut victim: Client) {
    assert_eq!(victim.try_answer(), None, "it was given an answer all the same");
    assert_eq!(victim.wait().signal(), Some(Signal::BUS.as_raw()));
    let id = victim.id;
    server.until("the victim is gone", |engine| !engine.has_client(id));
    server.check();
}

#[test]
fn a_page_that_cannot_be_read_back_ends_whoever_touches_it_and_nobody_else() {
    let server = Server::start(512);
    let (victim, other) = (Client::program(&server), Client::program(&server));
    for program in [&victim, &other] {
        program.task(Some(server.reserve(64)));
        assert_eq!(program.anonymous(150), 0);
        program.fill(0, 0, 150, 3);
    }
    server.shared.engine().store().faults().fail_read(1);
    victim.tell(&[client::CHECK, 0, 0, 150, 3], None);
    assert_ended_by_error(&server, victim);
    assert_eq!(server.shared.engine().view().unwrap().store.failed_reads, 1);
    assert_eq!(other.wrong(0, 0, 150, 3), 0);
    other.fill(0, 0, 150, 4);
    assert_eq!(other.wrong(0, 0, 150, 4), 0);
}

#[test]
fn pages_that_cannot_be_written_are_kept() {
    let server = Server::start(512);
    let (victim, sharer) = (
        Client::start(&server, "client_main"),
        Client::start(&server, "client_main"),
    );
    let (object, descriptor) = server.region("shared", 100, true);
    let task = victim.task(Some(server.reserve(64)));
    let its = victim.map(task, object, &descriptor, 100);
    victim.fill(its.number, 0, 60, 3);
    server.shared.engine().store().faults().fail_all_writes(true);
    victim.tell(&[client::FILL, its.number, 60, 40, 3], None);
    let task = sharer.task(Some(server.reserve(128)));
    let mapped = sharer.map(task, object, &descriptor, 100);
    assert_ended_by_error(&server, victim);
    assert_eq!(sharer.wrong(mapped.number, 0, 60, 3), 0);
    server.shared.engine().store().faults().fail_all_writes(false);
    sharer.fill(mapped.number, 0, 100, 4);
    assert_eq!(sharer.wrong(mapped.number, 0, 100, 4), 0);
    server.check();
}
