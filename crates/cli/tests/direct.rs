//! Input and output straight from and to managed memory (O_DIRECT, io_uring with registered buffers, vmsplice) while
//! eviction goes on, with half and a quarter of the memory: the bytes are the same as without a server.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Reservations: half and a quarter of the 16 MiB that the program has.
const RESERVES: [&str; 2] = ["8MiB", "4MiB"];
/// Of each of them.
const RUNS: usize = 2;

/// What it said, and what it left in its file.
fn run(command: &mut Command, file: &Path) -> (Output, Vec<u8>) {
    let output = command.arg(file).stdin(Stdio::null()).output().expect("it starts");
    let left = std::fs::read(file).expect("its file");
    std::fs::remove_file(file).expect("its file");
    (output, left)
}

fn compare(server: &Server, folder: &Path, program: &Path) {
    let file = folder.join("file");
    let (native, bytes) = run(&mut Command::new(program), &file);
    let said = common::stdout(&native);
    print!("{said}");
    assert!(native.status.success(), "{said}");
    assert!(
        bytes.len() == 4 << 20 || said.contains("not tested: no direct"),
        "{}",
        bytes.len()
    );
    for reserve in RESERVES.repeat(RUNS) {
        let mut command = common::freehold(&["exec", "--reserve", reserve, "--socket"]);
        command.arg(&server.socket).arg("--").arg(program);
        let (managed, left) = run(&mut command, &file);
        let both = format!("{reserve}: {}{}", common::stdout(&managed), common::stderr(&managed));
        assert!(managed.status.success(), "{:?} {both}", managed.status);
        assert_eq!(common::stdout(&managed), said, "{both}");
        assert!(left == bytes, "{reserve}: the file is another");
    }
    let status = server.observe().must_be_served();
    let written = status["store"]["writes"].as_u64();
    assert!(
        written.is_some_and(|written| written > 1_000),
        "nothing was evicted: {}",
        status["store"]
    );
}

#[test]
fn direct_input_and_output_is_byte_for_byte_the_same_while_pages_are_evicted() {
    let server = Server::start(&["--log-level", "warn", "--pool", "64MiB"]);
    let probe = common::freehold(&["exec", "--reserve", "16MiB", "--socket"])
        .arg(&server.socket)
        .args(["--", "true"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        println!("not tested: {}", common::stderr(&probe));
        return;
    }
    // Beside the tests' programs, where direct input and output is as likely as anywhere.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("direct-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    if let Some(program) = common::compiled("direct") {
        compare(&server, &folder, &program);
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}
