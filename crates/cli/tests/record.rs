//! `freehold cache record`: a trace of what a command reads, which a replay takes, and the command's own end.

mod common;

use std::path::PathBuf;

use serde_json::Value;

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-record-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records a shell script; none where tracepoints cannot be read.
fn record(trace: &str, script: &str) -> Option<std::process::Output> {
    let output = common::run(&["cache", "record", "-o", trace, "--json", "--", "sh", "-c", script]);
    let said = common::stderr(&output);
    if said.contains("tracepoint") || said.contains("perf_event_open") {
        println!("NOT CHECKED: {said}");
        return None;
    }
    Some(output)
}

#[test]
fn what_children_read_is_recorded_and_replayed() {
    use std::os::unix::fs::MetadataExt;

    let folder = Folder::new("children");
    let (data, trace) = (folder.file("data"), folder.file("trace.csv.zst"));
    std::fs::write(&data, vec![7; 40 * 4096]).unwrap();
    let inode = std::fs::metadata(&data).unwrap().ino();
    // A child's child reads, long after the shell has begun it.
    let script = format!("(sh -c 'sleep 0.1; cat {data}' | wc -c); exit 7");
    let Some(output) = record(&trace, &script) else { return };
    assert_eq!(output.status.code(), Some(7), "{}", common::stderr(&output));
    assert!(
        common::stderr(&output).contains("163840"),
        "what it prints goes to standard error"
    );
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["lost"], 0);
    let text = zstd::decode_all(std::fs::File::open(&trace).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let rows: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(said["events"].as_u64(), Some(rows.len() as u64));
    let mut read = [false; 40];
    for row in &rows {
        let words: Vec<_> = row.split(',').collect();
        assert_eq!(words[1], "sh#1", "{row}");
        if words[2] == "R" && words[4] == inode.to_string() {
            let (page, count): (usize, usize) = (words[5].parse().unwrap(), words[6].parse().unwrap());
            (page..page + count)
                .filter(|page| *page < 40)
                .for_each(|page| read[page] = true);
        }
    }
    assert_eq!(read, [true; 40]);
    let times: Vec<u64> = rows
        .iter()
        .filter_map(|row| row.split(',').next()?.parse().ok())
        .collect();
    assert!(times.is_sorted());
    let replayed = common::run(&[
        "cache",
        "replay",
        &trace,
        "--page-cache",
        "1MiB",
        "--cache",
        "1MiB",
        "--json",
    ]);
    assert!(replayed.status.success(), "{}", common::stderr(&replayed));
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert!(replayed["accesses"].as_u64() >= Some(40), "{replayed}");
}

#[test]
fn strangers_are_not_recorded() {
    use std::os::unix::fs::MetadataExt;

    let folder = Folder::new("strangers");
    let (data, trace) = (folder.file("data"), folder.file("trace.csv"));
    std::fs::write(&data, vec![7; 4096]).unwrap();
    let inode = std::fs::metadata(&data).unwrap().ino();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::read(&data);
            }
        });
        let output = record(&trace, "sleep 0.2; true");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        output
    });
    let Some(output) = output else { return };
    assert_eq!(output.status.code(), Some(0));
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.lines().count() > 1);
    assert!(
        text.lines()
            .all(|row| row.split(',').nth(4) != Some(&inode.to_string()))
    );
}

#[test]
fn a_command_that_does_not_run_ends_as_in_a_shell() {
    let folder = Folder::new("absent");
    let trace = folder.file("trace.csv");
    let output = common::run(&["cache", "record", "-o", &trace, "--", "/nowhere/at/all"]);
    if common::stderr(&output).contains("tracepoint") {
        println!("NOT CHECKED: {}", common::stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(127));
    assert!(common::stderr(&output).contains("/nowhere/at/all"));
    let output = common::run(&["cache", "record", "-o", "/nowhere/trace", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", common::stderr(&output));
}
