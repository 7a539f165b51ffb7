//! A process that has a region mapped in a reservation, and keeps account of what it has written.
#![allow(dead_code, reason = "not every test file uses everything")]

use super::player::{Heard, Player, region_request};
use super::server::Server;
use freehold_protocol::message::{Regime, Request, ReservationKind, Role};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Frames of a worker's reservation: fewer than its region has pages, most of the time.
pub(crate) const FRAMES: u32 = 24;

pub(crate) struct Worker {
    pub(crate) player: Player,
    pub(crate) mapping: u32,
    pages: u32,
}

/// This test binary, where every user can run it.
pub(crate) fn program_for_everybody(server: &Server) -> PathBuf {
    let program = server.socket.with_file_name("player");
    if !program.exists() {
        copy_program(&std::env::current_exe().unwrap(), &program, 0o755);
    }
    program
}

/// Copies a program by another process: a child that this one forks meanwhile would have the copy open for writing, and
/// what is open for writing cannot be started.
pub(crate) fn copy_program(from: &Path, to: &Path, mode: u32) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A request to be taken in as a process with memory.
pub(crate) fn hello(name: &str) -> Request<'_> {
    Request::Hello {
        role: Role::Library,
        agent_thread: 0,
        name,
    }
}

impl Worker {
    /// Starts one of `user`; nothing where the server has refused something.
    pub(crate) fn start(program: &Path, server: &Server, (user, name, pages): (u32, &str, u32)) -> Option<Self> {
        let player = Player::start(program, &server.socket, user);
        if player.greet(&hello(name)) != Heard::Other {
            return None;
        }
        let file = Request::OpenFile {
            regime: Regime::Conserve,
            path: "a file",
        };
        player.open_file(&file);
        let reserve = Request::Reserve {
            name,
            frames: FRAMES,
            kind: ReservationKind::Hard,
        };
        let Heard::Reserved(reservation, _) = player.ask(&reserve) else {
            return None;
        };
        let add = Request::AddTask {
            membership: reservation,
            urgency: 0,
            name,
        };
        let Heard::Made(task) = player.ask(&add) else {
            return None;
        };
        let Heard::Opened(object) = player.ask(&region_request(name, pages, false)) else {
            return None;
        };
        let Heard::Made(mapping) = player.map([task.into(), object.into(), 0, pages.into()]) else {
            return None;
        };
        Some(Self { player, mapping, pages })
    }

    /// What each page's first word is after [`fill`](Self::fill).
    pub(crate) fn word(round: u64, page: u32) -> u64 {
        round << 32 | u64::from(page) | 1 << 20
    }

    /// Nothing where it has died.
    pub(crate) fn fill(&self, round: u64) -> Option<()> {
        (0..self.pages).try_for_each(|page| self.player.write(self.mapping, page, Self::word(round, page)))
    }

    /// Panics where a page holds something else; nothing where it has died.
    pub(crate) fn check(&self, round: u64) -> Option<()> {
        (0..self.pages).try_for_each(|page| {
            let found = self.player.read(self.mapping, page)?;
            assert_eq!(found, Self::word(round, page), "page {page}");
            Some(())
        })
    }
}
