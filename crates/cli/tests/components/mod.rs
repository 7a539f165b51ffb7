//! Compositions of test programs, run by the command in a folder of their own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn freehold() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freehold"))
}

/// A folder of objects and compositions, below which those that run are found; removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-component-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// The example's objects and compositions.
    #[allow(dead_code, reason = "of the services only")]
    pub(crate) fn of_example(name: &str) -> Self {
        let folder = Self::new(name);
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/components");
        let out = format!("OUT={}", folder.0.display());
        made(Command::new("make").arg("-C").arg(&example).arg(out));
        for file in ["http.toml", "service.toml"] {
            std::fs::copy(example.join(file), folder.0.join(file)).unwrap();
        }
        folder
    }

    /// `PROGRAM.so` of `tests/programs/PROGRAM.c`.
    fn compile(&self, program: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let flags = "-std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -o";
        made(
            Command::new("cc")
                .args(flags.split(' '))
                .arg(self.0.join(format!("{program}.so")))
                .arg(root.join(format!("tests/programs/{program}.c")))
                .arg("-I")
                .arg(root.join("../tmem/include")),
        );
    }

    /// `component run` of one of its files.
    pub(crate) fn run(&self, file: &str, options: &[&str]) -> Command {
        let mut command = freehold();
        command.args(["component", "run", "--json", file]).args(options);
        command.current_dir(&self.0).env("TMPDIR", &self.0);
        // In a group of its own, as a command that a shell starts.
        command.process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn ask(&self, options: &[&str]) -> Output {
        let mut command = freehold();
        command.arg("component").args(options).env("TMPDIR", &self.0);
        command.output().unwrap()
    }

    /// Waits until `ps` says so: a service may answer before its manager has told of it.
    pub(crate) fn until_shown(&self, what: &str) {
        let shown = || String::from_utf8(self.ask(&["ps"]).stdout).unwrap().contains(what);
        eventually(&format!("`{what}` is shown"), shown);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn made(command: &mut Command) {
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Waits until it is so.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A composition of the component `tests/programs/PROGRAM.c` that runs.
pub(crate) struct Composed {
    pub(crate) folder: Folder,
    pub(crate) child: Child,
}

impl Composed {
    pub(crate) fn start(name: &str, program: &str, text: &str, options: &[&str]) -> Self {
        Self::start_in(Folder::new(name), program, text, options)
    }

    pub(crate) fn start_in(folder: Folder, program: &str, text: &str, options: &[&str]) -> Self {
        folder.compile(program);
        std::fs::write(folder.0.join("run.toml"), text).unwrap();
        let mut command = folder.run("run.toml", &["--trace", "trace.json"]);
        let child = command.args(options).spawn().unwrap();
        Self { folder, child }
    }

    /// Runs of the policy so far.
    pub(crate) fn trace(&self) -> Vec<serde_json::Value> {
        let trace = std::fs::read_to_string(self.folder.0.join("trace.json")).unwrap_or_default();
        // The last line may be half written.
        let lines = trace.lines().map_while(|line| serde_json::from_str(line).ok());
        lines.collect()
    }
}

/// A signal to a process, or to its group.
pub(crate) fn send(signal: &str, to: &str) {
    let sent = Command::new("kill").args([signal, "--", to]).status().unwrap();
    assert!(sent.success());
}

/// Ends a run by SIGINT; the document that it leaves.
pub(crate) fn end(child: Child) -> serde_json::Value {
    send("-INT", &child.id().to_string());
    document(child)
}

/// Waits for the end of a run that succeeds; the document that it leaves.
pub(crate) fn document(child: Child) -> serde_json::Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A component's rows of units.
pub(crate) fn rows<'a>(document: &'a serde_json::Value, name: &str) -> Vec<&'a serde_json::Value> {
    let all = document["components"].as_array().unwrap();
    all.iter().filter(|row| row["name"] == name).collect()
}
