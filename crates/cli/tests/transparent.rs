//! Ordinary programs under the memory server do what they do without it: the same bytes, the same status, with room
//! for everything, for half and for a quarter of what they use. A program that is not installed is left out by name.
//!
//! Wall times are printed beside those without the server; nothing is asserted of them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{freehold, stderr};
use freehold_client::{Observer, Options, Question};

/// Frames of the server.
const POOL: &str = "768MiB";
/// Room for everything that any of the programs here uses.
const AMPLE: u64 = 512 << 20;
/// Less than this a program may not get: what it needs at once.
const LEAST: u64 = 1 << 20;

/// How long a run may take until it is taken for one that never ends. Each takes seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, and what it leaves behind besides its output.
struct Case {
    program: &'static str,
    /// Its arguments; run by `sh -c` where there is but one line with several commands.
    arguments: Vec<String>,
    /// Files that it writes, in the folder that it runs in.
    files: &'static [&'static str],
}

impl Case {
    fn new(program: &'static str, arguments: &[&str]) -> Self {
        Self {
            program,
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            files: &[],
        }
    }

    fn with_files(self, files: &'static [&'static str]) -> Self {
        Self { files, ..self }
    }
}

/// What a run left.
#[derive(PartialEq, Eq)]
struct Left {
    status: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    files: Vec<Option<Vec<u8>>>,
}

impl Left {
    /// What differs, in a few words.
    fn difference(&self, other: &Self) -> String {
        let shown =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.get(..bytes.len().min(600)).unwrap_or(bytes)).into_owned();
        let files: Vec<bool> = self
            .files
            .iter()
            .zip(&other.files)
            .map(|(one, two)| one == two)
            .collect();
        format!(
            "status {:?} and {:?}; output {} and {} bytes; files alike: {files:?}; errors: {:?} and {:?}",
            self.status,
            other.status,
            self.stdout.len(),
            other.stdout.len(),
            shown(&self.stderr),
            shown(&other.stderr),
        )
    }
}

/// A folder of a test's own, with what the programs work on.
struct Bench(PathBuf);

