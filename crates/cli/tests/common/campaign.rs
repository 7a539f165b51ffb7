//! A memory server of a test's own, and small C programs under it.

use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No wait of a test takes longer; a test that comes to it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn freehold() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freehold"))
}

/// A server, killed with all its clients when dropped.
pub(crate) struct Server {
    folder: PathBuf,
    pub(crate) child: Child,
}

impl Server {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut command = freehold();
        command
            .arg("serve")
            .arg("--socket")
            .arg(folder.join("socket"))
            .args(arguments);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("freehold");
        let mut server = Self { folder, child };
        let begun = Instant::now();
        while !server.socket().exists() {
            assert!(server.child.try_wait().expect("a child").is_none(), "the server ended");
            assert!(begun.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Starts a program under the server, and waits until it says that it is ready.
    pub(crate) fn exec(&self, reserve: Option<&str>, program: &Path, words: &[&str]) -> Managed {
        let options: Vec<&str> = reserve.into_iter().flat_map(|size| ["--reserve", size]).collect();
        self.exec_with(&options, program, words)
    }

    /// As [`exec`](Self::exec), with any options of the command.
    pub(crate) fn exec_with(&self, options: &[&str], program: &Path, words: &[&str]) -> Managed {
        let mut command = freehold();
        command.arg("exec").arg("--socket").arg(self.socket()).args(options);
        command.arg("--").arg(program).args(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("freehold");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut managed = Managed { child, lines };
        managed.expect_line("ready");
        managed
    }

    pub(crate) fn status(&self) -> Value {
        let output = freehold()
            .args(["status", "--json", "--socket"])
            .arg(self.socket())
            .output();
        let output = output.expect("freehold");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "status: {errors}");
        serde_json::from_slice(&output.stdout).expect("a document")
    }

    /// The clients of a program, by its file name.
    pub(crate) fn clients(&self, program: &str) -> Vec<Value> {
        self.named("clients", program)
    }

    fn named(&self, rows: &str, program: &str) -> Vec<Value> {
        let status = self.status();
        let all = status[rows].as_array().expect("a list");
        let named = |row: &&Value| row["name"].as_str().is_some_and(|name| name.starts_with(program));
        all.iter().filter(named).cloned().collect()
    }

    /// Waits until no client of this program is left, and no reservation: that ends when all its frames are back.
    pub(crate) fn wait_without(&self, program: &str) {
        let begun = Instant::now();
        while ["clients", "reservations"]
            .iter()
            .any(|rows| !self.named(rows, program).is_empty())
        {
            assert!(begun.elapsed() < PATIENCE, "{program} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program under the server, killed when dropped.
pub(crate) struct Managed {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Managed {
    /// The next line that it prints must be this.
    pub(crate) fn expect_line(&mut self, expected: &str) {
        match self.lines.next() {
            Some(Ok(line)) => assert_eq!(line, expected),
            other => panic!("{other:?} instead of `{expected}`: {}", self.errors()),
        }
    }

    /// Everything that it still prints, until it ends; and how it ended.
    pub(crate) fn rest(&mut self) -> (ExitStatus, Vec<String>, String) {
        drop(self.child.stdin.take());
        let lines = self.lines.by_ref().map_while(Result::ok).collect();
        let errors = self.errors();
        (self.child.wait().expect("a child"), lines, errors)
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        if let Some(mut from) = self.child.stderr.take() {
            let _ = from.read_to_string(&mut errors);
        }
        errors
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A count of a client, summed over its tasks.
pub(crate) fn count(client: &Value, key: &str) -> u64 {
    let tasks = client["tasks"].as_array().expect("a list");
    tasks.iter().map(|task| task[key].as_u64().expect("a count")).sum()
}
