//! What the programs read: scripts, a clip, a graph in shards, and two small things that are compiled.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use freehold_linux::child::die_with_parent;
use rustix::process::Signal;

use super::workload::{PYTHON, Program};
use crate::programs::{Clip, Clips};
use freehold_command::exit_status::Failure;
use freehold_command::leftovers::Workplace;
use freehold_command::output;

/// The files of `experiments/app`, part of the command so that it works anywhere.
const FILES: [(&str, &str); 5] = [
    ("ranger.R", include_str!("../../../../../experiments/app/live/ranger.R")),
    ("faces.py", include_str!("../../../../../experiments/app/live/faces.py")),
    (
        "Walk.java",
        include_str!("../../../../../experiments/app/live/Walk.java"),
    ),
    (
        "preload.c",
        include_str!("../../../../../experiments/app/live/preload.c"),
    ),
    ("rmat.py", include_str!("../../../../../experiments/app/record/rmat.py")),
];

/// How many edges the graph has for each vertex.
const DEGREE: &str = "8";
/// What GraphChi runs with: an old collector and little heap, so that it uses all of it.
pub(super) const JAVA: [&str; 2] = ["-XX:+UseSerialGC", "-Xmx400m"];

/// A folder of this command's own, removed when dropped, and what is kept beside the clips.
#[derive(Debug)]
pub(super) struct WorkloadFiles {
    place: Workplace,
    /// The movie; not there unless it is played.
    pub(super) clip: PathBuf,
    /// Where the shards are kept.
    graph: PathBuf,
    /// What Java loads.
    pub(super) class_path: String,
}

impl WorkloadFiles {
    /// Makes what is not there yet. `scale`: the graph has two to the power of that many vertices.
    ///
    /// # Errors
    /// What cannot be made.
    pub(super) fn open(clips: &Clips, jars: &[PathBuf], programs: &[Program], scale: u32) -> Result<Self, Failure> {
        let mut files = Self {
            place: Workplace::new()?,
            clip: PathBuf::new(),
            graph: PathBuf::new(),
            class_path: String::new(),
        };
        for (name, text) in FILES {
            let file = files.file(name);
            fs::write(&file, text).map_err(|error| failed(&file, &error))?;
        }
        let own = files.place.path().to_owned();
        let jars: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        files.class_path = format!("{}:{}", own.display(), jars.join(":"));
        let library = "-O2 -shared -fPIC -o preload.so preload.c -ldl";
        perform(Command::new("cc").args(library.split(' ')).current_dir(&own))?;
        let java = ["-cp", &files.class_path, "Walk.java"];
        perform(Command::new("javac").args(java).current_dir(&own))?;
        if programs.contains(&Program::Mplayer) {
            let clip = clips.ten_minutes(Clip::First)?;
            files.clip = clip.canonicalize().map_err(|error| failed(&clip, &error))?;
        }
        files.graph = files.shards(clips.folder(), scale)?;
        Ok(files)
    }

    /// One of the files in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The library that programs are started with.
    pub(super) fn preload(&self) -> PathBuf {
        self.file("preload.so")
    }

    /// A new folder in it, for one run.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn scratch(&self) -> Result<Scratch, Failure> {
        let path = self.file("run");
        fs::create_dir(&path).map_err(|error| failed(&path, &error))?;
        Ok(Scratch { path })
    }

    /// The graph's shards: made once, in a folder that gets its name when they are whole.
    fn shards(&self, kept: &Path, scale: u32) -> Result<PathBuf, Failure> {
        let folder = kept.join(format!("graph-{scale}"));
        if folder.is_dir() {
            return folder.canonicalize().map_err(|error| failed(&folder, &error));
        }
        output::note("freehold: making the graph and its shards, once");
        let partial = kept.join(format!("partial-{}-graph-{scale}", std::process::id()));
        fs::create_dir_all(&partial).map_err(|error| failed(&partial, &error))?;
        let scale = scale.to_string();
        let script = self.file("rmat.py");
        let words = [
            script.as_os_str(),
            OsStr::new(&scale),
            DEGREE.as_ref(),
            "graph".as_ref(),
        ];
        let made = perform(Command::new(PYTHON).args(words).current_dir(&partial)).and_then(|()| {
            let words = ["-cp", &self.class_path, "edu.cmu.graphchi.apps.Pagerank"];
            let words = JAVA.into_iter().chain(words).chain(["graph", "4", "edgelist"]);
            perform(Command::new("java").args(words).current_dir(&partial))
        });
        let named = made.and_then(|()| match fs::rename(&partial, &folder) {
            // Somebody else has made it meanwhile.
            Err(_) if folder.is_dir() => fs::remove_dir_all(&partial).map_err(|error| failed(&partial, &error)),
            Err(error) => Err(failed(&folder, &error)),
            Ok(()) => Ok(()),
        });
        if let Err(failure) = named {
            let _ = fs::remove_dir_all(&partial);
            return Err(failure);
        }
        folder.canonicalize().map_err(|error| failed(&folder, &error))
    }
}

/// The folder of one run, removed when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A copy of the shards, which GraphChi writes to, in a folder of its own.
    ///
    /// # Errors
    /// They cannot be copied.
    pub(super) fn graph(&self, files: &WorkloadFiles) -> Result<PathBuf, Failure> {
        let copy = self.path.join("graph");
        copy_folder(&files.graph, &copy).map_err(|error| failed(&copy, &error))?;
        Ok(copy)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Without the list of edges, which the shards were made from.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to.join(name))?;
        } else if name != "graph" {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}

/// Runs a command to its end.
fn perform(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let refused = |why: &dyn std::fmt::Display| Failure::Run(format!("{name}: {why}"));
    die_with_parent(command, Signal::KILL);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| refused(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(refused(&said.trim()))
}
