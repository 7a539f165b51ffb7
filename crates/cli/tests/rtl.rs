//! `freehold rtl` as a user types it.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{document, status, stderr, stdout};

/// A directory of modules, removed in the end with what runs in it.
struct World(PathBuf);

impl World {
    /// None, and that said, where the process for modules is not built.
    fn new(name: &str) -> Option<Self> {
        if !Path::new(env!("CARGO_BIN_EXE_freehold"))
            .with_file_name("freehold-rtl")
            .is_file()
        {
            println!("not tested: freehold-rtl is absent: cargo build -p freehold-rtl");
            return None;
        }
        let path = PathBuf::from(format!("/dev/shm/freehold-cli-rtl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Some(Self(path))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = common::freehold(&["rtl"]);
        command.args(arguments).env("FREEHOLD_RTL_DIR", &self.0);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    fn compile(&self, example: &str) -> String {
        let object = self.0.join(format!("{example}.o")).display().to_string();
        let source = format!("examples/rtl/{example}.c");
        let output = self.run(&["cc", "-O2", "-c", &source, "-o", &object]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        object
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in ["hello", "parameters"] {
            let _ = self.run(&["rmmod", name, "--force"]);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_separate_program_runs_with_a_reservation_and_without() {
    let Some(world) = World::new("insmod") else { return };
    let object = world.compile("hello");
    for reserve in [&[][..], &["--reserve", "64MiB"]] {
        let output = world.run(&[&["insmod", &object, "--space", "separate"], reserve].concat());
        if stderr(&output).contains("refused") || stderr(&output).contains("cannot be locked") {
            println!("not tested: {}", stderr(&output));
            return;
        }
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let listed = document(&world.run(&["lsmod", "--json"]));
        assert_eq!(listed[0]["name"], "hello");
        assert_eq!(listed[0]["space"], "separate");
        let done = || stdout(&world.run(&["dmesg", "hello"])).ends_with("done\n");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !done() {
            assert!(
                std::time::Instant::now() < until,
                "{}",
                stdout(&world.run(&["dmesg", "hello"]))
            );
        }
        assert_eq!(stdout(&world.run(&["dmesg", "hello"])).lines().count(), 6);
        let output = world.run(&["rmmod", "hello"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert_eq!(document(&world.run(&["lsmod", "--json"])), serde_json::json!([]));
    }
}

#[test]
fn what_is_wrong_is_said_with_the_documented_status() {
    let Some(world) = World::new("wrong") else { return };
    let object = world.compile("parameters");
    let output = world.run(&["insmod", &object, "--space", "shared"]);
    assert_eq!(
        (status(&output), stderr(&output).contains("start freehold rtl host")),
        (1, true)
    );
    let output = world.run(&["insmod", &object, "--space", "shared", "--reserve", "8MiB"]);
    assert_eq!(
        (status(&output), stderr(&output).contains("--space separate")),
        (2, true)
    );
    let output = world.run(&["insmod", &object, "nobody=1", "--space", "separate"]);
    assert_eq!(
        (status(&output), stderr(&output).contains("no parameter nobody")),
        (2, true)
    );
    let output = world.run(&["rmmod", "nothing"]);
    assert_eq!(
        (status(&output), stderr(&output).contains("no module nothing")),
        (2, true)
    );
    let output = world.run(&["cc", "-c", "nowhere.c"]);
    assert_eq!(status(&output), 2);
}
