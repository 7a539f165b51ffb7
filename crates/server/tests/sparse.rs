//! Little of much: a program that touches a page here and there takes little more of the tables than it touches.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::{FrameCount, PageCount};
use freehold_server::Settings;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use support::{Client, Server, client};

/// Pages of all objects.
const TABLE: u32 = 16 * 1_024;

fn small_table() -> Server {
    Server::with(&Settings {
        pages: PageCount::new(TABLE),
        ..Settings::new(FrameCount::new(512))
    })
}

fn write(program: &Client, memory: u64, places: impl Iterator<Item = u64>, value: u64) {
    for page in places {
        assert_eq!(program.ask(&[client::WRITE, memory, page, value + page]), value + page);
    }
}

fn check(program: &Client, memory: u64, places: impl Iterator<Item = u64>, value: u64) {
    for page in places {
        assert_eq!(program.ask(&[client::READ, memory, page]), value + page, "page {page}");
    }
}

/// A page in each MiB, again and again elsewhere: what is given up by `munmap`, or by `madvise`, is used again.
#[test]
fn scattered_pages_fit_and_what_is_given_up_is_used_again() {
    const PLACES: u64 = 1_000;
    const APART: u64 = 256;
    let server = small_table();
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    for round in 0..6 {
        let memory = program.anonymous(PLACES * APART);
        let places = |half: u64| (0..PLACES).map(move |at| at * APART + (97 * round + 128 * half) % APART);
        write(&program, memory, places(0), round);
        check(&program, memory, places(0), round);
        // Every second of them, and those behind the middle.
        for at in (0..PLACES / 2).step_by(2) {
            assert_eq!(program.ask(&[client::DROP, memory, at * APART, APART]), 0);
        }
        assert_eq!(
            program.ask(&[client::DROP, memory, PLACES / 2 * APART, PLACES / 2 * APART]),
            0
        );
        write(&program, memory, places(1), round);
        check(&program, memory, places(1), round);
        for at in (1..PLACES / 2).step_by(2) {
            let page = places(0).nth(usize::try_from(at).unwrap()).unwrap();
            assert_eq!(
                program.ask(&[client::READ, memory, page]),
                round + page,
                "it was not dropped"
            );
        }
        assert_eq!(program.ask(&[client::UNMAP, memory, 0, PLACES * APART]), 0);
    }
    assert!(server.shared.engine().take_notices().is_empty());
    server.check();
}

/// However pages are scattered, a third of the table's size of them fit.
#[test]
fn a_third_of_the_table_fits_one_page_at_a_time() {
    const APART: u64 = 40;
    let server = small_table();
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let places = || (0..u64::from(TABLE) / 3).map(|at| at * APART);
    let memory = program.anonymous(u64::from(TABLE) / 3 * APART);
    write(&program, memory, places(), 5);
    check(&program, memory, places(), 5);
    server.check();
}

/// Dense memory is in objects that are as large as they get, and a table of objects lasts as long as that of pages.
#[test]
fn dense_memory_is_in_few_objects() {
    let server = Server::start(14_000);
    let program = Client::program(&server);
    program.task(Some(server.reserve(13_000)));
    let memory = program.anonymous(12 * 1_024);
    program.fill(memory, 0, 12 * 1_024, 1);
    let objects = server.shared.engine().objects_in_use();
    assert!(objects <= 20, "{objects} objects for 48 MiB");
    assert_eq!(program.wrong(memory, 0, 12 * 1_024, 1), 0);
    server.check();
}

/// Memory that comes and goes as a whole leaves nothing behind, however often.
#[test]
fn what_is_unmapped_as_a_whole_is_forgotten() {
    const PAGES: u64 = 40 * 1_024;
    let server = Server::start(60_000);
    let program = Client::program(&server);
    program.task(Some(server.reserve(56_000)));
    for round in 0..4 {
        let memory = program.anonymous(PAGES);
        program.fill(memory, 0, PAGES, round);
        assert_eq!(program.wrong(memory, 0, PAGES, round), 0);
        assert_eq!(program.ask(&[client::UNMAP, memory, 0, PAGES]), 0);
        server.check();
    }
}

/// A thread that finds no room gets an error at once, and a reader of `status` learns what would have to give.
#[test]
fn a_full_table_is_told_of() {
    let server = small_table();
    let mut program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(u64::from(TABLE) * 16);
    for page in 0.. {
        program.tell(&[client::WRITE, memory, page * 13, 1], None);
        if program.try_answer().is_none() {
            assert!(page > u64::from(TABLE) / 3, "{page} pages");
            break;
        }
    }
    assert_eq!(program.wait().signal(), Some(Signal::BUS.as_raw()));
    let shortages = server.shared.engine().view().unwrap().shortages;
    assert!(
        shortages.iter().any(|text| text.contains("tables have no room")),
        "{shortages:?}"
    );
    server.check();
}
