//! Clients that are killed, or stop, at any instant: nothing is lost, sharers keep their pages, nobody waits for ever.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::limits::ReservationKind;
use freehold_core::units::FrameCount;
use freehold_server::{ClientId, Engine, Settings, StoreMedium};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// Deaths: with `FREEHOLD_SOAK` 1,000, or as many as it says where that is more than one.
fn deaths(otherwise: u64) -> u64 {
    let Ok(wanted) = std::env::var("FREEHOLD_SOAK") else {
        return otherwise;
    };
    wanted.parse().ok().filter(|count| *count > 1).unwrap_or(1_000)
}

fn seed() -> u64 {
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let seed = std::env::var("FREEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(clock.subsec_nanos().into());
    eprintln!("FREEHOLD_SEED={seed}");
    seed
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// All that a dead client had is back: the pool holds what the living have reserved.
fn wait_for_frames(server: &Server, used: u32) {
    server.until("all frames are back", |engine| {
        let pool = engine.view().unwrap().pool;
        pool.memory_used.get() - pool.used.get() <= used && pool.committed.get() <= used
    });
    server.check();
}

#[test]
fn killed_clients_return_everything_and_sharers_notice_nothing() {
    let server = Server::start(512);
    let mut random = seed() | 1;
    let survivor = Client::start(&server, "client_main");
    let own = server.reserve(128);
    let task = survivor.task(Some(own));
    let (object, descriptor) = server.region("shared", 100, true);
    let mapped = survivor.map(task, object, &descriptor, 100);
    survivor.fill(mapped.number, 0, 100, 7);
    for _ in 0..deaths(50) {
        let victim = Client::start(&server, "client_main");
        let reservation = server.reserve(64);
        let task = victim.task(Some(reservation));
        let region = server.region("own", 150, false);
        let own = victim.map(task, region.0, &region.1, 150);
        let both = victim.map(task, object, &descriptor, 100);
        victim.ask(&[client::CHURN, own.number, 150, next(&mut random)]);
        victim.ask(&[client::CHURN, both.number, 100, next(&mut random)]);
        std::thread::sleep(Duration::from_micros(next(&mut random) % 8_000));
        let id = victim.id;
        victim.signal(Signal::KILL);
        server.shared.engine().release(reservation);
        server.shared.engine().close_object(region.0);
        server.until("the victim is gone", |engine| !engine.has_client(id));
        assert_eq!(survivor.wrong(mapped.number, 0, 100, 7), 0);
        wait_for_frames(&server, 128);
    }
    assert_eq!(survivor.counts(task).swap_ins, 0, "the survivor lost pages");
}

#[test]
fn killed_programs_return_everything() {
    let server = Server::start(512);
    let mut random = seed() | 1;
    for round in 0..deaths(50) {
        let program = Client::program(&server);
        let reservation = server.reserve(64);
        program.task(Some(reservation));
        let memory = program.anonymous(150);
        program.ask(&[client::CHURN, memory, 150, next(&mut random)]);
        program.ask(&[client::CHURN, memory, 150, next(&mut random)]);
        std::thread::sleep(Duration::from_micros(next(&mut random) % 10_000));
        server.check();
        let id = program.id;
        program.signal(Signal::KILL);
        server.shared.engine().release(reservation);
        server.until("the program is gone", |engine| !engine.has_client(id));
        wait_for_frames(&server, 0);
        assert_eq!(server.shared.engine().objects_in_use(), 0, "round {round}");
    }
}

/// A store whose every transfer takes a while, one at a time, or one that is a file.
fn stores() -> (Vec<StoreMedium>, PathBuf) {
    let directory = std::env::temp_dir().join(format!("freehold-deaths-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let slow = StoreMedium::Memory {
        latency: Duration::from_micros(300),
        parallel: 1,
    };
    let file = StoreMedium::File {
        directory: directory.clone(),
        parallel: 4,
    };
    (vec![slow, file], directory)
}

/// Two programs of one reservation, one of them more urgent, and a sharer: one is killed or stopped for a while in the
/// middle of transfers, of which some were lifted.
#[test]
fn killed_in_the_middle_of_transfers_that_others_wait_for() {
    let mut random = seed() | 1;
    let (stores, directory) = stores();
    let mut lifted = 0;
    for store in stores {
        let server = Server::with(&Settings {
            store,
            ..Settings::new(FrameCount::new(256))
        });
        let (object, descriptor) = server.region("shared", 60, true);
        let survivor = Client::start(&server, "client_main");
        let mapped = survivor.map(survivor.task_with(None, 3), object, &descriptor, 60);
        survivor.fill(mapped.number, 0, 60, 7);
        for _ in 0..deaths(30) / 2 {
            let reservation = server.reserve(32);
            let churning = |urgency: u8, random: &mut u64| {
                let program = Client::program(&server);
                program.task_with(Some(reservation), urgency);
                let memory = program.anonymous(80);
                for _ in 0..3 {
                    program.ask(&[client::CHURN, memory, 80, next(random)]);
                }
                program
            };
            let mut both = [churning(0, &mut random), churning(9, &mut random)];
            let victim = usize::from(next(&mut random).is_multiple_of(2));
            std::thread::sleep(Duration::from_micros(next(&mut random) % 10_000));
            if next(&mut random).is_multiple_of(3) {
                both[victim].signal(Signal::STOP);
                std::thread::sleep(Duration::from_micros(next(&mut random) % 5_000));
            }
            both[victim].signal(Signal::KILL);
            let id = both[victim].id;
            server.until("the victim is gone", |engine| !engine.has_client(id));
            let other = &mut both[1 - victim];
            let faults = faults(&server, other.id);
            server.until("the other goes on", |engine| faults_of(engine, other.id) > faults + 20);
            other.signal(Signal::KILL);
            let other = other.id;
            server.shared.engine().release(reservation);
            server.until("both are gone", |engine| !engine.has_client(other));
            assert_eq!(survivor.wrong(mapped.number, 0, 60, 7), 0);
            wait_for_frames(&server, 0);
        }
        lifted += server.shared.engine().view().unwrap().orders.lifted;
    }
    std::fs::remove_dir_all(directory).unwrap();
    assert!(lifted > 0, "nobody more urgent ever came");
}

/// What its child inherits is what was there or, where that went with the parent, an error.
#[test]
fn parents_killed_in_the_middle_of_forks_leave_children_with_nothing_wrong() {
    let server = Server::start(256);
    let mut random = seed() | 1;
    let (mut told, mut lost) = (0, 0);
    for round in 0..deaths(40) {
        let program = Client::program(&server);
        let reservation = server.reserve(32);
        program.task(Some(reservation));
        let memory = program.anonymous(150);
        program.fill(memory, 0, 150, round);
        program.tell(&[client::TELL, memory, 0, 150, round], None);
        std::thread::sleep(Duration::from_micros(next(&mut random) % 3_000));
        program.signal(Signal::KILL);
        // Of the parent, if it came so far, and of the child, if there is one.
        while let Some(found) = program.try_answer() {
            let (errors, wrong) = (found & 0xffff_ffff, found >> 32);
            assert_eq!(wrong, 0, "round {round}: {errors} errors");
            (told, lost) = (told + 1, lost + errors);
        }
        server.shared.engine().release(reservation);
        server.until("both are gone", |engine| engine.view().unwrap().clients.is_empty());
        wait_for_frames(&server, 0);
        assert_eq!(server.shared.engine().objects_in_use(), 0, "round {round}");
    }
    println!("{told} answers, {lost} pages lost with their parents");
    assert!(told > 0, "no fork came about");
}

fn faults_of(engine: &Engine, id: ClientId) -> u64 {
    let view = engine.view().unwrap();
    let found = view.clients.iter().find(|client| client.id == id);
    found.map_or(0, |client| client.faults)
}

fn faults(server: &Server, id: ClientId) -> u64 {
    faults_of(&server.shared.engine(), id)
}

#[test]
fn nobody_waits_for_a_stopped_program_past_the_bound() {
    let mut settings = Settings::new(FrameCount::new(256));
    settings.unresponsive.bound = Duration::from_millis(300);
    let server = Server::with(&settings);
    // A firm reservation borrows all there is, and stops.
    let borrower = Client::program(&server);
    let firm = server.try_reserve(16, ReservationKind::Firm).unwrap();
    borrower.task(Some(firm));
    let memory = borrower.anonymous(400);
    borrower.fill(memory, 0, 230, 1);
    borrower.ask(&[client::DEAF]);
    borrower.signal(Signal::STOP);
    // Somebody has a right to the frames.
    let begun = Instant::now();
    let reservation = loop {
        match server.try_reserve(200, ReservationKind::Hard) {
            Ok(reservation) => break reservation,
            Err(freehold_server::EngineError::WouldWait) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for ever");
    };
    server.until("the borrower is stopped", |engine| !engine.has_client(borrower.id));
    assert_eq!(server.shared.engine().view().unwrap().orders.stopped, 1);
    server.shared.engine().release(firm);
    server.shared.engine().release(reservation);
    wait_for_frames(&server, 0);
}

#[test]
fn a_stopped_program_disturbs_nobody_else() {
    let server = Server::start(512);
    let sleeper = Client::program(&server);
    sleeper.task(Some(server.reserve(64)));
    let memory = sleeper.anonymous(200);
    sleeper.ask(&[client::CHURN, memory, 200, 3]);
    let worker = Client::program(&server);
    let task = worker.task(Some(server.reserve(64)));
    let own = worker.anonymous(150);
    for round in 1..=deaths(20) {
        sleeper.signal(Signal::STOP);
        worker.fill(own, 0, 150, round);
        assert_eq!(worker.wrong(own, 0, 150, round), 0);
        sleeper.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(worker.counts(task).swap_ins > 150);
    assert!(server.shared.engine().has_client(sleeper.id));
    server.check();
}
