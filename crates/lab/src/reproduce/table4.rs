//! Table IV: how much of each shared object three movie players use, and what that says for lock or conservation.

use std::path::PathBuf;
use std::time::Duration;

use freehold_core::units::PAGE_SIZE;
use freehold_report::advice::RegionAdvice;
use freehold_report::sharing::Sharing;
use freehold_report::status::ObjectStatus;
use freehold_scenario::results::ReproduceRow;

use super::players::{self, MOVIES};
use super::{Claim, Laboratory, row};
use super::{Experiment, Kind};
use crate::programs::Player;
use freehold_command::exit_status::Failure;
use freehold_command::process;
use freehold_command::sampling;

/// The paper's rows: what the object's file name begins with, Max and Avg in KiB, and whether the lock is better.
const PAPER: [(&str, u64, u64, bool); 7] = [
    ("mplayer", 13088, 900, false),
    ("libc.so", 1512, 288, false),
    ("libSDL-1.2.so", 420, 4, false),
    ("libstdc++.so", 984, 8, false),
    ("libpthread", 96, 24, false),
    ("libm.so", 520, 92, false),
    ("libdl.so", 8, 4, true),
];
/// From when on is sampled: players that start touch much that they never need again. The paper's Max is of everything.
const STARTUP: Duration = Duration::from_secs(3);
/// How long is sampled.
const SAMPLED: Duration = Duration::from_secs(12);
/// The shortest of the movies' periods.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// One object: how much of it is used, and what follows.
#[derive(Debug)]
struct Object {
    name: String,
    /// Players that touched it.
    players: u64,
    /// The paper's Max(S), the total size: pages of it that one player has mapped, all of which a lock takes.
    mapped: u64,
    /// Distinct pages touched while sampled.
    touched: u64,
    /// Avg(S), in pages.
    average: f64,
    /// Whether the server, which goes by what was touched, advises the lock.
    advised: bool,
}

impl Object {
    /// The paper's rule: Max(S) < n·Avg(S).
    fn is_better_locked(&self) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "a count of pages, and three players")]
        let (mapped, players) = (self.mapped as f64, self.players as f64);
        self.touched > 0 && mapped < players * self.average
    }

    /// Pages by which a reservation that locks it grows: Max(S) - Avg(S).
    fn growth(&self) -> u64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of counts, rounded down so that the growth is not too small"
        )]
        let average = self.average as u64;
        self.mapped.saturating_sub(average)
    }
}

/// What to lock.
#[derive(Debug)]
pub(super) struct Locks {
    /// The options of `freehold exec`.
    pub(super) options: Vec<String>,
    /// By how many bytes each reservation grows.
    pub(super) growth: u64,
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-table4",
    about: "what three movie players use of each object they share, and whether to conserve or to lock it",
    files: &[],
    kind: Kind::Programs,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let clips = players::clips(laboratory)?;
    let objects = sample(laboratory, &clips)?;
    let mut rows = Vec::new();
    for object in objects.iter().filter(|object| object.average > 1.0) {
        rows.extend(show(object));
    }
    let used = || objects.iter().filter(|object| object.touched > 0);
    let conserved = used().filter(|object| !object.is_better_locked()).count() as u64;
    rows.push(row(
        "shared objects in use",
        "objects",
        None,
        Some(used().count() as u64),
        Claim::AtLeast(1),
    ));
    let (paper, paper_used) = (6, PAPER.len() as u64);
    let what = format!("objects better conserved than locked (the paper: {paper} of {paper_used})");
    rows.push(row(what, "objects", Some(paper), Some(conserved), Claim::AtLeast(1)));
    // The program's own code: far more is touched once than in a period.
    let code = objects.iter().find(|object| file_name(&object.name) == "mplayer");
    let lock = code.map(|object| u64::from(object.is_better_locked()));
    rows.push(row(
        "MPlayer's code is better locked (0 is no)",
        "",
        Some(0),
        lock,
        Claim::Equal(0),
    ));
    Ok(rows)
}

/// Locks what the server advises to lock.
pub(super) fn locks(laboratory: &Laboratory, clips: &[PathBuf]) -> Result<Locks, Failure> {
    let objects = sample(laboratory, clips)?;
    let locked = || objects.iter().filter(|object| object.advised);
    let options = locked().flat_map(|object| ["--lock".to_owned(), object.name.clone()]);
    Ok(Locks {
        options: options.collect(),
        growth: locked().map(Object::growth).sum::<u64>() * PAGE_SIZE,
    })
}

