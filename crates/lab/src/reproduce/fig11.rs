//! Figure 11: the first movie's frames while two more players start, without and with shared-page management.

use std::path::PathBuf;

use freehold_picture::{FrameHistory, frame_page};
use freehold_scenario::results::ReproduceRow;

use super::players::{self, MOVIES, STARTED, STARTS};
use super::{Claim, Laboratory, row, table4};
use super::{Experiment, Kind};
use freehold_command::exit_status::Failure;
use freehold_command::output;
use freehold_command::private_server::Served;

/// Pages that the paper's first player lost to the others.
const PAPER_FAULTS: u64 = 143;
/// Pages by which two runs of a player alone differ: what it touches depends on the moment.
const FEW: u64 = 8;
/// The time for a frame of the first movie.
const PERIOD: u64 = 1_000_000_000 / 30;
/// The last frame that counts: what a player does to end is no business of its company's.
const LAST: usize = 1150;

/// What happened to the first player.
struct Run {
    /// From frame to frame.
    times: Vec<u64>,
    /// When its start-up was over.
    before: Served,
    /// At its last frame that counts.
    after: Served,
}

impl Run {
    fn brought(&self) -> u64 {
        self.after.brought().saturating_sub(self.before.brought())
    }

    /// Pages of these that another's eviction had taken.
    fn lost(&self) -> u64 {
        self.after.lost.saturating_sub(self.before.lost)
    }

    /// For whoever waits for the table.
    fn in_words(&self) -> String {
        let less = |of: fn(&Served) -> u64| of(&self.after).saturating_sub(of(&self.before));
        format!(
            "the first player, once it plays: {} pages brought in, {} of them lost to others; {} soft faults; {} \
             frames over 1.5 periods",
            self.brought(),
            self.lost(),
            less(|served| served.soft_faults),
            self.late(),
        )
    }

    /// Frames after the start-up that took longer than one and a half periods.
    fn late(&self) -> u64 {
        let steady = self.times.iter().take(LAST).skip(STARTED);
        steady.filter(|time| **time > PERIOD + PERIOD / 2).count() as u64
    }
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-fig11",
    about: "a movie player's frames while two more start, under none, spc and spel",
    files: &[],
    kind: Kind::Programs,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let clips = players::clips(laboratory)?;
    let sizes = players::reservations(laboratory, &clips)?;
    let mut rows = Vec::new();
    for ((_, name, paper), size) in MOVIES.iter().zip(&sizes) {
        let what = format!("{name}: smallest reservation");
        rows.push(row(what, "bytes", Some(paper << 20), Some(*size), Claim::Shown));
    }
    let none = vec!["--sharing".to_owned(), "none".to_owned()];
    let mut policies = vec![("alone", 1, Vec::new()), ("none", 3, none), ("spc", 3, Vec::new())];
    let locks = table4::locks(laboratory, &clips)?;
    if locks.options.is_empty() {
        output::note("freehold: nothing is better locked: no run with locks");
    } else {
        output::note(&format!("freehold: to be locked: {}", locks.options.join(" ")));
        policies.push(("spc and spel", 3, locks.options));
    }
    let grown: Vec<u64> = sizes.iter().map(|size| size + locks.growth).collect();
    let (mut histories, mut alone) = (Vec::new(), 0);
    for (policy, players, options) in policies {
        // What is locked counts in the reservation of each that locks it: M_R' = M_R + Max - Avg.
        let sizes = if options.iter().any(|option| option == "--lock") {
            &grown
        } else {
            &sizes
        };
        let run = play(laboratory, &clips, sizes, players, &options)?;
        output::note(&format!("freehold: {policy}: {}", run.in_words()));
        // Company costs the first player pages only where shared pages are not managed. Alone it brings in what it
        // touches for the first time.
        let (paper, claim) = match policy {
            "alone" => (0, Claim::Shown),
            "none" => (PAPER_FAULTS, Claim::AtLeast(alone + FEW + 1)),
            _ => (0, Claim::AtMost(alone + FEW)),
        };
        if policy == "alone" {
            alone = run.brought();
        }
        let what = format!("{policy}: pages brought in for the first player once it plays");
        rows.push(row(what, "pages", Some(paper), Some(run.brought()), claim));
        let what = format!("{policy}: of these, pages that another's eviction had taken");
        rows.push(row(what, "pages", None, Some(run.lost()), Claim::Shown));
        let what = format!("{policy}: frames of the first player over 1.5 periods");
        rows.push(row(what, "frames", None, Some(run.late()), Claim::Shown));
        histories.push(history(policy, players, run));
    }
    draw(laboratory, &histories)?;
    Ok(rows)
}

/// Plays the first `players` movies; each is started when the first has reached its frame.
fn play(
    laboratory: &Laboratory,
    clips: &[PathBuf],
    sizes: &[u64],
    players: usize,
    options: &[String],
) -> Result<Run, Failure> {
    let stop = laboratory.session().stop();
    let server = players::server(laboratory, sizes)?;
    let start = |((kind, ..), clip, size): ((crate::programs::Clip, &str, u64), &PathBuf, &u64)| {
        players::start(laboratory, &server, (clip, kind.rate()), *size, options)
    };
    let movies = MOVIES.into_iter().zip(clips).zip(sizes).take(players);
    let mut movies = movies.map(|((movie, clip), size)| (movie, clip, size));
    let nobody = || Failure::Run("nobody plays".to_owned());
    let mut first = start(movies.next().ok_or_else(nobody)?)?;
    first.reach(STARTED, stop)?;
    let gone = || Failure::Run("the first player is not among the server's clients".to_owned());
    let before = server.served(first.pid)?.ok_or_else(gone)?;
    let mut others = Vec::new();
    for (movie, frame) in movies.zip(STARTS) {
        first.reach(frame, stop)?;
        others.push(start(movie)?);
    }
    first.reach(LAST, stop)?;
    let after = server.served(first.pid)?.ok_or_else(gone)?;
    let times = first.player.finish(stop)?;
    Ok(Run { times, before, after })
}

fn history(policy: &str, players: usize, run: Run) -> FrameHistory {
    let names = ["the second player starts", "the third player starts"];
    let marks = STARTS.iter().zip(names).take(players - 1);
    let count = |what: &str, count: u64| (what.to_owned(), count);
    FrameHistory {
        label: format!("{policy}: frames of the first movie"),
        period: PERIOD,
        marks: marks.map(|(frame, what)| (*frame as u64, what.to_owned())).collect(),
        counts: vec![
            count("brought in once it plays", run.brought()),
            count("of these lost to others", run.lost()),
            count(
                "soft faults",
                run.after.soft_faults.saturating_sub(run.before.soft_faults),
            ),
            count("over 1.5 periods", run.late()),
        ],
        times: run.times,
    }
}

/// Writes the page beside the clips.
fn draw(laboratory: &Laboratory, histories: &[FrameHistory]) -> Result<(), Failure> {
    let about = "The first of three movie players under a memory server, from frame to frame. Each has the smallest \
                 reservation that it can play in alone; the second and third start at frames 300 and 600 of the first. \
                 The players share the pages of their program and its libraries.";
    let page = frame_page("spc-fig11", about, histories);
    let path = laboratory.clips().folder().join("spc-fig11.html");
    std::fs::write(&path, page).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    output::note(&format!(
        "freehold: wrote {}: frame times for a browser",
        path.display()
    ));
    Ok(())
}
