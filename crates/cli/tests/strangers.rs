//! Programs of other kinds, begun by one that is managed, do what they do natively and say nothing more: of another C
//! library, for another machine, linked statically, built with a sanitizer, under a filter of system calls, of another
//! user, out of reach of the server. `status`, `explain` and `exec` say that they are not managed.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{compiled, freehold, own_stderr, stderr, stdout};

const SIZES: [&str; 3] = ["64MiB", "8MiB", "4MiB"];

/// A folder with programs of every kind that this machine can build.
struct Zoo {
    folder: PathBuf,
    kinds: Vec<(&'static str, &'static str)>,
}

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    char *block = malloc(1 << 20);
    memset(block, 7, 1 << 20);
    printf("%s %d %s\n", words[0], block[4096], count > 1 ? words[1] : "-");
    free(block);
    return 0;
}
"#;

/// Begins each program in each way, more often than there are slots for environments.
const BEGINS: &str = r"
import os, subprocess, sys
for name in NAMES:
    for close in (True, False):
        for _ in range(3):
            subprocess.run([name, 'run'], close_fds=close)
    os.system(name)
    os.waitpid(os.posix_spawn(name, [name, 'spawn'], os.environ), 0)
    child = os.fork()
    if not child:
        os.execve(os.open(name, os.O_RDONLY), [name, 'by descriptor'], os.environ)
    os.waitpid(child, 0)
";

/// Begins each program, says what process the last one was, and stays.
const KEEPS: &str = r"
import subprocess, sys
for name in sys.argv[1:]:
    child = subprocess.Popen([name])
    child.wait()
print(child.pid, flush=True)
input()
";

impl Zoo {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("kind.c"), SOURCE).expect("a file");
        let mut kinds = Vec::new();
        for (kind, compiler, options, why) in [
            ("plain", "cc", "-O1", ""),
            ("static", "cc", "-static", "linked statically"),
            ("placed", "cc", "-static-pie", "linked statically"),
            ("musl", "musl-gcc", "-O1", "of another C library"),
            ("small", "cc", "-m32", "for another machine than x86-64"),
            ("addresses", "cc", "-fsanitize=address", "built with a sanitizer"),
            (
                "within",
                "cc",
                "-fsanitize=address -static-libasan",
                "built with a sanitizer",
            ),
            ("races", "cc", "-fsanitize=thread", "built with a sanitizer"),
        ] {
            let mut command = Command::new(compiler);
            command.args(options.split(' ')).arg("-o").arg(kind).arg("kind.c");
            let built = command.current_dir(&folder).stderr(Stdio::null()).status();
            let runs = built.is_ok_and(|status| status.success())
                && Command::new(folder.join(kind))
                    .output()
                    .is_ok_and(|output| output.status.success());
            if runs {
                kinds.push((kind, why));
            } else {
                println!("not tested: {kind} ({compiler} {options})");
            }
        }
        Self { folder, kinds }
    }

    fn path(&self, kind: &str) -> String {
        self.folder.join(kind).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.join(name), text).expect("a file");
        self.path(name)
    }
}

