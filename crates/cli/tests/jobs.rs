//! `freehold exec --report-jobs`: the jobs of programs that know nothing of it.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{compiled, freehold};
use freehold_linux::ThreadId;
use freehold_linux::sched::{Policy, policy};
use serde_json::Value;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-jobs-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("what the test needs");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("what the test needs").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether programs can be managed, in the deadline class, with their switches recorded; what is missing is said.
fn allowed(folder: &Folder) -> bool {
    let report = folder.file("probe");
    let options = [
        "--reserve",
        "16MiB",
        "--period",
        "40ms",
        "--budget",
        "20ms",
        "--report-jobs",
        &report,
    ];
    let output = freehold(&["exec"])
        .args(options)
        .args(["--", "sleep", "0.2"])
        .output()
        .expect("what the test needs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let possible = output.status.success() && !errors.contains("polled");
    if !possible {
        println!("NOT CHECKED: {errors}");
    }
    possible
}

fn lines(report: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(report).expect("what the test needs");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("what the test needs"))
        .collect()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// Laws of every row.
fn check(rows: &[Value], period: u64) {
    let mut last = 0;
    for row in rows {
        let release = number(row, "release_ns");
        assert!(release > last, "{row}");
        let waits = number(row, "cpu_wait_ns") + number(row, "fault_wait_ns") + number(row, "call_wait_ns");
        let parts = number(row, "cpu_ns") + waits;
        if let Some(finish) = row["finish_ns"].as_u64() {
            assert_eq!(finish - release, parts, "{row}");
            assert_eq!(row["late"].as_bool(), Some(finish - release > period), "{row}");
            last = finish;
        }
    }
}

/// What a run of the periodic program has told.
struct Told {
    policy: Policy,
    late_wakeups: u64,
    /// Whether the records begin so early that the thread was seen to block before the first period.
    whole: bool,
    cpu: u64,
    lines: Vec<Value>,
    rows: Vec<Value>,
}

impl Told {
    /// Whether the program was let run when it was to, and seen from the beginning; else it is said.
    fn is_in_time(&self) -> bool {
        let in_time = self.late_wakeups == 0 && self.whole;
        if !in_time {
            println!(
                "NOT CHECKED: wake-ups or the first records came late: {}",
                self.lines[0]
            );
        }
        in_time
    }

    /// The same, and whether waits in system calls are told from the ends of jobs.
    fn tells_calls(&self) -> bool {
        let missing = &self.lines[0]["missing"];
        if !missing.is_null() {
            println!("NOT CHECKED: {missing}");
        }
        self.is_in_time() && missing.is_null()
    }
}

/// Two numbers of a line.
fn pair(line: &str) -> (u64, u64) {
    let (first, second) = line.split_once(' ').expect("what the test needs");
    let number = |text: &str| text.parse().expect("what the test needs");
    (number(first), number(second))
}

/// Runs the periodic program, 40 ms each period; the rows are those of its loop.
fn run(folder: &Folder, program: &Path, reserve: &str, work: &[&str]) -> Told {
    let report = folder.file("report");
    let options = ["--period", "40ms", "--budget", "20ms", "--report-jobs", &report, "--"];
    let mut command = freehold(&["exec", "--reserve", reserve]);
    command.args(options).arg(program).arg("40").args(work);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("what the test needs");
    let mut output = BufReader::new(child.stdout.take().expect("what the test needs")).lines();
    let first = output.next().map(|line| pair(&line.expect("what the test needs")));
    let policy = first.map(|(process, _)| {
        let thread = i32::try_from(process).ok().and_then(ThreadId::from_raw);
        policy(thread.expect("what the test needs"))
    });
    let second = output.next().map(|line| pair(&line.expect("what the test needs")));
    let ended = child.wait_with_output().expect("what the test needs");
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    let (Some((process, begin)), Some((late_wakeups, cpu)), true) = (first, second, ended.status.success()) else {
        panic!("{:?}: {first:?} {second:?} {errors}", ended.status);
    };
    assert!(errors.contains("(main) has the deadline class"), "{errors}");
    assert!(errors.contains(" jobs, "), "{errors}");
    let lines = lines(&report);
    assert_eq!(number(&lines[0], "thread"), process);
    assert_eq!(lines[0]["class"], "deadline");
    let finished = |row: &&Value| !row["finish_ns"].is_null();
    let of_loop = |row: &&Value| row["release_ns"].as_u64().is_some_and(|release| release >= begin);
    let rows: Vec<Value> = lines.iter().filter(of_loop).filter(finished).cloned().collect();
    check(&rows, 40_000_000);
    Told {
        policy: policy.expect("there is a first line").expect("what the test needs"),
        late_wakeups,
        whole: number(&lines[0], "records_from_ns") + 2 * 40_000_000 < begin,
        cpu,
        lines,
        rows,
    }
}

#[test]
fn every_job_of_a_periodic_program_is_one_row() {
    let folder = Folder::new("periodic");
    let (true, Some(program)) = (allowed(&folder), compiled("periodic")) else {
        return;
    };
    let told = run(&folder, &program, "8MiB", &["30", "0", "10"]);
    let Policy::Deadline(class) = told.policy else {
        panic!("{:?}", told.policy);
    };
    assert_eq!(
        (class.period, class.runtime),
        (Duration::from_millis(40), Duration::from_millis(20))
    );
    if !told.is_in_time() {
        return;
    }
    assert_eq!(told.rows.len(), 30);
    // Two and a half periods of computing, at half of a CPU.
    for at in [9, 19, 29] {
        assert_eq!(told.rows[at]["late"], true, "{}", told.rows[at]);
        assert!(number(&told.rows[at], "periods") >= 3);
        // The clocks of the scheduler and of the records run apart by less than a hundredth.
        assert!(number(&told.rows[at], "cpu_ns") >= 99_000_000);
    }
    let cpu: u64 = told.rows.iter().map(|row| number(row, "cpu_ns")).sum();
    assert!(cpu >= told.cpu / 100 * 99, "{cpu} of {}", told.cpu);
    let last = told.lines.last().expect("what the test needs");
    assert_eq!(number(last, "jobs"), told.lines.len() as u64 - 2);
    assert_eq!(number(last, "lost_records"), 0);
    assert!(number(last, "response_max_ns") >= number(last, "response_p50_ns"));
}

/// These jobs waited in system calls, and none ended there: nothing was left to do after their ends. (The thread's own
/// clock is no measure: it counts the way in and out of each wait too, a tenth of so short a job.)
fn check_ends(rows: &[Value]) {
    let sum = |key: &str| rows.iter().map(|row| number(row, key)).sum::<u64>();
    assert!(sum("call_wait_ns") > 0, "no call waited: {rows:?}");
    assert!(sum("cpu_after_ns") < sum("cpu_ns") / 100, "{rows:?}");
}

#[test]
fn unmapping_memory_in_the_middle_ends_no_job() {
    let folder = Folder::new("unmaps");
    let (true, Some(program)) = (allowed(&folder), compiled("periodic")) else {
        return;
    };
    let told = run(&folder, &program, "16MiB", &["30", "8", "0", "unmap"]);
    if !told.tells_calls() {
        return;
    }
    assert_eq!(told.rows.len(), 30, "{:?}", told.lines);
    check_ends(&told.rows);
}

#[test]
fn mapping_memory_in_the_middle_ends_no_job() {
    let folder = Folder::new("maps");
    let (true, Some(program)) = (allowed(&folder), compiled("periodic")) else {
        return;
    };
    let told = run(&folder, &program, "16MiB", &["30", "0", "10", "map"]);
    if !told.tells_calls() {
        return;
    }
    // A long job that ended at an mmap would go on as another one in the next period.
    assert_eq!(told.rows.len(), 30, "{:?}", told.rows);
    check_ends(&told.rows);
    if let [_, rows @ .., last] = told.lines.as_slice() {
        let waited: u64 = rows.iter().map(|row| number(row, "call_wait_ns")).sum();
        assert_eq!(number(last, "call_wait_ns"), waited);
    }
    for at in [9, 19, 29] {
        assert_eq!(told.rows[at]["late"], true, "{}", told.rows[at]);
    }
}

#[test]
fn waiting_for_pages_ends_no_job_and_is_told_apart() {
    let folder = Folder::new("pages");
    let (true, Some(program)) = (allowed(&folder), compiled("periodic")) else {
        return;
    };
    let told = run(&folder, &program, "6MiB", &["10", "8", "0"]);
    let last = told.lines.last().expect("what the test needs");
    if number(last, "lost_records") > 0 {
        return println!("NOT CHECKED: some records were lost: {last}");
    }
    if !told.is_in_time() {
        return;
    }
    assert_eq!(told.rows.len(), 10);
    for row in &told.rows {
        assert!(
            number(row, "fault_waits") > 0 && number(row, "fault_wait_ns") > 0,
            "{row}"
        );
    }
    let pages: u64 = told.rows.iter().map(|row| number(row, "swap_ins")).sum();
    assert!(pages >= 10 * 512, "{pages}: less than what the reservation lacks");
}

#[test]
fn a_player_does_a_job_for_each_picture() {
    let folder = Folder::new("player");
    if !allowed(&folder) {
        return;
    }
    let (clip, report) = (folder.file("clip.avi"), folder.file("report"));
    let source = "testsrc=size=320x240:rate=30:duration=4";
    let made = Command::new("ffmpeg")
        .args([
            "-loglevel",
            "error",
            "-f",
            "lavfi",
            "-i",
            source,
            "-c:v",
            "mpeg4",
            &clip,
        ])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("NOT CHECKED: there is no ffmpeg");
        return;
    }
    let player = ["mplayer", "-really-quiet", "-nosound", "-vo", "null", &clip];
    let options = [
        "--period",
        "33333us",
        "--budget",
        "15ms",
        "--report-jobs",
        &report,
        "--",
    ];
    let mut command = freehold(&["exec", "--reserve", "64MiB"]);
    let output = command
        .args(options)
        .args(player)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.code() == Some(127) {
        println!("NOT CHECKED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let lines = lines(&report);
    let rows: Vec<Value> = lines
        .iter()
        .filter(|row| !row["finish_ns"].is_null())
        .cloned()
        .collect();
    check(&rows, 33_333_000);
    // 120 pictures in 4 s, besides what is done at the start; never more than one in a period.
    let jobs = rows.len();
    println!("{jobs} jobs: {}", lines.last().unwrap());
    assert!((60..=240).contains(&jobs), "{jobs} jobs");
}

#[test]
fn a_report_without_a_period_or_a_place_is_refused() {
    for (options, word) in [
        (&["--report-jobs", "/tmp/none"][..], "--period"),
        (
            &[
                "--period",
                "40ms",
                "--budget",
                "20ms",
                "--report-jobs",
                "/no/such/folder/file",
            ],
            "--report-jobs",
        ),
    ] {
        let output = freehold(&["exec", "--keep-going"])
            .args(options)
            .args(["--", "true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&output.stderr).contains(word));
    }
}
