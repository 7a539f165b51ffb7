//! The programs: what they need, how they are called, what the paper found with their like.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;

use super::workload_files::WorkloadFiles;
use crate::programs::is_installed;
use freehold_command::exit_status::Failure;

/// How Debian installs everything; `experiments/app/live/install.sh` does it.
const INSTALL: &str = "apt-get install -y --no-install-recommends r-cran-ranger r-cran-mlbench python3-opencv \
                       opencv-data mplayer ffmpeg default-jdk-headless maven gcc libc6-dev && mvn -q dependency:get \
                       -Dartifact=org.graphchi:graphchi-java_2.11:0.2.2";
/// Debian's Python: others do not have its packages.
pub(super) const PYTHON: &str = "/usr/bin/python3";
const CASCADE: &str = "/usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml";
/// What GraphChi needs, in the folder where Maven keeps what it has fetched.
const JARS: [&str; 8] = [
    "org/graphchi/graphchi-java_2.11/0.2.2/graphchi-java_2.11-0.2.2.jar",
    "com/yammer/metrics/metrics-core/2.2.0/metrics-core-2.2.0.jar",
    "org/apache/commons/commons-math/2.1/commons-math-2.1.jar",
    "org/apache/pig/pig/0.10.0/pig-0.10.0.jar",
    "org/apache/hadoop/hadoop-core/0.20.2/hadoop-core-0.20.2.jar",
    "commons-logging/commons-logging/1.0.4/commons-logging-1.0.4.jar",
    "org/scala-lang/scala-library/2.11.2/scala-library-2.11.2.jar",
    "org/slf4j/slf4j-api/1.7.2/slf4j-api-1.7.2.jar",
];

/// A soft-real-time program of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::reproduce) enum Program {
    /// A random forest predicts: 5 ms in 30 ms
    Ranger,
    /// Faces are looked for in pictures: 120 ms in 300 ms
    Opencv,
    /// A movie is played: 15 ms in 30 ms
    Mplayer,
}

/// What the paper has of a program.
pub(super) struct Paper {
    /// Misses under Pin_All, in per cent.
    pub(super) all: f64,
    /// GraphChi's slow-down under it, in per cent.
    pub(super) slow_down: f64,
    /// By how much APP reduces misses, in points, and the swap budget's part.
    pub(super) cut: Option<(f64, f64)>,
}

/// How jobs follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// One in each period, until the program is ended.
    Periodic,
    /// So many without pauses, for their output.
    Native(usize),
}

impl Program {
    /// As rows and files name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ranger => "ranger",
            Self::Opencv => "opencv",
            Self::Mplayer => "mplayer",
        }
    }

    /// Period and budget of the paper's Table I, in milliseconds.
    pub(super) fn timing(self) -> (u32, u32) {
        match self {
            Self::Ranger => (30, 5),
            Self::Opencv => (300, 120),
            Self::Mplayer => (30, 15),
        }
    }

    /// After so many lines of output it has begun: no start-up is in its jobs any more.
    pub(super) fn begun(self) -> usize {
        match self {
            Self::Ranger => 10,
            Self::Opencv => 3,
            Self::Mplayer => 30,
        }
    }

    pub(super) fn paper(self) -> Paper {
        let (all, slow_down, cut) = match self {
            Self::Ranger => (0.0, 82.0, Some((27.0, 6.0))),
            Self::Opencv => (5.0, 73.0, Some((15.0, 4.0))),
            Self::Mplayer => (1.0, 44.0, None),
        };
        Paper { all, slow_down, cut }
    }

    /// Whether a thread that it makes does its work in the maker's place.
    pub(super) fn has_one_thread(self) -> bool {
        self == Self::Ranger
    }

    /// Where its output goes: to standard output, or to the file `output` in the folder that it is started in.
    pub(super) fn writes_file(self) -> bool {
        self == Self::Mplayer
    }

    /// How it is called.
    pub(super) fn words(self, files: &WorkloadFiles, pace: Pace, seed: u32) -> Vec<OsString> {
        let jobs = match pace {
            Pace::Periodic => 1_000_000,
            Pace::Native(jobs) => jobs,
        };
        let period = match pace {
            Pace::Periodic => f64::from(self.timing().0) / 1000.0,
            Pace::Native(_) => 0.0,
        };
        let script = |interpreter: &[&str], file: PathBuf| -> Vec<OsString> {
            let words = [jobs.to_string(), period.to_string(), seed.to_string()];
            let interpreter = interpreter.iter().map(OsString::from);
            interpreter
                .chain([file.into_os_string()])
                .chain(words.map(OsString::from))
                .collect()
        };
        match self {
            Self::Ranger => script(&["Rscript", "--vanilla"], files.file("ranger.R")),
            Self::Opencv => script(&[PYTHON], files.file("faces.py")),
            Self::Mplayer => {
                let player = crate::programs::player(&files.clip, 30);
                let mut words = vec![player.get_program().to_owned()];
                words.extend(player.get_args().map(OsString::from));
                let checked = "-quiet -lavdopts threads=1 -vo md5sum:outfile=output";
                words.extend(checked.split(' ').map(OsString::from));
                if let Pace::Native(frames) = pace {
                    words.extend(["-benchmark", "-frames", &frames.to_string()].map(OsString::from));
                }
                words
            }
        }
    }

    /// What is not installed of what it needs.
    fn missing(self) -> Vec<String> {
        match self {
            Self::Ranger if !is_installed("Rscript") => vec!["Rscript".to_owned()],
            Self::Ranger => ["ranger", "mlbench"]
                .into_iter()
                .filter(|package| !runs("Rscript", &["--vanilla", "-e", &format!("library({package})")]))
                .map(|package| format!("R's package {package}"))
                .collect(),
            Self::Opencv => {
                let modules = ["cv2", "numpy"].into_iter();
                let lacks = modules.filter(|module| !runs(PYTHON, &["-c", &format!("import {module}")]));
                let mut missing: Vec<String> = lacks.map(|module| format!("{PYTHON}'s module {module}")).collect();
                if !Path::new(CASCADE).is_file() {
                    missing.push(CASCADE.to_owned());
                }
                missing
            }
            Self::Mplayer => absent(&["mplayer", "ffmpeg"]),
        }
    }
}

/// What GraphChi is loaded from.
///
/// # Errors
/// What of these programs, of GraphChi and of what prepares them is missing, and how to get it.
pub(super) fn require(programs: &[Program]) -> Result<Vec<PathBuf>, Failure> {
    let mut missing: Vec<String> = programs.iter().flat_map(|program| program.missing()).collect();
    missing.extend(absent(&["java", "javac", "cc"]));
    if !programs.contains(&Program::Opencv) && !runs(PYTHON, &["-c", "import numpy"]) {
        missing.push(format!("{PYTHON}'s module numpy"));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let jars = JARS.map(|jar| home.join(".m2/repository").join(jar));
    missing.extend(
        jars.iter()
            .filter(|jar| !jar.is_file())
            .map(|jar| jar.display().to_string()),
    );
    if missing.is_empty() {
        return Ok(jars.to_vec());
    }
    Err(Failure::Run(format!(
        "app-live: not installed: {}; on Debian, as root: {INSTALL}; or leave programs out with --programs",
        missing.join(", ")
    )))
}

fn absent(names: &[&str]) -> Vec<String> {
    let absent = names.iter().filter(|name| !is_installed(name));
    absent.map(|name| (*name).to_owned()).collect()
}

/// Whether a command can be run, and succeeds.
fn runs(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