impl Bench {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-transparent-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// A fresh folder in it, so that every run finds the same.
    fn folder(&self) -> PathBuf {
        // Always the same name: programs print where they are.
        let folder = self.0.join("run");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs the case, perhaps under something, in a fresh folder.
fn run(bench: &Bench, case: &Case, wrapper: &[String], prepare: &dyn Fn(&Path)) -> (Left, Duration) {
    let folder = bench.folder();
    prepare(&folder);
    let program = [case.program.to_owned()];
    let words: Vec<&String> = wrapper.iter().chain(&program).chain(&case.arguments).collect();
    let file = |name: &str| fs::File::create(bench.0.join(name)).expect("a file");
    let began = Instant::now();
    // Into files: a pipe would be held open by whatever a program that is given up leaves behind.
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .current_dir(&folder)
        .env("LC_ALL", "C")
        .env("PYTHONHASHSEED", "0")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("the program starts");
    let read = |name: &str| fs::read(bench.0.join(name)).expect("a file");
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{words:?} did not end in {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = began.elapsed();
    let files = case.files.iter().map(|file| fs::read(folder.join(file)).ok()).collect();
    let left = Left {
        status: status.code(),
        stdout: read("stdout"),
        stderr: read("stderr"),
        files,
    };
    (left, took)
}

/// A memory server for one case.
struct Server {
    child: Child,
    folder: PathBuf,
    observer: Observer,
}

impl Server {
    /// Starts one and waits until it answers.
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-transparent-{name}-server-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("socket");
        let mut child = freehold(&["serve", "--log-level", "warn", "--pool", POOL, "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the command starts");
        let mut options = Options::named("transparent");
        options.socket = Some(socket);
        for _ in 0..500 {
            if let Ok(observer) = Observer::connect(&options) {
                return Self {
                    child,
                    folder,
                    observer,
                };
            }
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the memory server ended early: {status}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the memory server does not answer");
    }

    fn wrapper(&self, reserve: u64) -> Vec<String> {
        let socket = self.folder.join("socket").to_string_lossy().into_owned();
        let words = [env!("CARGO_BIN_EXE_freehold"), "exec", "--socket", &socket, "--reserve"];
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.extend([format!("{}KiB", reserve / 1024), "--".to_owned()]);
        words
    }

    /// The largest part of a reservation's frames that was in use, looked up again and again until `done`.
    fn most_used(&self, done: &AtomicBool) -> u64 {
        let mut most = 0;
        while !done.load(Ordering::Relaxed) {
            if let Ok(text) = self.observer.ask(Question::Status, "") {
                let status: serde_json::Value = serde_json::from_str(&text).expect("a document");
                let rows = status["reservations"].as_array().cloned().unwrap_or_default();
                let used = rows
                    .iter()
                    .filter_map(|row| Some(row["capacity"].as_u64()? - row["free"].as_u64()?));
                most = most.max(used.max().unwrap_or(0));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        most
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether programs can be run under a server here; said where not.
fn is_possible() -> bool {
    let output = freehold(&["doctor", "--json"]).output().expect("the command starts");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let uses = found["uses"].as_array().expect("uses");
    let exec = uses
        .iter()
        .find(|found| found["use"] == "freehold exec")
        .expect("the use");
    if exec["possible"] != true {
        println!(
            "not tested: freehold exec is not possible here, for want of {}: {}",
            exec["missing"],
            stderr(&output)
        );
    }
    exec["possible"] == true
}

/// The case natively, twice, and under a server with ample, half and a quarter of the room.
fn compare(name: &str, case: &Case, prepare: &dyn Fn(&Path)) {
    if !is_installed(case.program) && !Path::new(case.program).is_file() {
        println!("not tested: {} is not installed", case.program);
        return;
    }
    if !is_possible() {
        return;
    }
    let bench = Bench::new(name);
    let (native, _) = run(&bench, case, &[], prepare);
    let (again, native_time) = run(&bench, case, &[], prepare);
    assert!(
        native == again,
        "{name} is not deterministic: {}",
        native.difference(&again)
    );
    let server = Server::start(name);
    let done = AtomicBool::new(false);
    let (used, ample, time) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| server.most_used(&done));
        let (ample, time) = run(&bench, case, &server.wrapper(AMPLE), prepare);
        done.store(true, Ordering::Relaxed);
        (watch.join().expect("no panic") * 4096, ample, time)
    });
    assert!(native == ample, "{name}, ample: {}", native.difference(&ample));
    let ratio = |time: Duration| time.as_secs_f64() / native_time.as_secs_f64();
    let mut line = format!(
        "{name}: native {native_time:?}; uses {} KiB; ample {:.2}",
        used / 1024,
        ratio(time)
    );
    for (part, what) in [(2, "half"), (4, "quarter")] {
        let reserve = (used / part).max(LEAST).next_multiple_of(4096);
        let (small, time) = run(&bench, case, &server.wrapper(reserve), prepare);
        assert!(native == small, "{name}, {what}: {}", native.difference(&small));
        line.push_str(&format!("; {what} {:.2}", ratio(time)));
    }
    println!("{line} times native");
}

/// Text lines in no order.
fn write_lines(path: &Path, count: u64) {
    let mut state = 1_u64;
    let mut text = String::new();
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x} line\n", state >> 8));
    }
    fs::write(path, text).expect("a file");
}

fn python() -> Option<String> {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    Some(String::from_utf8(asked.stdout).ok()?.trim().to_owned())
}

#[test]
fn sort() {
    let case = Case::new("sort", &["--parallel=2", "-S", "40M", "lines", "-o", "sorted"]).with_files(&["sorted"]);
    compare("sort", &case, &|folder| write_lines(&folder.join("lines"), 300_000));
}

#[test]
fn python3() {
    let Some(python) = python() else {
        return println!("not tested: python3 is not installed");
    };
    let case = Case {
        program: Box::leak(python.into_boxed_str()),
        ..Case::new("python3", &["work.py"])
    };
    compare("python3", &case, &|folder| {
        fs::write(folder.join("work.py"), include_str!("programs/work.py")).expect("a file")
    });
}

#[test]
fn python3_tests_of_its_own() {
    let Some(python) = python() else {
        return println!("not tested: python3 is not installed");
    };
    let probe = Command::new(&python)
        .args(["-c", "import test.test_list"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        return println!("not tested: python3 has no tests of its own installed");
    }
    let modules = ["test_list", "test_dict", "test_struct", "test_mmap", "test_fork1"];
    let line = "import sys, unittest; s = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName('test.' + m) \
                for m in sys.argv[1:]); r = unittest.TestResult(); s.run(r); print(r.testsRun, len(r.skipped), \
                [str(t) for t, _ in r.failures + r.errors])";
    let arguments = [&["-c", line][..], &modules].concat();
    let case = Case {
        program: Box::leak(python.into_boxed_str()),
        ..Case::new("python3", &arguments)
    };
    compare("python3-tests", &case, &|_| {});
}

#[test]
fn gcc() {
    let case = Case::new("gcc", &["-O2", "-c", "program.c", "-o", "program.o"]).with_files(&["program.o"]);
    compare("gcc", &case, &|folder| {
        let functions = (0..400).map(|n| {
            let body = format!("b[i] += a * {n}; return a > 9 ? f{}(a - 1, b) : b[0];", n + 1);
            format!("int f{n}(int a, int *b) {{ for (int i = 0; i < a; i++) {{ {body} }} return 0; }}\n")
        });
        let declared = (0..=400).map(|n| format!("int f{n}(int, int *);\n"));
        let text: String = declared.chain(functions).collect();
        fs::write(folder.join("program.c"), format!("#include <stdio.h>\n{text}")).expect("a file");
    });
}

#[test]
fn git() {
    let line = "export GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z' HOME=$PWD; \
                git -c init.defaultBranch=main init -q . && git config user.name a && git config user.email a@b && \
                git config pack.threads 2 && git add files && git commit -q -m one && git gc -q && \
                git fsck --full && git log --stat | tail -3 && git rev-parse HEAD && git cat-file --batch-check \
                --batch-all-objects | sort | head -20";
    let case = Case::new("sh", &["-c", line]);
    if !is_installed("git") {
        return println!("not tested: git is not installed");
    }
    compare("git", &case, &|folder| {
        fs::create_dir_all(folder.join("files")).expect("a folder");
        for n in 0..120 {
            write_lines(&folder.join(format!("files/{n}")), 40 + n);
        }
    });
}

#[test]
fn sqlite3() {
    let line = "PRAGMA cache_size=-8000; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INT); \
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100000) \
                INSERT INTO t SELECT i, printf('%08d', (i * 7919) % 1000003), i % 97 FROM n; CREATE INDEX x ON t(b); \
                SELECT c, count(*), min(b), max(b) FROM t GROUP BY c ORDER BY 2 DESC, 1 LIMIT 9; \
                SELECT sum(a) FROM t WHERE b BETWEEN '00100000' AND '00200000'; PRAGMA integrity_check;";
    compare(
        "sqlite3",
        &Case::new("sqlite3", &["base", line]).with_files(&["base"]),
        &|_| {},
    );
}

#[test]
fn ffmpeg() {
    let arguments = "-v error -nostdin -f lavfi -i testsrc2=size=640x360:rate=30 -t 3 -c:v libx264 -preset veryfast \
                     -threads 2 -flags +bitexact -fflags +bitexact clip.mp4";
    let words: Vec<&str> = arguments.split_whitespace().collect();
    compare(
        "ffmpeg",
        &Case::new("ffmpeg", &words).with_files(&["clip.mp4"]),
        &|_| {},
    );
}

#[test]
fn mplayer() {
    if !is_installed("ffmpeg") {
        return println!("not tested: ffmpeg, which makes the clip, is not installed");
    }
    let arguments = "-really-quiet -noconfig all -nosound -nolirc -noconsolecontrols -benchmark -vo md5sum clip.mpg";
    let words: Vec<&str> = arguments.split_whitespace().collect();
    compare(
        "mplayer",
        &Case::new("mplayer", &words).with_files(&["md5sums"]),
        &|folder| {
            let make = "-v error -nostdin -f lavfi -i testsrc2=size=640x360:rate=30 -t 3 -c:v mpeg2video clip.mpg";
            let made = Command::new("ffmpeg")
                .args(make.split_whitespace())
                .current_dir(folder)
                .status();
            assert!(made.expect("it starts").success());
        },
    );
}

#[test]
fn a_server_with_threads() {
    let Some(python) = python() else {
        return println!("not tested: python3 is not installed");
    };
    let case = Case {
        program: Box::leak(python.into_boxed_str()),
        ..Case::new("python3", &["server.py"])
    };
    compare("threads", &case, &|folder| {
        fs::write(folder.join("server.py"), include_str!("programs/server.py")).expect("a file")
    });
}
