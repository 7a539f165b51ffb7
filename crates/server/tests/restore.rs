//! Restore before release: a pool's pages are brought back between two jobs, by nobody's thread.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::id::PinnedPoolId;
use freehold_core::pinning::{JobReport, PinningSettings};
use freehold_core::units::{Duration as Span, FrameCount, Instant, PageCount, PageIndex};
use freehold_core::view::PageState;
use freehold_linux::clock;
use freehold_server::{Engine, Membership, Settings, StoreMedium, TaskKey};
use std::time::Duration;
use support::{Client, Server, client};

/// Pages of the program.
const PAGES: u64 = 64;
/// So many that restoring begins at once.
const MANY: u32 = 1_000_000;
const PERIOD: u64 = 60_000_000_000;

/// A program in a pinned page pool beside one that takes whatever there is.
struct Pair {
    server: Server,
    pool: PinnedPoolId,
    program: Client,
    task: TaskKey,
    memory: u64,
    hog: Client,
    hogged: u64,
}

impl Pair {
    /// Of the program's pages the pool pins none: one that is pinned may leave when the job ends. Each has been wanted
    /// by a job and has left since.
    fn start(settings: &Settings, restore: u32) -> Self {
        let server = Server::with(settings);
        let budget = Span::new(PERIOD / 2);
        let pinning = PinningSettings {
            initial_capacity: PageCount::ZERO,
            highest_capacity: PageCount::ZERO,
            restore: PageCount::new(restore),
            ..PinningSettings::paper(budget, Span::new(PERIOD))
        };
        let pool = server.shared.engine().open_pool("pool", pinning).unwrap();
        let (program, hog) = (Client::program(&server), Client::program(&server));
        let member = Some(Membership::Pinned(pool));
        let task = server
            .shared
            .engine()
            .add_member(program.id, member, 10, "task")
            .unwrap();
        hog.task_with(None, 5);
        let (memory, hogged) = (program.anonymous(PAGES), hog.anonymous(600));
        let pair = Self {
            server,
            pool,
            program,
            task,
            memory,
            hog,
            hogged,
        };
        pair.program.fill(memory, 0, PAGES, 7);
        pair.hog();
        assert_eq!(pair.program.wrong(memory, 0, PAGES, 7), 0);
        pair.hog();
        pair
    }

    fn hog(&self) {
        self.hog.fill(self.hogged, 0, 600, 1);
    }

    /// A job has ended, and the next is released after this long.
    fn end_job(&self, until: Duration) {
        let release = Instant::new(clock::now().saturating_add(until).as_nanos());
        let job = JobReport::default();
        self.server.shared.engine().judge_job(self.pool, &job, release).unwrap();
    }

    /// Faults that the program has sent.
    fn faults(&self) -> u64 {
        let view = self.server.shared.engine().view().unwrap();
        let mine = view.clients.iter().find(|client| client.id == self.program.id);
        mine.unwrap().faults
    }

    fn restored(&self) -> u64 {
        let view = self.server.shared.engine().view().unwrap();
        view.pinned_pools[0].restored
    }

    /// How many of the program's pages are in the store.
    fn away(&self) -> u64 {
        let address = self.program.ask(&[client::ADDRESS, self.memory]);
        self.away_from(&self.server.shared.engine(), address)
    }

    fn away_from(&self, engine: &Engine, address: u64) -> u64 {
        let stored = |page: &u64| {
            let found = engine.locate(self.program.id, address + page * 4096);
            let view = found.and_then(|(object, page)| engine.core().page(object, PageIndex::new(page)));
            view.is_some_and(|view| view.state == PageState::Stored)
        };
        (0..PAGES).filter(stored).count() as u64
    }

    /// One thread reads the pages in order.
    fn read_in_order(&self) {
        for page in 0..PAGES {
            let word = self.program.ask(&[client::TOUCH, self.memory, page]);
            assert_eq!(word, client::pattern(7, page), "page {page}");
        }
    }