impl Drop for Zoo {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_allowed() -> bool {
    let probe = freehold(&["exec", "--reserve", "16MiB", "--", "true"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        println!("not tested: {}", stderr(&probe));
    }
    probe.status.success()
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        println!("not tested: {program} is not here");
    }
    found
}

fn native(words: &[&str]) -> Output {
    let [program, arguments @ ..] = words else {
        panic!("a program")
    };
    Command::new(program).args(arguments).output().expect("it starts")
}

fn managed(reserve: &str, words: &[&str]) -> Output {
    let mut command = freehold(&["exec", "--reserve", reserve, "--"]);
    command.args(words).output().expect("it starts")
}

/// The same output, errors and status, natively and in each size.
fn compare(words: &[&str]) {
    let alone = native(words);
    for reserve in SIZES {
        let under = managed(reserve, words);
        let said = |output: &Output| (output.status.code(), stdout(output), own_stderr(output));
        assert_eq!(said(&alone), said(&under), "{words:?} in {reserve}");
    }
}

/// The same of a program of the tests' own.
fn compare_compiled(name: &str) {
    if let Some(program) = is_allowed().then(|| compiled(name)).flatten() {
        compare(&[program.to_str().expect("a path")]);
    }
}

#[test]
fn programs_that_cannot_load_the_agent_run_as_natively() {
    if !is_allowed() || compiled("depth").is_none() {
        return;
    }
    let zoo = Zoo::new("kinds");
    let script: String = zoo.kinds.iter().map(|(kind, _)| zoo.path(kind) + "; ").collect();
    compare(&["sh", "-c", &script]);
    if has("python3") {
        let names: Vec<String> = zoo.kinds.iter().map(|(kind, _)| zoo.path(kind)).collect();
        let text = format!("NAMES = {names:?}\n{BEGINS}");
        compare(&["python3", &zoo.write("begins.py", &text)]);
    }
    if has("valgrind") {
        compare(&["sh", "-c", &format!("valgrind -q {}", zoo.path("plain"))]);
    }
}

#[test]
fn programs_of_other_users_and_roots_run_as_natively() {
    if !is_allowed() {
        return;
    }
    for (tool, script) in [
        (
            "setpriv",
            "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo as nobody; cat /dev/null'",
        ),
        (
            "setpriv",
            "setpriv --bounding-set -sys_ptrace sh -c 'echo with fewer rights; (echo in a child)'",
        ),
        ("su", "su -s /bin/sh nobody -c 'echo through su'"),
        (
            "unshare",
            "unshare --mount sh -c 'mount -t tmpfs none /tmp; mount -t tmpfs none /run; sh -c \"echo without\"'",
        ),
        (
            "unshare",
            "unshare --pid --fork sh -c 'echo number $$; (echo child); sh -c \"echo other\"'",
        ),
    ] {
        if has(tool) && native(&["sh", "-c", script]).status.success() {
            compare(&["sh", "-c", script]);
        }
    }
}

/// Here the program that `exec` begins becomes another one, which is asked for first.
#[test]
fn a_program_that_gives_its_rights_up_becomes_another_one_as_natively() {
    if !is_allowed() || !has("setpriv") {
        return;
    }
    const KEEPS: &[&str] = &["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"];
    const SCRIPT: &[&str] = &["sh", "-c", "echo with other rights; cat /dev/null; (echo in a child)"];
    let nobody: &[&str] = &["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    for rights in [
        nobody.to_vec(),
        // The right that the agent needs, but not the one to come to a folder of root's, which `setpriv` still has.
        [nobody, KEEPS].concat(),
        // Root by number only, and with the right that the agent needs.
        vec!["--securebits", "+noroot"],
        [&["--securebits", "+noroot"], KEEPS].concat(),
    ] {
        compare(&[&["setpriv"], &rights[..], SCRIPT].concat());
    }
}

/// The agent's descriptors lie in a table of its own, below the program's limit. Where fewer come than were sent it
/// must not wait for the answers behind them.
#[test]
fn a_low_limit_of_open_files_is_said_and_hangs_nothing() {
    if !is_allowed() || !has("prlimit") {
        return;
    }
    for limit in 4..=24 {
        let limit = format!("--nofile={limit}");
        let words = [
            "prlimit",
            &limit,
            "sh",
            "-c",
            "echo a; (echo in a child); /bin/echo another",
        ];
        let (alone, under) = (native(&words), managed("24MiB", &words));
        if under.status.code() == Some(125) {
            let why = stderr(&under);
            assert!(why.contains("RLIMIT_NOFILE"), "{limit}: {why}");
            assert_eq!(stdout(&under), "", "{limit}");
        } else {
            let said = |output: &Output| (output.status.code(), stdout(output), own_stderr(output));
            assert_eq!(said(&alone), said(&under), "{limit}");
        }
    }
    // The kind that runs managed, and the kind that is refused.
    let of = |limit| managed("24MiB", &["prlimit", limit, "true"]).status.code();
    assert_eq!((of("--nofile=4"), of("--nofile=24")), (Some(125), Some(0)));
}

/// Limits that are set for a program are not for the server that its command starts: they stay the program's.
#[test]
fn a_command_under_limits_starts_a_server_that_they_do_not_end() {
    if !is_allowed() {
        return;
    }
    let shown = "ulimit -f; ulimit -s; ulimit -t; ulimit -v; ulimit -d; seq 20000 | sort -n | tail -n 1";
    for limit in [
        "ulimit -s 128",
        "ulimit -S -s 128",
        "ulimit -S -f 0",
        "ulimit -f 0",
        "ulimit -S -t 20",
        "ulimit -t 60",
        "ulimit -S -v 400000",
        "ulimit -S -d 100000",
        "ulimit -v 200000",
    ] {
        let enter = format!("{limit}; exec \"$@\"");
        let program = ["sh", "-c", shown];
        let alone = native(&[&["sh", "-c", &enter, "sh"], &program[..]].concat());
        let under = common::freehold_under(&["sh", "-c", &enter, "sh"], &["exec", "--reserve", "8MiB", "--"])
            .args(program)
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let hard = [("ulimit -f 0", "ulimit -f"), ("ulimit -v 200000", "ulimit -v")];
        let hard = hard.into_iter().find(|(of, _)| *of == limit);
        if let Some((_, name)) = hard.filter(|_| under.status.code() == Some(125)) {
            // Whoever may not raise it is told.
            let why = stderr(&under);
            assert!(why.contains(&format!("it may not raise {name}")), "{why}");
            continue;
        }
        let said = |output: &Output| (output.status.code(), stdout(output));
        assert_eq!(said(&alone), said(&under), "{limit}: {}", stderr(&under));
    }
}

#[test]
fn nothing_that_the_agent_does_ends_a_program_under_a_filter() {
    compare_compiled("filters");
}

#[test]
fn a_filter_for_all_threads_binds_the_program_and_not_what_the_agent_does() {
    compare_compiled("filters_of_threads");
}

#[test]
fn a_program_that_maps_object_files_as_data_loads_them_as_natively() {
    compare_compiled("objects_as_data");
}

#[test]
fn a_program_ends_as_natively_also_where_its_threads_end_one_by_one() {
    compare_compiled("endings");
}

#[test]
fn threads_end_as_natively_wherever_they_are_cancelled() {
    compare_compiled("cancelled");
}

#[test]
fn status_explain_and_exec_tell_of_them() {
    if !is_allowed() {
        return;
    }
    let zoo = Zoo::new("told");
    let socket = zoo.folder.join("socket");
    let _server = serve(&socket);
    let (script, names) = (
        zoo.write("keeps.py", KEEPS),
        zoo.kinds.iter().map(|(kind, _)| zoo.path(kind)),
    );
    if has("python3") {
        tells(&zoo, &socket, &script, names.collect());
    }
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(socket: &Path) -> Server {
    let mut server = freehold(&["serve", "--log-level", "error", "--pool", "128MiB", "--socket"])
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    while !socket.exists() {
        assert_eq!(server.try_wait().expect("a status"), None, "the server lives");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Server(server)
}

fn tells(zoo: &Zoo, socket: &Path, script: &str, names: Vec<String>) {
    use std::io::{BufRead, BufReader};
    let mut command = freehold(&["exec", "--reserve", "32MiB", "--socket"]);
    command.arg(socket).args(["--", "python3", script]).args(names);
    let mut program = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(program.stdout.take().expect("its output")).lines();
    let last = lines
        .find_map(|line| line.expect("text").parse::<u32>().ok())
        .expect("a process number");
    let ask = |words: &[&str]| freehold(words).arg("--socket").arg(socket).output().expect("it starts");
    let shown = stdout(&ask(&["status"]));
    for (kind, why) in zoo.kinds.iter().filter(|(_, why)| !why.is_empty()) {
        let row = shown
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{kind} ")));
        assert!(row.is_some_and(|row| row.contains(why)), "{kind}: {shown}");
    }
    if zoo.kinds.last().is_some_and(|(_, why)| !why.is_empty()) {
        let explained = ask(&["explain", &last.to_string()]);
        assert!(stderr(&explained).contains("runs unmanaged"), "{}", stderr(&explained));
    }
    drop(program.stdin.take());
    program.wait().expect("its end");
    if has("script") {
        let exec = format!(
            "{} exec --reserve 16MiB -- sh -c '{}; true'",
            env!("CARGO_BIN_EXE_freehold"),
            zoo.path("static")
        );
        let output = Command::new("script")
            .args(["-qec", &exec, "/dev/null"])
            .output()
            .expect("it starts");
        let said = stdout(&output);
        assert!(
            said.contains("1 program ran unmanaged: static (linked statically)"),
            "{said}"
        );
    }
}
