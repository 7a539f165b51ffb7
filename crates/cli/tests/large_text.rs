//! Text that is larger than what one step of the server looks through is let go while its program goes on faulting.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{compiled, freehold};
use serde_json::Value;

/// Files that come and go.
const TIMES: u64 = 4;
/// Steps for each of them: there are 64 pages to be read, and 65,536 to be looked through, twice, 8,192 in a step.
const STEPS: u64 = 2_000;

fn steps(server: &server::Server) -> u64 {
    let output = server.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).expect("a document");
    status["steps_ns"]["count"].as_u64().expect("a count")
}

#[test]
fn large_text_goes_in_few_steps_while_somebody_waits_for_it() {
    let Some(program) = compiled("large_text") else { return };
    let server = server::Server::start(&["--pool", "64MiB"]);
    let before = steps(&server);
    let mut command = freehold(&["exec", "--reserve", "16MiB", "--socket"]);
    let output = command
        .arg(&server.socket)
        .arg("--")
        .arg(program)
        .arg(TIMES.to_string())
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let steps = steps(&server) - before;
    assert!(steps <= TIMES * STEPS, "{steps} steps for {TIMES} files");
}
