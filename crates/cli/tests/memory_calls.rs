//! Calls about memory do under the memory server what they do without. `docs/book/src/memory-calls.md` says what is
//! done for each, and names its test.

mod common;
#[path = "common/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{compiled, compiled_at, freehold, root};

/// Sizes in which there is room for all that the program uses, for half and for a quarter of it.
const SIZES: [&str; 3] = ["32MiB", "4MiB", "2MiB"];

fn output(command: &mut Command) -> Vec<String> {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{errors}",
        output.status
    );
    text.lines().map(str::to_owned).collect()
}

/// The tests that the table names: the last column of each row.
fn named() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/book/src/memory-calls.md")).expect("the document");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let last = rows.filter_map(|row| row.trim_end_matches("` |").rsplit('`').next());
    let all: Vec<String> = last.map(str::to_owned).collect();
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), set.len(), "a test is named by two rows");
    set
}

#[test]
fn every_row_has_its_test_and_every_test_its_row() {
    let Some(program) = compiled("memory_calls") else {
        return;
    };
    let there: BTreeSet<String> = output(Command::new(program).arg("--list")).into_iter().collect();
    assert_eq!(
        named(),
        there,
        "docs/book/src/memory-calls.md, and tests/programs/memory_calls.c"
    );
}

#[test]
fn calls_do_what_they_do_natively() {
    let Some(program) = compiled("memory_calls") else {
        return;
    };
    let natively = output(&mut Command::new(&program));
    for line in natively.iter().filter(|line| line.ends_with(" none")) {
        println!("not tested, because this machine does not have it: {line}");
    }
    let run = |size: &str, program: &Path| output(freehold(&["exec", "--reserve", size, "--"]).arg(program));
    std::thread::scope(|scope| {
        let runs = SIZES.map(|size| (size, scope.spawn(|| run(size, &program))));
        for (size, thread) in runs {
            let lines = thread.join().expect("it ends well");
            assert_eq!(lines, natively, "in {size}");
        }
    });
}

/// Memory that grows is moved to where another thread's was a moment before, and the server has not been told yet. The
/// window opens where CPUs are busy: several programs at once.
#[test]
fn memory_that_two_threads_grow_and_move_is_whole() {
    const AT_ONCE: usize = 4;
    const TIMES: usize = 3;
    let Some(program) = compiled_at("crates/agent/tests/programs/remaps.c", "remaps") else {
        return;
    };
    let run = || {
        for _ in 0..TIMES {
            let lines = output(freehold(&["exec", "--reserve", "512KiB", "--"]).arg(&program));
            assert_eq!(lines, ["moved"]);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(run);
        }
    });
}

/// Memory that may not grow stays where it is, and never goes over what another thread has mapped meanwhile.
#[test]
fn locked_memory_that_may_not_grow_is_whole_and_so_is_what_others_map() {
    let Some(program) = compiled("refused_growth") else {
        return;
    };
    // A race: it is lost in five of eight runs where the memory is moved back after all.
    for _ in 0..4 {
        let lines = output(freehold(&["exec", "--reserve", "1MiB", "--"]).arg(&program));
        assert_eq!(lines, ["refused, and whole"]);
    }
}

/// What each thread knows of its own memory is so, whatever the others and their children do, and wherever the kernel
/// puts what they make: every seed is another order of calls.
#[test]
fn random_calls_of_threads_and_their_children_change_nothing_else() {
    const SEEDS: [u32; 4] = [3, 5, 7, 23];
    let Some(program) = compiled("random_calls") else {
        return;
    };
    random_calls(&program, &SEEDS, &["4", "160"]);
}

/// Children that are made by an instruction are clients when they make, move or lock memory.
#[test]
fn random_calls_of_children_made_past_the_c_library_change_nothing_else() {
    const SEEDS: [u32; 3] = [3, 7, 100_056];
    let Some(program) = compiled("random_calls") else {
        return;
    };
    random_calls(&program, &SEEDS, &["1", "400", "past"]);
}

/// Runs `random_calls` with several seeds at a time, each in three sizes, and with a store that takes its time: what
/// comes back from that one is clean, and is dropped when it leaves again.
fn random_calls(program: &Path, seeds: &[u32], words: &[&str]) {
    let slow = server::Server::start(&["--log-level", "warn", "--pool", "64MiB", "--store-latency", "20us"]);
    let run = |mut command: Command, seed: u32| {
        let lines = output(command.arg("--").arg(program).arg(seed.to_string()).args(words));
        assert_eq!(lines, ["as it must be"], "{command:?}");
    };
    let run_all = |seed: u32| {
        for size in ["4MiB", "1MiB", "256KiB"] {
            run(freehold(&["exec", "--reserve", size]), seed);
        }
        let mut command = freehold(&["exec", "--reserve", "1MiB", "--socket"]);
        command.arg(&slow.socket);
        run(command, seed);
    };
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(|| run_all(*seed));
        }
    });
}
