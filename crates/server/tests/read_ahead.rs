//! Swap read-ahead: pages of programs without a reservation that come back together, and are mapped together.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::ReadAhead;
use freehold_core::id::ReservationId;
use freehold_core::units::FrameCount;
use freehold_core::view::TaskCounts;
use freehold_server::Settings;
use support::{Client, Server, client};

const PAGES: u64 = 3_000;

fn server(read_ahead: u32) -> Server {
    Server::with(&Settings {
        read_ahead: ReadAhead::of(read_ahead).unwrap(),
        ..Settings::new(FrameCount::new(1_024))
    })
}

/// A server of one program, whose reservation reads on.
fn server_of_one() -> Server {
    Server::with(&Settings {
        reads_on: true,
        ..Settings::new(FrameCount::new(1_024))
    })
}

/// What a program faults on whose one thread reads three times as much as there is memory for, in one go, and how many
/// faults it sent.
fn read_all(server: &Server, reservation: Option<ReservationId>) -> (TaskCounts, u64) {
    read_by(server, reservation, Client::wrong_alone)
}

fn read_by(
    server: &Server,
    reservation: Option<ReservationId>,
    read: impl Fn(&Client, u64, u64, u64, u64) -> u64,
) -> (TaskCounts, u64) {
    let program = Client::program(server);
    let task = program.task(reservation);
    let memory = program.anonymous(PAGES);
    program.fill(memory, 0, PAGES, 3);
    let faults = || server.shared.engine().view().unwrap().clients[0].faults;
    let (before, sent) = (program.counts(task), faults());
    assert_eq!(read(&program, memory, 0, PAGES, 3), 0);
    server.check();
    let after = program.counts(task);
    let counts = TaskCounts {
        swap_ins: after.swap_ins - before.swap_ins,
        read_ahead: after.read_ahead - before.read_ahead,
        ..after
    };
    (counts, faults() - sent)
}

#[test]
fn a_program_of_the_pool_reads_ahead_and_sends_fewer_faults() {
    let (alone, faults_alone) = read_all(&server(1), None);
    let (together, faults) = read_all(&server(8), None);
    assert_eq!(alone.read_ahead, 0);
    assert!(together.read_ahead > PAGES / 4, "{together:?}");
    assert!(together.swap_ins < alone.swap_ins, "{together:?} {alone:?}");
    assert!(3 * faults < 2 * faults_alone, "{faults} and {faults_alone}");
}

#[test]
fn a_reservation_reads_nothing_ahead() {
    let server = server(8);
    let (counts, _) = read_all(&server, Some(server.reserve(600)));
    assert_eq!(counts.read_ahead, 0);
}

#[test]
fn a_reservation_of_the_only_program_reads_on_and_sends_fewer_faults() {
    let (alone, together) = (server(1), server_of_one());
    let (without, faults_without) = read_all(&alone, Some(alone.reserve(600)));
    let (with, faults) = read_all(&together, Some(together.reserve(600)));
    assert_eq!(without.read_ahead, 0);
    assert!(with.read_ahead > PAGES / 2, "{with:?}");
    assert!(8 * with.swap_ins < without.swap_ins, "{with:?} {without:?}");
    assert!(8 * faults < faults_without, "{faults} and {faults_without}");
}

/// Three threads read every third page each. What comes along with one thread's page leaves before a thread that is a
/// reservation behind comes to it: how many faults that is the scheduler decides.
#[test]
fn threads_that_share_out_the_pages_send_fewer_faults_where_their_reservation_reads_on() {
    let (alone, together) = (server(1), server_of_one());
    let (_, faults_without) = read_by(&alone, Some(alone.reserve(600)), Client::wrong);
    let (with, faults) = read_by(&together, Some(together.reserve(600)), Client::wrong);
    assert!(with.read_ahead > 0 && faults < faults_without, "{with:?}");
}

#[test]
fn content_is_right_whatever_becomes_of_it() {
    let server = server(16);
    content_is_right(&server, None);
}

#[test]
fn content_is_right_where_a_reservation_reads_on() {
    let server = server_of_one();
    content_is_right(&server, Some(server.reserve(600)));
}

/// What is written, dropped, moved and inherited is right wherever it is.
fn content_is_right(server: &Server, reservation: Option<ReservationId>) {
    let program = Client::program(server);
    program.task(reservation);
    let memory = program.anonymous(PAGES);
    for round in 1..3 {
        program.fill(memory, 0, PAGES, round);
        assert_eq!(program.wrong(memory, 0, PAGES, round), 0);
        assert_eq!(program.ask(&[client::DROP, memory, 100, 300]), 0);
        assert_eq!(program.wrong(memory, 400, PAGES - 400, round), 0);
        assert_eq!(program.wrong(memory, 100, 300, round), 300);
        assert_eq!(program.ask(&[client::MOVE, memory]), 0);
        assert_eq!(program.wrong(memory, 400, PAGES - 400, round), 0);
        // Every third page written, its neighbours not.
        for page in (400..PAGES).step_by(3) {
            program.fill(memory, page, 1, round + 10);
        }
        for page in 400..PAGES {
            let seed = if (page - 400) % 3 == 0 { round + 10 } else { round };
            assert_eq!(program.wrong(memory, page, 1, seed), 0, "round {round}, page {page}");
        }
        server.check();
    }
}
