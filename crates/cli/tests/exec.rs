//! `freehold exec`: programs end as they would without it, and what cannot be managed is refused by name.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn exec(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("exec").args(arguments).env_remove("FREEHOLD_SOCKET");
    command
}

fn run(arguments: &[&str]) -> Output {
    exec(arguments).stdin(Stdio::null()).output().expect("the command")
}

/// Whether programs can be managed here; what is missing is said by the command itself.
fn allowed() -> bool {
    let output = run(&["--reserve", "16MiB", "--", "true"]);
    if !output.status.success() {
        println!("passed over: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn output_and_status_are_the_programs() {
    if !allowed() {
        return;
    }
    let output = run(&[
        "--reserve",
        "24MiB",
        "--",
        "sh",
        "-c",
        "seq 20000 | sort -rn | head -2; exit 7",
    ]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "20000\n19999\n",
        "{}",
        errors(&output)
    );
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_program_that_dies_of_a_signal_takes_the_command_along() {
    if !allowed() {
        return;
    }
    for signal in [9, 15] {
        let output = run(&["--reserve", "16MiB", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(output.status.signal(), Some(signal), "{}", errors(&output));
    }
}

#[test]
fn signals_are_passed_on() {
    if !allowed() {
        return;
    }
    let script = "trap 'echo told; exit 5' USR1; echo ready; while :; do sleep 0.05; done";
    let mut command = exec(&["--reserve", "16MiB", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let process = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::USR1).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "told");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A program that had too little memory is told so in one line, and one that had enough is told nothing.
#[test]
fn who_was_short_of_memory_is_told_which_size_would_do() {
    if !allowed() {
        return;
    }
    let program = "b = bytearray(24 << 20)\nfor _ in range(3):\n    for i in range(0, len(b), 4096): b[i] = 1\n";
    let said = |size: &str| {
        let output = run(&["--reserve", size, "--", "python3", "-c", program]);
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output)
    };
    let little = said("12MiB");
    assert_eq!(little.matches("pages came back").count(), 1, "{little}");
    let (_, size) = little.split_once("--reserve ").expect("a size");
    let size = size.split_whitespace().next().expect("a size");
    assert!(!said(size).contains("pages came back"), "{size} was said to do");
}

/// What runs unmanaged holds no frames that others could have.
#[test]
fn a_reservation_in_which_nothing_is_managed_is_given_up() {
    if !allowed() {
        return;
    }
    // With the variable empty the second program has no agent, which an emptied environment alone does not do.
    let without = ["env", "FREEHOLD_SOCKET=", "LD_PRELOAD=", "sleep", "6"];
    let output = run(&[&["--keep-going", "--reserve", "8MiB", "--"][..], &without].concat());
    assert!(
        output.status.success() && errors(&output).contains("given up"),
        "{}",
        errors(&output)
    );
    let output = run(&["--keep-going", "--reserve", "8MiB", "--", "sleep", "5"]);
    assert!(
        output.status.success() && !errors(&output).contains("given up"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_folder_whose_name_separates_paths_is_as_good_as_any() {
    if !allowed() {
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("a b:c-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_freehold"));
    let command = folder.join("freehold");
    std::fs::copy(own, &command).unwrap();
    std::fs::copy(
        own.with_file_name("libfreehold_agent.so"),
        folder.join("libfreehold_agent.so"),
    )
    .unwrap();
    let mut command = Command::new(&command);
    command.env_remove("FREEHOLD_SOCKET").env_remove("FREEHOLD_AGENT");
    let script = "echo $LD_PRELOAD; sh -c 'grep -c libfreehold_agent /proc/self/maps'";
    let output = command
        .args(["exec", "--reserve", "8MiB", "--", "sh", "-c", script])
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = output.expect("the command");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (link, count) = said.split_once('\n').expect("two lines");
    assert!(
        count.trim().parse::<u32>().is_ok_and(|count| count > 0),
        "{said}{}",
        errors(&output)
    );
    assert!(!std::path::Path::new(link).exists(), "{link} is left");
}

/// The class that a thread had is not taken from it without a word.
#[test]
fn a_class_that_is_replaced_is_named() {
    let own = env!("CARGO_BIN_EXE_freehold");
    let mut command = Command::new("chrt");
    command.args([
        "-f",
        "7",
        own,
        "exec",
        "--period",
        "40ms",
        "--budget",
        "20ms",
        "--unmanaged",
    ]);
    let output = command.args(["--", "sleep", "0.2"]).output();
    match output.map(|output| (output.status.success(), errors(&output))) {
        Ok((true, said)) => assert!(
            said.contains("replaces") && said.contains("SCHED_FIFO, priority 7"),
            "{said}"
        ),
        other => println!("not tested: the classes cannot be had here: {other:?}"),
    }
}

#[test]
fn a_program_that_cannot_be_managed_is_refused_by_name() {
    let folder = std::env::temp_dir().join(format!("freehold-exec-test-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let source = folder.join("program.c");
    std::fs::write(&source, "int main(void) { return 3; }\n").unwrap();
    let program = folder.join("program");
    let compiler = Command::new("cc")
        .arg("-static")
        .arg("-o")
        .args([&program, &source])
        .output();
    if compiler.is_ok_and(|output| output.status.success()) {
        let path = program.to_str().unwrap();
        let output = run(&["--", path]);
        assert_eq!(output.status.code(), Some(125));
        assert!(errors(&output).contains("linked statically"), "{}", errors(&output));
        let output = run(&["--keep-going", "--", path]);
        assert_eq!(output.status.code(), Some(3));
        assert!(errors(&output).contains("runs unmanaged"), "{}", errors(&output));
    } else {
        println!("passed over: no static C library");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_that_its_dynamic_linker_is_told_to_load_is_managed() {
    let linker = "/lib64/ld-linux-x86-64.so.2";
    if !std::path::Path::new(linker).exists() {
        println!("not tested: {linker} is not here");
        return;
    }
    let shell = "grep -q freehold_agent.so /proc/$$/maps && exit 7";
    let output = run(&["--reserve", "8MiB", "--", linker, "/bin/sh", "-c", shell]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
}

#[test]
fn what_does_not_run_ends_as_under_env() {
    for (arguments, word) in [
        (&["--adaptive", "--", "true"][..], "--period"),
        (&["--reserve", "0B", "--", "true"], "no memory"),
        (&["--reserve", "8TiB", "--", "true"], "--reserve"),
        (&["--period", "40ms", "--", "true"], "--budget"),
        (&[], "CMD"),
        (&["--socket", "/nowhere/socket", "--", "true"], "/nowhere/socket"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(errors(&output).contains(word), "{arguments:?}: {}", errors(&output));
        assert!(!errors(&output).contains("--pool"), "{}", errors(&output));
    }
    let output = run(&["--period", "5ms", "--budget", "2ms", "--unmanaged", "--", "true"]);
    if freehold_linux::tick::period().is_ok_and(|tick| tick > std::time::Duration::from_millis(2)) {
        assert_eq!(output.status.code(), Some(125), "{}", errors(&output));
        assert!(errors(&output).contains("tick"), "{}", errors(&output));
    }
    for program in ["no-such-program", "/no/such/program", "/etc/passwd", "/etc"] {
        let natively = Command::new("env").arg(program).output().expect("env");
        let output = run(&["--", program]);
        assert_eq!(
            output.status.code(),
            natively.status.code(),
            "{program}: {}",
            errors(&output)
        );
        assert!(errors(&output).contains(program), "{}", errors(&output));
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

/// Memory whose pages are being taken away is unmapped, and other memory comes to lie at its address at once: no page
/// of that is taken in its place, be it managed or a thread's stack.
#[test]
fn memory_that_takes_the_place_of_other_memory_keeps_its_content() {
    if !allowed() {
        return;
    }
    let program = std::env::temp_dir().join(format!("freehold-churn-{}", std::process::id()));
    let compiler = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/churn.c"))
        .status();
    if !compiler.is_ok_and(|status| status.success()) {
        println!("passed over: a C compiler is not there");
        return;
    }
    let path = program.to_string_lossy();
    let output = run(&["--reserve", "512KiB", "--", &path, "1000"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{}", errors(&output));
    std::fs::remove_file(&program).expect("the program");
}

#[test]
fn a_socket_may_be_named_from_where_the_command_is_run() {
    if !allowed() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("freehold-relative-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_freehold"));
    serve.args(["serve", "--socket", "here", "--pool", "64MiB", "--log-level", "error"]);
    let mut server = serve.current_dir(&folder).stderr(Stdio::null()).spawn().unwrap();
    while !folder.join("here").exists() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let script = "cd / && echo $(echo a | cat) && (cd /tmp; /bin/echo b)";
    let mut command = exec(&["--socket", "here", "--reserve", "24MiB", "--", "sh", "-c", script]);
    let output = command.current_dir(&folder).stdin(Stdio::null()).output();
    server.kill().unwrap();
    server.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nb\n", "{}", errors(&output));
}

#[test]
fn who_sees_the_program_end_and_ends_too_is_not_killed() {
    if !allowed() {
        return;
    }
    // The reader's input ends with the program.
    let script = "mkfifo fifo; (read line; read line; echo ended > seen) < fifo & exec 3> fifo; echo one >&3";
    let seen = |attempt: u32| {
        let folder = std::env::temp_dir().join(format!("freehold-others-{}-{attempt}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let output = exec(&["--reserve", "16MiB", "--", "sh", "-c", script])
            .current_dir(&folder)
            .output()
            .expect("the command");
        let seen = std::fs::read_to_string(folder.join("seen")).unwrap_or_default();
        std::fs::remove_dir_all(&folder).expect("its folder");
        (seen == "ended\n", errors(&output))
    };
    // It has half a second, in which a machine may stop.
    let attempts: Vec<_> = (0..3).map(seen).collect();
    assert!(attempts.iter().any(|(seen, _)| *seen), "{attempts:?}");
}

/// As for `nohup`, a shell's commands in the background, a service: what is ignored stays ignored.
#[test]
fn signals_that_the_caller_ignores_are_ignored_by_the_program() {
    if !allowed() {
        return;
    }
    // Numbers: HUP, INT, QUIT, PIPE, TERM, CHLD.
    let look = "grep SigIgn /proc/self/status";
    let script = |command: &str| format!("trap '' 1 2 3 13 15 17; {command}");
    let ignored = |command: &str| {
        let output = Command::new("bash")
            .args(["-c", &script(command)])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let digits = said.split_whitespace().last().unwrap_or_default();
        // Two are the C library's own, and posix_spawn sets them.
        u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{said} {}", errors(&output))) & !(3 << 31)
    };
    let native = ignored(look);
    assert_eq!(native & 0x1_5007, 0x1_5007, "{native:x}");
    let own = env!("CARGO_BIN_EXE_freehold");
    for options in ["--reserve 16MiB", "--reserve 16MiB --keep-going"] {
        assert_eq!(
            ignored(&format!("'{own}' exec {options} -- {look}")),
            native,
            "{options}"
        );
    }
}

/// Its own server is a process like others: the kernel may end it where memory is short. The program ends at once,
/// while it begins another one.
#[test]
fn a_command_whose_own_server_is_killed_says_so_and_ends() {
    if !allowed() {
        return;
    }
    let others = "$(cat /proc/$PPID/task/*/children)";
    let script = format!("for child in {others}; do [ $child = $$ ] || kill -9 $child; done; sleep 1");
    for _ in 0..5 {
        let output = run(&["--reserve", "16MiB", "--", "sh", "-c", &script]);
        let errors = errors(&output);
        assert!(!output.status.success(), "{errors}");
        assert!(
            errors.contains("the memory server of this command was ended (signal: 9"),
            "{errors}"
        );
    }
}
