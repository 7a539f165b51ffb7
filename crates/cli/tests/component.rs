//! Compositions: an HTTP service of components under load, of which one is killed; and what is refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn freehold() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freehold"))
}

/// A folder with the example's objects and its composition; removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-component-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/components");
        let made = Command::new("make")
            .arg("-C")
            .arg(&example)
            .arg(format!("OUT={}", folder.display()))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::copy(example.join("http.toml"), folder.join("http.toml")).unwrap();
        Self(folder)
    }

    fn start(&self, port: u16, options: &[&str]) -> Child {
        let mut command = freehold();
        command
            .args(["component", "run", "--json"])
            .arg(self.0.join("http.toml"))
            .args(options);
        // Compositions that run are found in a folder below this one.
        command
            .env("TMPDIR", &self.0)
            .env("FREEHOLD_HTTP_PORT", port.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until `ps` says so: a service may answer before its manager has told of it.
    fn until_shown(&self, what: &str) {
        let began = Instant::now();
        while !String::from_utf8(self.ask(&["ps"]).stdout).unwrap().contains(what) {
            assert!(began.elapsed() < PATIENCE, "`{what}` is not shown");
        }
    }

    fn ask(&self, options: &[&str]) -> Output {
        freehold()
            .arg("component")
            .args(options)
            .env("TMPDIR", &self.0)
            .output()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The answer to one request; nothing where nobody listens.
fn get(port: u16, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    connection
        .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn is_served(answer: Option<&String>) -> bool {
    answer
        .is_some_and(|answer| answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("\r\n\r\nserved by components\n"))
}

fn until_served(port: u16) {
    let began = Instant::now();
    while !is_served(get(port, "/").as_ref()) {
        assert!(began.elapsed() < PATIENCE, "the service does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: Child) -> serde_json::Value {
    let process = child.id();
    assert!(
        Command::new("kill")
            .args(["-INT", &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows<'a>(document: &'a serde_json::Value, name: &str) -> Vec<&'a serde_json::Value> {
    let all = document["components"].as_array().unwrap();
    all.iter().filter(|row| row["name"] == name).collect()
}

#[test]
fn a_service_goes_on_when_a_component_is_killed() {
    let folder = Folder::new("killed");
    let port = free_port();
    let child = folder.start(port, &[]);
    until_served(port);
    for _ in 0..100 {
        assert!(is_served(get(port, "/").as_ref()));
    }
    assert!(get(port, "/nothing").unwrap().starts_with("HTTP/1.0 404 "));
    for name in ["http ", "files ", "log "] {
        folder.until_shown(name);
    }
    assert!(folder.ask(&["kill", "files"]).status.success());
    // Whatever comes meanwhile is answered; nobody waits for ever.
    folder.until_shown("restarts 1");
    until_served(port);
    for _ in 0..100 {
        assert!(is_served(get(port, "/").as_ref()));
    }
    let document = end(child);
    assert_eq!(
        rows(&document, "files")
            .iter()
            .map(|row| row["restarts"].as_u64())
            .max(),
        Some(Some(1))
    );
    assert_eq!(rows(&document, "http")[0]["restarts"], 0);
    let thread = &document["threads"][0];
    assert!(thread["jobs"].as_u64() > Some(0) && thread["failed"] == 0);
    let memory = &document["transient"];
    assert!(
        memory["resident_measured"].as_u64() <= memory["granted"].as_u64(),
        "{memory}"
    );
    assert!(memory["peak"].as_u64() <= memory["limit"].as_u64());
    assert_eq!(String::from_utf8(folder.ask(&["ps"]).stdout).unwrap(), "");
}

#[test]
fn the_same_objects_run_in_one_address_space_under_each_policy() {
    let folder = Folder::new("shared");
    for policy in ["tmem", "min", "static", "fair", "greedy"] {
        let port = free_port();
        let child = folder.start(port, &["--space", "shared", "--policy", policy]);
        until_served(port);
        let document = end(child);
        assert_eq!(
            (&document["space"], &document["policy_name"]),
            (&"shared".into(), &policy.into())
        );
        assert!(document["transient"]["granted"].as_u64() <= document["transient"]["limit"].as_u64());
    }
}

#[test]
fn a_circle_of_calls_and_unknown_names_are_refused() {
    let folder = Folder::new("refused");
    let file = folder.0.join("http.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("contexts = 2\n", "calls = [\"http\"]\n")).unwrap();
    let output = folder.start(0, &[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could wait for itself"));
    assert_eq!(folder.ask(&["kill", "nobody"]).status.code(), Some(1));
}
