//! Runs the command and looks at what it prints.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// A scenario run live, its pages brought by a memory server.
pub(crate) const SERVED: [&str; 5] = ["run", "--engine", "live", "--placement", "server"];

/// The command, to be run in the workspace's root.
pub(crate) fn freehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).current_dir(root());
    command
}

/// The command as the last argument of another one, if there is any.
pub(crate) fn freehold_under(under: &[&str], arguments: &[&str]) -> Command {
    let Some((first, rest)) = under.split_first() else {
        return freehold(arguments);
    };
    let mut command = Command::new(first);
    command.args(rest).arg(env!("CARGO_BIN_EXE_freehold"));
    command.args(arguments).current_dir(root());
    command
}

/// What a command runs under that may have so many descriptors, and no right to more.
pub(crate) fn with_descriptors(most: u32) -> [String; 4] {
    let limited = format!("ulimit -n {most} && exec setpriv --bounding-set=-sys_resource \"$@\"");
    ["sh".to_owned(), "-c".to_owned(), limited, "sh".to_owned()]
}

/// A program natively, or in a reservation under a server of its own.
pub(crate) fn in_reserve(reserve: Option<&str>, program: &Path) -> Command {
    match reserve {
        None => Command::new(program),
        Some(size) => {
            let mut command = freehold(&["exec", "--reserve", size, "--"]);
            command.arg(program);
            command
        }
    }
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    freehold(arguments).output().expect("the command starts")
}

/// Runs a scenario by [`SERVED`].
pub(crate) fn served(arguments: &[&str]) -> Output {
    run(&[&SERVED[..], arguments].concat())
}

/// Processes that are children of this one's first thread.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The exit status.
pub(crate) fn status(output: &Output) -> i32 {
    output.status.code().expect("ended by itself")
}

/// Standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Standard error without what `exec` says of a reservation that was too small.
pub(crate) fn own_stderr(output: &Output) -> String {
    let text = stderr(output);
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.contains("pages came back from the store"))
        .collect()
}

/// Standard output as exactly one JSON document.
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("not one document: {error}\n{}\n{}", stdout(output), stderr(output));
    })
}

/// A count of a document.
pub(crate) fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// A program of `tests/programs`, compiled once for each test process; `None`, and that said, where there is no C
/// compiler.
pub(crate) fn compiled(name: &str) -> Option<PathBuf> {
    compiled_at(&format!("crates/cli/tests/programs/{name}.c"), name)
}

/// The same of another source of the workspace.
pub(crate) fn compiled_at(source: &str, name: &str) -> Option<PathBuf> {
    // A file of that name may be of another run, whose process had the same number.
    static COMPILED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let source = root().join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains(&program) {
        let unfinished = program.with_extension("unfinished");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread", "-o"]).arg(&unfinished).arg(source);
        match compiler.status() {
            Ok(status) => assert!(status.success(), "{name} does not compile"),
            Err(error) => {
                println!("not tested: no C compiler ({error})");
                return None;
            }
        }
        std::fs::rename(&unfinished, &program).expect("the same folder");
        compiled.push(program.clone());
    }
    Some(program)
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

/// The scenario files in a folder of the workspace, in the order of names.
pub(crate) fn scenarios(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder");
    let mut names: Vec<String> = entries
        .map(|entry| format!("{folder}/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

/// A file that is removed at the end of the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A scenario file with this text.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("a scratch file");
        Self(path)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
