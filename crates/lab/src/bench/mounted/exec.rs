//! A program that a mount has run before, started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::scene::{Scene, Server};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Starts of one round.
const STARTS: u32 = 100;
const CACHE: &str = "32MiB";
/// Programs, the largest first, and what has them do nothing.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("/usr/bin/python3", &["-I", "-S", "-c", "pass"]),
    ("/usr/bin/perl", &["-e", "1"]),
    ("/bin/sh", &["-c", ":"]),
];

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "mount-exec",
    about: "a program on a mount started, and waited for, where it ran before",
    floor: "the same program started where it is, warm",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let scene = Scene::new(1)?;
    let (name, words) = choose(&scene.source())?;
    let starts = effort.scaled(STARTS);
    let native = scene.source().join(name);
    let mut found = Found::new()?;
    found.alternate(
        effort,
        |samples| start(&native, words, samples, starts),
        |samples| {
            let mounted = scene.mount(Server::Ours(CACHE))?;
            start(&mounted.path(name), words, samples, starts)
        },
    )?;
    found.notes.push(format!("{name} {}", words.join(" ")));
    Ok(found)
}

/// Copies the first program that runs to a folder.
fn choose(folder: &Path) -> Result<(&'static str, &'static [&'static str]), Failure> {
    for (path, words) in PROGRAMS {
        let Some(name) = Path::new(path).file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let copy: PathBuf = folder.join(name);
        let runs = fs::copy(path, &copy).is_ok() && start_once(&copy, words).is_ok();
        if runs {
            return Ok((name, words));
        }
    }
    Err(refused("there is no program to start"))
}

fn start(program: &Path, words: &[&str], samples: &mut Samples, starts: u32) -> Result<(), Failure> {
    for _ in 0..3 {
        start_once(program, words)?;
    }
    for _ in 0..starts {
        samples.time(|| start_once(program, words))?;
    }
    Ok(())
}

fn start_once(program: &Path, words: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().map_err(refused)?;
    if status.success() {
        Ok(())
    } else {
        Err(refused(format!("{}: {status}", program.display())))
    }
}
