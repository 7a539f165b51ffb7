//! `freehold pages` on living processes.

mod common;

use std::process::{Child, Command, Stdio};

use common::{document, run, status, stderr, stdout};
use serde_json::Value;

/// A process that waits until it is ended.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut waiting = Self(command.spawn().expect("cat starts"));
        // It has started when it answers: before, it may be a copy of this process still.
        let (stdin, stdout) = (waiting.0.stdin.as_mut(), waiting.0.stdout.as_mut());
        std::io::Write::write_all(stdin.expect("a pipe"), b"x").expect("it reads");
        let mut answer = [0];
        std::io::Read::read_exact(stdout.expect("a pipe"), &mut answer).expect("it answers");
        waiting
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a count: {value}"))
}

fn shared_code(document: &Value) -> u64 {
    number(&document["processes"][0]["shared"]["code"])
}

#[test]
fn counts_add_up_and_a_second_instance_shares() {
    let first = Waiting::start();
    let second = Waiting::start();
    let output = run(&["pages", &first.pid(), &second.pid(), "--objects", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let both = document(&output);
    for process in both["processes"].as_array().expect("processes") {
        let kinds = |kind: &str| {
            let (code, data) = (number(&process[kind]["code"]), number(&process[kind]["data"]));
            assert_eq!(number(&process[kind]["total"]), code + data);
            code + data
        };
        let (private, shared) = (kinds("private"), kinds("shared"));
        assert_eq!(number(&process["total"]), private + shared);
        assert!(private > 0 && shared > 0, "{process}");
        let objects = process["objects"].as_array().expect("objects");
        let sum = |kind: &str| objects.iter().map(|object| number(&object[kind]["total"])).sum::<u64>();
        assert_eq!((sum("private"), sum("shared")), (private, shared));
        assert_eq!(number(&process["registered"]), 0);
    }
    // Nobody but the two runs this program, so its own code is shared with two and private with one.
    let code = |document: &Value| {
        let objects = document["processes"][0]["objects"].as_array().expect("objects");
        let own = objects
            .iter()
            .find(|object| object["name"].as_str().is_some_and(|name| name.ends_with("/cat")));
        number(&own.expect("its own file")["shared"]["code"])
    };
    assert!(code(&both) > 0 && shared_code(&both) >= code(&both), "{both}");
}

#[test]
fn the_page_shows_what_the_document_says() {
    let process = Waiting::start();
    let output = run(&["pages", &process.pid()]);
    assert_eq!(status(&output), 0);
    let text = stdout(&output);
    assert!(
        text.contains("shared/total %") && text.contains(&process.pid()),
        "{text}"
    );
    assert!(text.contains("Counted f"), "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_named_and_the_rest_is_shown() {
    let process = Waiting::start();
    let absent = u32::MAX.to_string();
    let output = run(&["pages", &absent, &process.pid(), "--json"]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains(&format!("there is no process {absent}")));
    let document = document(&output);
    assert_eq!(document["processes"].as_array().map(Vec::len), Some(1));
    assert_eq!(number(&document["refused"][0]["pid"]), u64::from(u32::MAX));
    for arguments in [
        &["pages"][..],
        &["pages", "nobody"],
        &["pages", "1", "--aside", &absent],
    ] {
        assert_eq!(status(&run(arguments)), 2, "{arguments:?}");
    }
}
