//! However a command ends, nothing of it stays: no process, no folder, no memory cgroup, no swap file.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, children, freehold};
use freehold_command::run_server::RunServer;
use freehold_linux::folder::PrivateFolder;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long what is left may take to go: long, since nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Waits until it is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(LOOK);
    }
}

/// The processes whose command line has this word in it.
fn processes(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    numbers.filter(of_it).collect()
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// `freehold exec` of a script that says its server's socket first; the command, and the folder of the socket.
fn exec(script: &str) -> Option<(Child, PathBuf)> {
    let script = format!("echo $FREEHOLD_SOCKET; exec >/dev/null; {script}");
    let mut command = freehold(&["exec", "--reserve", "8MiB", "--", "sh", "-c", &script]);
    command.env_remove("FREEHOLD_SOCKET").process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("text");
    let folder = Path::new(line.trim()).parent().map(Path::to_owned);
    match folder.filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => Some((child, folder)),
        None => {
            let mut why = String::new();
            child
                .stderr
                .take()
                .expect("a pipe")
                .read_to_string(&mut why)
                .expect("text");
            child.wait().expect("a child");
            println!("not tested: programs cannot be managed here: {why}");
            None
        }
    }
}

fn must_vanish(folder: &Path) {
    let name = folder.to_str().expect("text");
    eventually("the server's folder is gone", || !folder.exists());
    eventually("the server has ended", || processes(name).is_empty());
}

#[test]
fn a_server_of_a_command_ends_with_it_however_it_ends() {
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP] {
        let Some((mut child, folder)) = exec("sleep 1") else {
            return;
        };
        let status = folder.metadata().expect("the server's folder");
        assert_eq!(status.mode() & 0o7777, 0o700, "nobody else enters {}", folder.display());
        let named = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let names = || {
            let mut names: Vec<String> = processes(folder.to_str().expect("text"))
                .into_iter()
                .map(named)
                .collect();
            names.sort();
            names
        };
        // The helper gives itself its name.
        eventually("there are the server, and who frees its memory", || {
            names() == ["freehold\n", "freehold-memory\n"]
        });
        // As the terminal does, but for the signal that a terminal does not send.
        if signal == Signal::KILL {
            kill_process(pid(&child), signal).expect("it is there");
        } else {
            kill_process_group(pid(&child), signal).expect("it is there");
        }
        child.wait().expect("a child");
        must_vanish(&folder);
    }
}

/// A process that a killed command's program has become, or has left behind, is managed until it ends.
#[test]
fn what_a_command_leaves_behind_keeps_its_server() {
    let proof = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-behind-{}", std::process::id()));
    // What comes last connects anew, when command and shell are gone.
    let after = format!("grep -c libfreehold_agent /proc/self/maps >{}", proof.display());
    for killed in [true, false] {
        let script = format!(
            "(sleep 1; exec sh -c '{after}') & {}",
            if killed { "sleep 2" } else { "" }
        );
        let Some((mut child, folder)) = exec(&script) else {
            return;
        };
        if killed {
            kill_process(pid(&child), Signal::KILL).expect("it is there");
        }
        child.wait().expect("a child");
        assert!(folder.exists());
        must_vanish(&folder);
        let managed = std::fs::read_to_string(&proof).expect("what was left behind has ended well");
        assert_ne!(managed.trim(), "0", "it was managed to its end");
        std::fs::remove_file(&proof).expect("the file");
    }
}

