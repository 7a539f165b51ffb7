//! Table IV: how much of each shared object three movie players use, and what that says for lock or conservation.

use std::path::PathBuf;
use std::time::Duration;

use freehold_core::units::PAGE_SIZE;
use freehold_scenario::results::ReproduceRow;
use serde_json::Value;

use super::players::{self, MOVIES};
use super::{Claim, Laboratory, row};
use crate::advise;
use crate::output;
use crate::programs::{self, Player};
use crate::status::Failure;

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

/// What the server advises for one object.
struct Object {
    name: String,
    max: u64,
    average: f64,
    lock: bool,
}

/// Runs the experiment.
pub(super) fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let clips = players::clips(laboratory)?;
    let objects = sample(laboratory, &clips)?;
    let mut rows = Vec::new();
    for object in objects.iter().filter(|object| object.average > 1.0) {
        rows.extend(show(object));
    }
    let used = objects.iter().filter(|object| object.max > 0).count() as u64;
    let conserved = objects.iter().filter(|object| object.max > 0 && !object.lock).count() as u64;
    rows.push(row(
        "shared objects in use",
        "objects",
        None,
        Some(used),
        Claim::AtLeast(1),
    ));
    let (paper, paper_used) = (6, PAPER.len() as u64);
    let what = format!("objects better conserved than locked (the paper: {paper} of {paper_used})");
    rows.push(row(what, "objects", Some(paper), Some(conserved), Claim::AtLeast(1)));
    // The program's own code: far more is touched once than in a period.
    let code = objects.iter().find(|object| file_name(&object.name) == "mplayer");
    let lock = code.map(|object| u64::from(object.lock));
    rows.push(row(
        "MPlayer's code is better locked (0 is no)",
        "",
        Some(0),
        lock,
        Claim::Equal(0),
    ));
    Ok(rows)
}

/// The options of `freehold exec` that lock what is better locked; none where the server does not sample.
pub(super) fn locks(laboratory: &Laboratory, clips: &[PathBuf]) -> Result<Option<Vec<String>>, Failure> {
    let objects = match sample(laboratory, clips) {
        Ok(objects) => objects,
        Err(Failure::Run(text)) => {
            output::note(&format!("freehold: {text}"));
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let locked = objects.iter().filter(|object| object.lock);
    let options = locked.flat_map(|object| ["--lock".to_owned(), object.name.clone()]);
    Ok(Some(options.collect()))
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
    programs::pause(STARTUP, stop)?;
    let pids: Vec<u64> = playing.iter().map(|(_, pid)| *pid).collect();
    let document = advise::sampled(server.observer(), &pids, PERIOD, SAMPLED, stop)?;
    for (player, _) in &mut playing {
        if player.has_ended()? {
            return Err(Failure::Run("a player ended while it was sampled".to_owned()));
        }
    }
    let regions = document["regions"].as_array().cloned().unwrap_or_default();
    Ok(regions.iter().map(object).collect())
}

fn object(region: &Value) -> Object {
    Object {
        name: region["name"].as_str().unwrap_or_default().to_owned(),
        max: region["max"].as_u64().unwrap_or(0),
        average: region["avg"].as_f64().unwrap_or(0.0),
        lock: region["choice"] == "spel",
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The row of Table IV, number by number.
fn show(object: &Object) -> [ReproduceRow; 2] {
    let name = file_name(&object.name);
    let paper = PAPER.iter().find(|(begins, ..)| name.starts_with(begins));
    let choice = if object.lock { "lock" } else { "conserve" };
    let kib = |pages: u64| pages * PAGE_SIZE / 1024;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of counts, shown in KiB"
    )]
    let average = (object.average * (PAGE_SIZE / 1024) as f64).round() as u64;
    [
        row(
            format!("{name}: Max(S) [{choice}]"),
            "KiB",
            paper.map(|(_, max, ..)| *max),
            Some(kib(object.max)),
            Claim::Shown,
        ),
        row(
            format!("{name}: Avg(S)"),
            "KiB",
            paper.map(|(_, _, average, _)| *average),
            Some(average),
            Claim::Shown,
        ),
    ]
}