/// Plays all three movies with room for everything, and samples.
fn sample(laboratory: &Laboratory, clips: &[PathBuf]) -> Result<Vec<Object>, Failure> {
    let stop = laboratory.session().stop();
    let server = players::server(laboratory, &players::ample())?;
    let mut playing: Vec<(Player, u64)> = Vec::new();
    for (((kind, ..), clip), reserve) in MOVIES.iter().zip(clips).zip(players::ample()) {
        let started = players::start(laboratory, &server, (clip, kind.rate()), reserve, &[])?;
        playing.push((started.player, started.pid));
    }
    process::pause(STARTUP, stop)?;
    let pids: Vec<u64> = playing.iter().map(|(_, pid)| *pid).collect();
    let document = sampling::sampled(server.observer(), &pids, PERIOD, SAMPLED, stop)?;
    for (player, _) in &mut playing {
        if player.has_ended()? {
            return Err(Failure::Run("a player ended while it was sampled".to_owned()));
        }
    }
    let objects = server.status()?.objects;
    let of = |region| object(region, &objects, &pids);
    Ok(document.regions.iter().map(of).collect())
}

fn object(region: &RegionAdvice, objects: &[ObjectStatus], pids: &[u64]) -> Object {
    let mapped = pids.iter().map(|pid| mapped(objects, &region.name, *pid));
    Object {
        name: region.name.clone(),
        players: region.n,
        mapped: mapped.max().unwrap_or(0),
        touched: region.max,
        average: region.avg,
        advised: region.choice == Some(Sharing::Spel),
    }
}

/// How many pages of an object a process has mapped.
fn mapped(objects: &[ObjectStatus], name: &str, pid: u64) -> u64 {
    let named = objects.iter().filter(|object| object.name == name);
    let mappers = named.flat_map(|object| &object.mappers);
    let mine = mappers.filter(|mapper| u64::from(mapper.pid) == pid);
    mine.map(|mapper| mapper.pages).sum()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The row of Table IV, number by number.
fn show(object: &Object) -> [ReproduceRow; 3] {
    let name = file_name(&object.name);
    let paper = PAPER.iter().find(|(begins, ..)| name.starts_with(begins));
    let choice = |lock: bool| if lock { "lock" } else { "conserve" };
    let kib = |pages: u64| pages * PAGE_SIZE / 1024;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a mean of counts, shown in KiB"
    )]
    let average = (object.average * (PAGE_SIZE / 1024) as f64).round() as u64;
    let shown = |what: String, paper: Option<u64>, ours: u64| row(what, "KiB", paper, Some(ours), Claim::Shown);
    [
        shown(
            format!("{name}: Max(S) [{}]", choice(object.is_better_locked())),
            paper.map(|(_, max, ..)| *max),
            kib(object.mapped),
        ),
        shown(
            format!("{name}: Avg(S)"),
            paper.map(|(_, _, average, _)| *average),
            average,
        ),
        shown(
            format!("{name}: touched while sampled [advised: {}]", choice(object.advised)),
            None,
            kib(object.touched),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_report::status::MapperStatus;

    #[test]
    fn max_is_what_one_player_maps_and_decides() {
        let mapper = |(pid, pages): &(u32, u64)| MapperStatus {
            pid: *pid,
            pages: *pages,
            ..MapperStatus::default()
        };
        let mapped = |name: &str, mappers: &[(u32, u64)]| ObjectStatus {
            name: name.to_owned(),
            mappers: mappers.iter().map(mapper).collect(),
            ..ObjectStatus::default()
        };
        let objects = [
            mapped("/lib/a", &[(1, 30), (2, 30), (1, 11)]),
            mapped("/lib/b", &[(1, 500)]),
        ];
        let region = |average: f64| RegionAdvice {
            name: "/lib/a".to_owned(),
            asked: Sharing::Spc,
            choice: Some(Sharing::Spel),
            reason: String::new(),
            max: 20,
            avg: average,
            n: 3,
            max_below_n_avg: true,
            frames_spc: 0,
            frames_spel: 0,
            reservations: Vec::new(),
        };
        let conserved = object(&region(12.5), &objects, &[1, 2]);
        assert_eq!((conserved.mapped, conserved.touched, conserved.growth()), (41, 20, 29));
        assert!(conserved.advised && !conserved.is_better_locked());
        assert!(object(&region(13.7), &objects, &[1, 2]).is_better_locked());
    }
}