#[test]
fn a_file_of_another_user_in_the_place_of_the_lock_is_named() {
    let nobody = 65_534;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("squatted-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o1777)).expect("its mode");
    let lock = folder.join("socket.lck");
    std::fs::write(&lock, "").expect("a file");
    if std::os::unix::fs::chown(&lock, Some(nobody), None).is_err() {
        println!("not tested: only root can make files of others");
    } else {
        let socket = folder.join("socket");
        let output = freehold(&["serve", "--pool", "1MiB", "--socket"]).arg(&socket).output();
        let output = output.expect("the command");
        let errors = common::stderr(&output);
        assert_eq!(common::status(&output), 2, "{errors}");
        assert!(errors.contains("belongs to user 65534"), "{errors}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}

const SERVED: &str = r#"name = "long"
duration = "20s"
[memory]
pool = "4MiB"
[[region]]
name = "r"
size = "1MiB"
[[reservation]]
name = "a"
size = "2MiB"
[[task]]
name = "t"
reservation = "a"
period = "10ms"
[[task.access]]
region = "r"
amount = "100KiB"
"#;

#[test]
fn a_served_run_that_is_interrupted_says_what_ran_and_one_that_is_killed_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let scenario = Scratch::new("ends-served", SERVED);
        let arguments = [
            "run",
            scenario.path(),
            "--engine",
            "live",
            "--placement",
            "server",
            "--json",
        ];
        let mut command = freehold(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the command starts");
        let mut servers = Vec::new();
        eventually("there is a server, or no run", || {
            servers = children(child.id());
            !servers.is_empty() || !is_alive(child.id())
        });
        std::thread::sleep(Duration::from_millis(1000));
        if child.try_wait().expect("a child").is_some() {
            println!("not tested: live runs are not possible here");
            return;
        }
        let line = std::fs::read(format!("/proc/{}/cmdline", servers[0])).expect("the server");
        let line = String::from_utf8_lossy(&line).into_owned();
        let socket = line.trim_end_matches('\0').rsplit('\0').next().expect("the last word");
        let folder = Path::new(socket).parent().expect("a folder").to_owned();
        // The whole group, as the terminal does.
        kill_process_group(pid(&child), signal).expect("it is there");
        let output = child.wait_with_output().expect("a child");
        if signal != Signal::KILL {
            assert_eq!(output.status.code(), Some(1), "{}", common::stderr(&output));
            let document = common::document(&output);
            assert!(document["tasks"][0]["jobs"].is_u64(), "{document}");
            assert!(
                document["warnings"].to_string().contains("stopped before its end"),
                "{document}"
            );
        }
        eventually("the server has ended", || servers.iter().all(|pid| !is_alive(*pid)));
        eventually("the folder is gone", || !folder.exists());
    }
}

/// The files of a killed run are closed one after the other, and its lock may be the last: the server waits for it.
#[test]
fn a_server_of_a_run_removes_its_folder_also_where_the_lock_goes_late() {
    let parent = std::env::temp_dir();
    let folder = PrivateFolder::new(&parent, "freehold-run-late").expect("a folder");
    let path = folder.path().to_owned();
    let server = RunServer::plain(256, 256);
    let mut child = freehold(&["serve-run", &serde_json::to_string(&server).expect("JSON")])
        .arg(path.join("socket"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    eventually("it listens, or cannot", || {
        path.join("socket").exists() || child.try_wait().expect("a child").is_some()
    });
    if child.try_wait().expect("a child").is_some() {
        let output = child.wait_with_output().expect("a child");
        println!("not tested: no server can be had here: {}", common::stderr(&output));
        return;
    }
    drop(child.stdin.take());
    // The server is at the end of its work when its socket goes.
    eventually("it listens no more", || !path.join("socket").exists());
    std::thread::sleep(10 * LOOK);
    folder.leave();
    assert!(child.wait().expect("a child").success());
    assert!(!path.exists(), "{} is left", path.display());
}

/// The kernel's swap files that this command made.
fn swap_files() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/swaps").expect("the kernel's list");
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| name.contains("freehold-work"))
        .map(PathBuf::from)
        .collect()
}

#[test]
fn a_swap_file_and_a_memory_cgroup_go_with_a_benchmark_that_is_killed() {
    for signal in [Signal::KILL, Signal::INT] {
        let mut command = freehold(&["bench", "isolation", "--quick"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the command starts");
        eventually("a swap file, or the end", || {
            !swap_files().is_empty() || child.try_wait().expect("a child").is_some()
        });
        let Some(swap) = swap_files().pop() else {
            println!("not tested: no swap files or memory cgroups here");
            return;
        };
        let folder = swap.parent().expect("a folder").to_owned();
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .expect("text")
            .to_owned();
        let group = || processes(&name).len() + usize::from(folder.exists()) + usize::from(!swap_files().is_empty());
        let own = children(child.id());
        kill_process_group(pid(&child), signal).expect("it is there");
        child.wait().expect("a child");
        eventually("nothing is left", || {
            group() == 0 && own.iter().all(|pid| !is_alive(*pid))
        });
        let left = Path::new("/sys/fs/cgroup/memory").join(&name);
        assert!(!left.exists() && !Path::new("/sys/fs/cgroup").join(&name).exists());
    }
}

/// What had ended before a command was interrupted is in one whole document.
#[test]
fn experiments_and_benchmarks_that_are_interrupted_show_what_has_ended() {
    for (arguments, list, first) in [
        (
            &["reproduce", "spc-table3,app-fig4", "--json"][..],
            "experiments",
            "spc-table3",
        ),
        (&["bench", "all", "--quick", "--json"], "benches", ""),
    ] {
        let mut command = freehold(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().expect("the command starts");
        // The first takes no time, the second much.
        std::thread::sleep(Duration::from_secs(4));
        kill_process_group(pid(&child), Signal::INT).expect("it is there");
        let output = child.wait_with_output().expect("a child");
        let document = common::document(&output);
        assert_eq!(
            (output.status.code(), &document["stopped"]),
            (Some(1), &true.into()),
            "{document}"
        );
        let ended = document[list].as_array().expect("a list");
        assert!(ended.iter().all(|row| row.is_object()), "{document}");
        if let Some(row) = ended.first().filter(|_| !first.is_empty()) {
            assert_eq!(row["experiment"], first);
        }
    }
}
