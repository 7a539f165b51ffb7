//! Histories of clients, made up from a seed: several processes of several users ask for everything in any order, and
//! die at any point. After each step what the server says of itself is compared with a naive model of who owns what;
//! every page holds what was written to it last; the laws hold.
//!
//! `FREEHOLD_SEED` repeats a history, `FREEHOLD_SOAK` makes it a hundred times as long. Only root can be other users:
//! where the tests do not run as root all processes are of one user, without a quota, and that is said.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "histories/last_moves.rs"]
mod last_moves;
#[path = "histories/model.rs"]
mod model;
#[path = "histories/moves.rs"]
mod moves;
#[path = "players/player.rs"]
mod player;
#[path = "common/server.rs"]
mod server;

use model::Model;
use server::{Peer, Server};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first of the users.
const FIRST: u32 = 30_001;
/// The user who may be real-time.
const ALLOWED: u32 = 30_003;
/// Frames of the pool: more than all quotas together, so that only quotas refuse.
const POOL: u32 = 4_096;
/// Processes at a time.
const CROWD: usize = 6;

/// A history that goes on.
pub(crate) struct History {
    server: Server,
    root: Peer,
    program: PathBuf,
    state: u64,
    model: Model,
    /// Of everything that there ever was.
    tickets: Vec<(String, (u64, u64))>,
}

impl History {
    fn new(seed: u64) -> Self {
        let server = Server::start(&["--pool", "16MiB", "--quota", "1MiB", "--allow", "30003=2MiB"]);
        // A copy that other users can run, wherever the workspace is.
        let program = server.socket.with_file_name("player");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = server.observe();
        let mut model = Model::default();
        for user in FIRST..=ALLOWED {
            model.quotas.insert(user, if user == ALLOWED { 512 } else { 256 });
        }
        Self {
            server,
            root,
            program,
            state: seed,
            model,
            tickets: Vec::new(),
        }
    }

    /// The next of the numbers that the seed stands for.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.state;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    fn step(&mut self) {
        let members = self.model.members.len();
        if members == 0 || (members < CROWD && self.below(8) == 0) {
            moves::come(self);
        } else {
            let at = self.pick(members);
            moves::step(self, at);
        }
    }

    /// The server says what the model says, at the latest when it has noticed who is gone.
    fn compare(&mut self, step: u32) {
        let begun = Instant::now();
        let expected = self.model.expected();
        loop {
            let status = self.root.must_be_served();
            let found = model::found(&status);
            let reservations = self.model.held.values().filter(|held| !held.pool);
            let promised: u32 = reservations.map(|held| held.frames).sum();
            if found == expected && status["memory"]["committed"] == promised {
                return;
            }
            if begun.elapsed() > Duration::from_secs(20) {
                let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
                let extra: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
                panic!(
                    "step {step}: the server lacks {missing:#?} and has {extra:#?}; {} frames promised, {promised} due",
                    status["memory"]["committed"]
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn player_main() {
    player::main();
}

fn run(seed: u64, steps: u32) {
    println!("FREEHOLD_SEED={seed}");
    let mut history = History::new(seed);
    for step in 0..steps {
        history.step();
        history.compare(step);
        if step % 16 == 0 {
            history.root.laws_must_hold();
        }
    }
    history.root.laws_must_hold();
    while !history.model.members.is_empty() {
        history.model.die(0);
    }
    history.compare(steps);
    history.root.laws_must_hold();
    assert_eq!(history.root.must_be_served()["memory"]["pool"], POOL);
}

#[test]
fn every_history_ends_with_everybody_owning_what_the_model_says() {
    if !rustix::process::geteuid().is_root() {
        return println!("NOT CHECKED: only root can be several users");
    }
    let named = std::env::var("FREEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let (histories, steps) = if std::env::var_os("FREEHOLD_SOAK").is_some() {
        (60, 2_000)
    } else {
        (3, 250)
    };
    match named {
        Some(seed) => run(seed, steps),
        None => (0..histories).for_each(|history| run(u64::from(std::process::id()) * 1_000 + history, steps)),
    }
}
