//! What the kernel and other processes do with a program's memory where no fault is served: under the memory server as
//! without, with room for everything, for half and for a quarter (`docs/book/src/kernel-paths.md`).

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{compiled, freehold, root};

/// Sizes in which there is room for all that the program uses, for half and for a quarter of it.
const SIZES: [&str; 3] = ["64MiB", "8MiB", "4MiB"];
const PATIENCE: Duration = Duration::from_secs(120);

/// The program alone, or under the command in a reservation.
fn start(program: &Path, size: Option<&str>) -> Command {
    match size {
        None => Command::new(program),
        Some(size) => {
            let mut command = freehold(&["exec", "--reserve", size, "--"]);
            command.arg(program);
            command
        }
    }
}

fn end(mut child: Child, what: &str) -> std::process::ExitStatus {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("{what} did not end");
}

/// Whether the table of the document names just these tests, and those of this file.
fn assert_named(lines: &[String]) {
    let text = std::fs::read_to_string(root().join("docs/book/src/kernel-paths.md")).expect("the document");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let mut named: Vec<&str> = rows
        .filter_map(|row| row.trim_end_matches("` |").rsplit('`').next())
        .filter(|name| !["core", "debugger"].contains(name))
        .collect();
    let mut there: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    named.sort_unstable();
    there.sort_unstable();
    assert_eq!(
        named, there,
        "docs/book/src/kernel-paths.md, and tests/programs/kernel_paths.c"
    );
}

#[test]
fn the_kernel_finds_what_it_needs() {
    let Some(program) = compiled("kernel_paths") else {
        return;
    };
    for size in [None].into_iter().chain(SIZES.map(Some)) {
        let mut command = start(&program, size);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
        let status = end(child, "the program");
        let lines = lines.join().expect("lines");
        assert!(status.success(), "{size:?}: {status}, {lines:?}");
        assert_named(&lines);
        for line in lines.iter().filter(|line| line.ends_with(" none")) {
            println!("not tested, because this machine does not have it: {line}");
        }
    }
}

/// A folder that goes again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Pages of a pattern in the core file that the folder has; `None` where it has none.
fn pages_in_core(folder: &Path) -> Option<usize> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let core = entries.map(|entry| entry.expect("an entry").path()).find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("core"))
    })?;
    let bytes = std::fs::read(&core).expect("the core file");
    std::fs::remove_file(core).expect("it goes");
    let pattern = b"CORE\xfe\xff\x01\x02".repeat(512);
    Some(bytes.chunks_exact(4096).filter(|page| *page == pattern).count())
}

#[test]
fn a_core_file_has_what_was_out() {
    const SIGNALS: [(&str, i32); 3] = [("abort", 6), ("fault", 11), ("quit", 3)];
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !pattern.starts_with("core") {
        println!(
            "not tested: core files of this machine do not lie where a program runs ({})",
            pattern.trim()
        );
        return;
    }
    let Some(program) = compiled("kernel_paths") else {
        return;
    };
    let folder = Folder::new("core");
    for size in [None].into_iter().chain(SIZES.map(Some)) {
        for (how, signal) in SIGNALS {
            // The command raises the same signal at its own end, and leaves no core file.
            let script = "ulimit -c unlimited && cd \"$1\" && shift && exec \"$@\"";
            let plain = start(&program, size);
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).arg(&folder.0).arg(plain.get_program());
            shell.args(plain.get_args()).args(["core", how]);
            let status = end(shell.stderr(Stdio::null()).spawn().expect("it starts"), how);
            assert_eq!(status.signal(), Some(signal), "{how} in {size:?}: {status}");
            match pages_in_core(&folder.0) {
                Some(found) => assert_eq!(found, 64, "{how} in {size:?}"),
                None if size.is_none() => {
                    println!("not tested: this machine writes no core files");
                    return;
                }
                None => panic!("{how} in {size:?}: no core file"),
            }
        }
    }
}

#[test]
fn a_debugger_from_outside_reads_what_was_out() {
    let Some(program) = compiled("kernel_paths") else {
        return;
    };
    for size in [None].into_iter().chain(SIZES.map(Some)) {
        let mut command = start(&program, size);
        command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let debugger = Command::new(&program)
            .arg("debug")
            .args(words)
            .spawn()
            .expect("it starts");
        let read = end(debugger, "the debugger");
        drop(child.stdin.take());
        let status = end(child, "the program");
        assert!(read.success(), "in {size:?} a debugger reads something else: {read}");
        assert!(status.success(), "in {size:?}: {status}");
    }
}
