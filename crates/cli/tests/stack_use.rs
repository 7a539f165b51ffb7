//! What the agent does on the threads of a program needs little of their stacks: a program fills one, makes each call
//! that is the agent's business on it, and tells how deep that went.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{compiled, freehold, stderr, stdout};

/// Bytes that a call may use beyond what it uses without the agent.
const MOST: u64 = 1024;

/// The greatest depth of each call.
fn depths(mut command: Command) -> BTreeMap<String, u64> {
    // The dynamic linker looks functions up on the stack of their first caller, which would hide everything else.
    let output = command.env("LD_BIND_NOW", "1").output().expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut depths = BTreeMap::new();
    for line in stdout(&output).lines() {
        let (name, depth) = line.rsplit_once(' ').expect("a name and a number");
        let deepest = depths.entry(name.to_owned()).or_insert(0);
        *deepest = depth.parse::<u64>().expect("a number").max(*deepest);
    }
    depths
}

fn managed(program: &Path, reserve: &str) -> Command {
    let mut command = freehold(&["exec", "--reserve", reserve, "--"]);
    command.arg(program);
    command
}

#[test]
fn hooks_and_fork_handlers_use_little_of_the_program_s_stack() {
    let probe = freehold(&["exec", "--reserve", "16MiB", "--", "true"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        println!("not tested: {}", stderr(&probe));
        return;
    }
    let Some(program) = compiled("depth") else { return };
    let native = depths(Command::new(&program));
    assert!(native.len() >= 15, "{native:?}");
    for reserve in ["64MiB", "8MiB", "4MiB"] {
        let managed = depths(managed(&program, reserve));
        println!("{managed:?}");
        assert!(native.keys().eq(managed.keys()), "{managed:?}");
        for (name, depth) in managed {
            assert!(
                depth <= native[&name] + MOST,
                "{name}: {depth} bytes, {} natively",
                native[&name]
            );
        }
    }
}
