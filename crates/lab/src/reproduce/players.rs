//! Three movie players under one memory server, as in the paper's section VI.C.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use freehold_core::units::PAGE_SIZE;
use freehold_scenario::parse_size;

use super::Laboratory;
use crate::programs::{self, Clip, Player, under};
use freehold_command::exit_status::Failure;
use freehold_command::private_server::PrivateServer;
use freehold_command::size::program::{Trial, smallest as smallest_of_command};

/// The three movies in the order of their starts, each with the paper's reservation in MiB.
pub(super) const MOVIES: [(Clip, &str, u64); 3] = [
    (Clip::First, "720p H.264 30 fps", 30),
    (Clip::Second, "1080p MPEG2 30 fps", 20),
    (Clip::Third, "720p H.264 5 fps", 9),
];
/// At which frame of the first movie the others start.
pub(super) const STARTS: [usize; 2] = [300, 600];
/// The first movie's frames that are start-up: it plays alone then.
pub(super) const STARTED: usize = 280;
/// The largest reservation of a player tried: it has room for everything.
const AMPLE: u64 = 192 << 20;
/// What the pool has beside the reservations.
const ROOM: u64 = 64 << 20;

/// A player's process and what plays.
pub(super) struct Playing {
    pub(super) player: Player,
    pub(super) pid: u64,
}

impl Playing {
    /// Waits until so many frames are shown.
    ///
    /// # Errors
    /// A player that ends or stops before, or a stop.
    pub(super) fn reach(&mut self, frames: usize, stop: &AtomicBool) -> Result<(), Failure> {
        if self.player.reach(frames, stop)? {
            return Ok(());
        }
        Err(Failure::Run(format!("a player ended before its frame {frames}")))
    }
}

/// The clips, made if need be.
pub(super) fn clips(laboratory: &Laboratory) -> Result<Vec<PathBuf>, Failure> {
    programs::require(&["mplayer", "ffmpeg"], programs::INSTALL)?;
    MOVIES.iter().map(|(clip, ..)| laboratory.clips().path(*clip)).collect()
}

/// A server with room for reservations of so many bytes together.
pub(super) fn server(laboratory: &Laboratory, reservations: &[u64]) -> Result<PrivateServer, Failure> {
    let pool = reservations.iter().sum::<u64>() + ROOM;
    PrivateServer::start("--reservations", pool, laboratory.session().stop())
}

/// Room for everything, for each player.
pub(super) fn ample() -> [u64; 3] {
    [AMPLE; 3]
}

/// Starts the player of a movie under the server, and waits until the server knows it.
pub(super) fn start(
    laboratory: &Laboratory,
    server: &PrivateServer,
    clip: (&PathBuf, u32),
    reserve: u64,
    options: &[String],
) -> Result<Playing, Failure> {
    let stop = laboratory.session().stop();
    let known = server.programs()?;
    let words = server.exec(reserve, options)?;
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let command = under(&words, &programs::player(clip.0, clip.1));
    let mut command = command.ok_or_else(|| Failure::Run("no command".to_owned()))?;
    let player = Player::start(&mut command)?;
    let pid = server.next_program(&known, stop)?;
    Ok(Playing { player, pid })
}

/// The smallest reservations in bytes: those given, or found by search, each player alone.
pub(super) fn reservations(laboratory: &Laboratory, clips: &[PathBuf]) -> Result<Vec<u64>, Failure> {
    if let Some(given) = laboratory.reservations() {
        return given.iter().map(|text| bytes(text)).collect();
    }
    let found = clips.iter().zip(MOVIES).map(|(clip, (kind, name, _))| {
        let player = programs::player(clip, kind.rate());
        let program = player.get_program().to_owned();
        let command = [program]
            .into_iter()
            .chain(player.get_args().map(OsStr::to_owned))
            .collect();
        let trial = Trial {
            command,
            from: u32::try_from(AMPLE / PAGE_SIZE).unwrap_or(u32::MAX),
            step: 256,
            startup: Duration::from_secs(5),
            watch: Duration::from_secs(8),
            // As much as two runs in one size differ.
            allow: 8,
        };
        let answer = smallest_of_command(&trial, laboratory.session().stop())?;
        answer
            .bytes
            .ok_or_else(|| Failure::Run(format!("no reservation is enough for {name}")))
    });
    found.collect()
}

fn bytes(text: &str) -> Result<u64, Failure> {
    let size = parse_size(text).map_err(|message| Failure::Input(format!("--reservations: {message}")))?;
    Ok(size.get())
}
