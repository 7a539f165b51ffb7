//! Table I: private and shared pages of real programs, one and two instances.

use std::process::Command;

use freehold_linux::resident::Counts;
use freehold_scenario::results::ReproduceRow;

use super::{Claim, Laboratory, row};
use super::{Experiment, Kind};
use crate::programs::{self, Clip, Running};
use freehold_command::exit_status::Failure;
use freehold_command::output;

/// The paper's row: private code and data, shared code and data.
struct Paper {
    name: &'static str,
    pages: [u64; 4],
}

const RHYTHMBOX: Paper = paper("MP3 player", [3999, 9723, 4635, 323]);
const MINITUBE: Paper = paper("streaming client", [5128, 6536, 5140, 5235]);
const SOUND: [Paper; 3] = [
    paper("sound recorder", [862, 2987, 2571, 327]),
    paper("sound recorder x 2 (#1)", [2, 2988, 3431, 327]),
    paper("sound recorder x 2 (#2)", [2, 2976, 3426, 339]),
];
const MPLAYER: [Paper; 3] = [
    paper("MPlayer", [1160, 2706, 771, 6]),
    paper("MPlayer x 2 (#1)", [0, 2800, 1931, 6]),
    paper("MPlayer x 2 (#2)", [0, 2804, 1931, 6]),
];

const fn paper(name: &'static str, pages: [u64; 4]) -> Paper {
    Paper { name, pages }
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-table1",
    about: "private and shared pages of real programs, one and two instances",
    files: &[],
    kind: Kind::Programs,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    programs::require(&["mplayer", "ffmpeg"], programs::INSTALL)?;
    let clips = laboratory.clips();
    let (movie, tone) = (clips.path(Clip::First)?, clips.path(Clip::Tone)?);
    let tone = format!("location={}", tone.display());
    let mut rows = Vec::new();
    let gstreamer = programs::is_installed("gst-launch-1.0");
    if gstreamer {
        let played = [
            "filesrc",
            &tone,
            "!",
            "mpegaudioparse",
            "!",
            "mpg123audiodec",
            "!",
            "fakesink",
            "sync=true",
        ];
        single(
            laboratory,
            &RHYTHMBOX,
            "gst-launch-1.0 for Rhythmbox",
            &mut pipeline(&played),
            &mut rows,
        )?;
    } else {
        output::note(&format!(
            "freehold: left out, for want of gst-launch-1.0: the MP3 player and the sound recorder; on Debian: {}",
            programs::INSTALL
        ));
    }
    let mut stream = Command::new("ffmpeg");
    stream
        .args(["-v", "error", "-nostdin", "-re", "-i"])
        .arg(&movie)
        .args(["-f", "null", "-"]);
    single(laboratory, &MINITUBE, "ffmpeg -re for Minitube", &mut stream, &mut rows)?;
    if gstreamer {
        let recorded = [
            "audiotestsrc",
            "is-live=true",
            "!",
            "audioconvert",
            "!",
            "vorbisenc",
            "!",
            "oggmux",
            "!",
        ];
        let recorded = [&recorded[..], &["filesink", "location=/dev/null"]].concat();
        let command = || pipeline(&recorded);
        twice(laboratory, &SOUND, "gst-launch-1.0 for GNOME's", command, &mut rows)?;
    }
    let command = || programs::player(&movie, Clip::First.rate());
    twice(laboratory, &MPLAYER, "720p H.264", command, &mut rows)?;
    Ok(rows)
}

/// A pipeline of GStreamer, which the paper's MP3 player and sound recorder are made of too.
fn pipeline(elements: &[&str]) -> Command {
    let mut command = Command::new("gst-launch-1.0");
    command.arg("-q").args(elements);
    command
}

/// One instance alone.
fn single(
    laboratory: &Laboratory,
    paper: &Paper,
    ours: &str,
    command: &mut Command,
    rows: &mut Vec<ReproduceRow>,
) -> Result<Counts, Failure> {
    let counts = Running::start(command)?.settled(laboratory.session().stop())?.total();
    show(paper, ours, &counts, rows);
    Ok(counts)
}

/// One instance alone, then two together.
fn twice(
    laboratory: &Laboratory,
    [alone, first, second]: &[Paper; 3],
    ours: &str,
    command: impl Fn() -> Command,
    rows: &mut Vec<ReproduceRow>,
) -> Result<(), Failure> {
    let stop = laboratory.session().stop();
    let before = single(laboratory, alone, ours, &mut command(), rows)?;
    let mut instances = (Running::start(&mut command())?, Running::start(&mut command())?);
    instances.0.settled(stop)?;
    let counts = [instances.1.settled(stop)?.total(), instances.0.pages()?.total()];
    for (paper, counts) in [(first, &counts[1]), (second, &counts[0])] {
        show(paper, ours, counts, rows);
    }
    let after = &counts[1];
    // The paper's trend, by any amount: how much is shared is the business of the machine and of its programs.
    let more = after.shared.total().checked_sub(before.shared.total());
    let paper = sum(first.pages, 2) - sum(alone.pages, 2);
    let what = format!("{}: shared pages more beside a second instance", alone.name);
    rows.push(row(what, "pages", Some(paper), more, Claim::AtLeast(1)));
    let less = before.private.code.checked_sub(after.private.code);
    let paper = alone.pages[0] - first.pages[0];
    let what = format!("{}: private code pages fewer beside a second instance", alone.name);
    rows.push(row(what, "pages", Some(paper), less, Claim::AtLeast(1)));
    Ok(())
}

/// Code and data, from a position on.
fn sum(pages: [u64; 4], from: usize) -> u64 {
    pages.iter().skip(from).take(2).sum()
}

/// The row of Table I, number by number.
fn show(paper: &Paper, ours: &str, counts: &Counts, rows: &mut Vec<ReproduceRow>) {
    let Counts { private, shared, .. } = counts;
    let name = format!("{} [{ours}]", paper.name);
    let [code, data, shared_code, shared_data] = paper.pages;
    for (what, paper, ours) in [
        ("private code", code, private.code),
        ("private data", data, private.data),
        ("shared code", shared_code, shared.code),
        ("shared data", shared_data, shared.data),
    ] {
        rows.push(row(
            format!("{name}: {what}"),
            "pages",
            Some(paper),
            Some(ours),
            Claim::Shown,
        ));
    }
    let per_mille = |shared: u64, total: u64| (shared * 1000).checked_div(total);
    let theirs = per_mille(shared_code + shared_data, paper.pages.iter().sum());
    let ours = per_mille(shared.total(), counts.resident());
    rows.push(row(
        format!("{name}: shared/total"),
        "per mille",
        theirs,
        ours,
        Claim::Shown,
    ));
}