    /// Waits for all of them to be back.
    fn await_all(&self) {
        let address = self.program.ask(&[client::ADDRESS, self.memory]);
        self.server
            .until("they are back", |engine| self.away_from(engine, address) == 0);
    }
}

fn settings() -> Settings {
    Settings::new(FrameCount::new(256))
}

#[test]
fn pages_that_left_are_back_before_the_next_job_which_reads_nothing() {
    let pair = Pair::start(&settings(), MANY);
    let away = pair.away();
    assert!(away > PAGES / 2, "{away}");
    assert_eq!(pair.restored(), 0, "no job has ended");
    pair.end_job(Duration::from_secs(50));
    pair.await_all();
    assert_eq!(pair.restored(), away);
    let before = pair.program.counts(pair.task);
    assert_eq!(pair.program.wrong(pair.memory, 0, PAGES, 7), 0);
    let after = pair.program.counts(pair.task);
    assert_eq!(after.swap_ins, before.swap_ins, "nothing is read back for the job");
    pair.server.check();
}

/// The pages that a job went on to the last time are mapped with the one that it faults on, and are known to be wanted.
#[test]
fn a_job_that_goes_the_same_way_again_sends_fewer_faults_and_all_comes_back_all_the_same() {
    let pair = Pair::start(&settings(), MANY);
    pair.read_in_order();
    pair.hog();
    for _ in 0..3 {
        let away = pair.away();
        assert!(away > PAGES / 2, "{away}");
        pair.end_job(Duration::from_secs(50));
        pair.await_all();
        let (counts, sent) = (pair.program.counts(pair.task), pair.faults());
        pair.read_in_order();
        let after = pair.program.counts(pair.task);
        assert_eq!(after.swap_ins, counts.swap_ins);
        assert!(8 * (pair.faults() - sent) < PAGES, "{} faults", pair.faults() - sent);
        pair.server.check();
        pair.hog();
    }
}

#[test]
fn no_more_than_the_quota_and_nothing_past_the_release() {
    let pair = Pair::start(&settings(), 3);
    pair.end_job(Duration::ZERO);
    pair.server
        .shared
        .engine()
        .judge_job(pair.pool, &JobReport::default(), Instant::ZERO)
        .unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(pair.restored(), 0);
    for round in 1..=2 {
        pair.end_job(Duration::from_millis(300));
        std::thread::sleep(Duration::from_millis(320));
        // Where the machine stood still until the release, there were fewer.
        assert!(pair.restored() <= 3 * round, "{}", pair.restored());
    }
    assert!(pair.restored() > 0);
    pair.server.check();
}

#[test]
fn a_job_may_touch_what_is_on_its_way() {
    let slow = Settings {
        store: StoreMedium::Memory {
            latency: Duration::from_millis(2),
            parallel: 64,
        },
        ..settings()
    };
    let pair = Pair::start(&slow, MANY);
    for _ in 0..3 {
        pair.end_job(Duration::from_secs(50));
        assert_eq!(pair.program.wrong(pair.memory, 0, PAGES, 7), 0);
        pair.hog();
    }
    pair.server.check();
}

#[test]
fn the_pool_closes_while_a_page_is_on_its_way() {
    let slow = Settings {
        store: StoreMedium::Memory {
            latency: Duration::from_millis(20),
            parallel: 64,
        },
        ..settings()
    };
    let pair = Pair::start(&slow, MANY);
    pair.end_job(Duration::from_secs(50));
    std::thread::sleep(Duration::from_millis(10));
    pair.server.shared.engine().release_pool(pair.pool);
    let (server, id) = (pair.server, pair.program.id);
    drop((pair.program, pair.hog));
    server.until("the client is gone", |engine| !engine.has_client(id));
    server.until("the pool is closed", |engine| {
        engine.view().unwrap().pinned_pools.is_empty()
    });
    server.until("every frame is free", |engine| {
        let pool = engine.core().pool_view();
        pool.free == FrameCount::new(256)
    });
    server.check();
}
