//! Live runs over every store, as the document tells of them.

mod common;

use common::{Scratch, document, run, status, stderr, stdout};
use serde_json::Value;

const SMALL: &str = r#"
name = "stores"
duration = "300ms"
memory.pool = "2MiB"
memory.swap.store = "memory"
[[region]]
name = "pages"
kind = "private"
size = "512KiB"
[[reservation]]
name = "r"
size = "256KiB"
[[task]]
name = "t"
reservation = "r"
class = "best-effort"
[[task.access]]
region = "pages"
pattern = "sequential"
amount = "512KiB"
write = true
"#;

fn live(scenario: &Scratch, set: &[&str], more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["run", "--engine", "live", scenario.path()];
    for set in set {
        arguments.extend(["--set", set]);
    }
    arguments.extend(more);
    run(&arguments)
}

fn number(store: &Value, key: &str) -> u64 {
    store[key].as_u64().unwrap_or_else(|| panic!("no {key} in {store}"))
}

#[test]
fn every_store_says_what_it_is_and_what_it_did() {
    let scenario = Scratch::new("stores", SMALL);
    for kind in ["memory", "compressed", "file"] {
        let output = live(&scenario, &[&format!("memory.swap.store={kind}")], &["--json"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let result = document(&output);
        let store = &result["store"];
        assert_eq!(store["kind"], kind);
        assert!(number(store, "reads") > 0 && number(store, "writes") > 0, "{store}");
        assert_eq!(number(store, "read_bytes"), number(store, "reads") * 4096);
        assert_eq!((number(store, "failed_reads"), number(store, "failed_writes")), (0, 0));
        let backend = store["backend"].as_str().expect("a backend");
        match kind {
            "file" => assert!(["io_uring", "threads"].contains(&backend), "{store}"),
            _ => assert_eq!(backend, "inline"),
        }
        // A file holds no frames of its own.
        assert_eq!(number(store, "own_frames") == 0, kind == "file", "{store}");
        assert_eq!(number(store, "stored_bytes") > 0, kind == "compressed", "{store}");
        let text = stdout(&live(&scenario, &[&format!("memory.swap.store={kind}")], &[]));
        // Only a file can be moved in more than one way.
        let by = if kind == "file" {
            format!(" by {backend}")
        } else {
            String::new()
        };
        let line = format!("\nstore {kind}{by}");
        let rest = text.split(&line).nth(1).unwrap_or_default();
        assert!(rest.starts_with([',', '\n']), "{text}");
    }
}

#[test]
fn a_store_that_is_too_small_fails_writes_and_says_so() {
    let scenario = Scratch::new("small-store", SMALL);
    let set = ["memory.swap.store=compressed", "memory.swap.capacity=4KiB"];
    let result = document(&live(&scenario, &set, &["--json"]));
    let store = &result["store"];
    assert!(number(store, "failed_writes") > 0, "{store}");
    assert_eq!(number(store, "own_frames"), 4);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("memory.swap: the store's capacity"), "{warnings}");
    assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()));
}

/// 192 pages, of which 128 are in frames, and a store that has room for 128.
#[test]
fn a_store_with_room_for_what_is_not_in_frames_is_large_enough() {
    let larger = SMALL.replace("512KiB", "768KiB").replace("256KiB", "512KiB");
    let scenario = Scratch::new("enough-store", &larger);
    let set = ["memory.swap.store=compressed", "memory.swap.capacity=32KiB"];
    for placement in ["embedded", "server"] {
        let result = document(&live(&scenario, &set, &["--json", "--placement", placement]));
        let store = &result["store"];
        assert_eq!(number(store, "failed_writes"), 0, "{store}");
        assert!(number(store, "writes") > 192, "{store}");
        assert_eq!(number(&result["tasks"][0], "failed_accesses"), 0, "{result}");
        assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_input_error() {
    let scenario = Scratch::new("no-directory", SMALL);
    let set = ["memory.swap.store=file", "memory.swap.directory=/nowhere/at/all"];
    let output = live(&scenario, &set, &["--json"]);
    assert_eq!(status(&output), 2);
    assert!(stdout(&output).is_empty());
    let error = stderr(&output);
    assert!(error.contains("memory.swap.directory = \"/nowhere/at/all\""), "{error}");
}
