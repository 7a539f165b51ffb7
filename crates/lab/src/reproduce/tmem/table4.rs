//! Table IV: an HTTP service of twelve component processes, one class of answers with a target, under four policies.
//! `wrk` is its client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freehold_scenario::results::ReproduceRow;
use serde_json::Value;

use super::failed;
use super::wrk::{Report, Script};
use crate::reproduce::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::exit_status::Failure;
use freehold_command::process::own_executable;

const FRONTS: u16 = 8;
/// Where their ports are looked for.
const PORTS: Range<u16> = 20_000..32_000;
/// How long a service runs before answers are counted, and after. Units have come and gone by then.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(4);
/// How often each policy is measured, by turns: what else the machine does is not one policy's.
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "tmem-table4",
    about: "an HTTP service of twelve component processes: response and memory for one class of answers, by policy",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

/// A policy with the paper's response in microseconds and units above the minimum.
const WAYS: [(&str, Option<u64>, Option<u64>); 4] = [
    ("static", Some(10), Some(140)),
    ("min", Some(39), Some(35)),
    ("max", Some(10), Some(48)),
    ("tmem", Some(13), Some(42)),
];

const SOURCES: [(&str, &str); 8] = [
    (
        "freehold_component.h",
        include_str!("../../../../tmem/include/freehold_component.h"),
    ),
    (
        "freehold_cbuf.h",
        include_str!("../../../../tmem/include/freehold_cbuf.h"),
    ),
    (
        "request.h",
        include_str!("../../../../../examples/components/request.h"),
    ),
    ("front.c", include_str!("../../../../../examples/components/front.c")),
    ("parse.c", include_str!("../../../../../examples/components/parse.c")),
    ("mime.c", include_str!("../../../../../examples/components/mime.c")),
    ("files.c", include_str!("../../../../../examples/components/files.c")),
    ("log.c", include_str!("../../../../../examples/components/log.c")),
];
const COMPOSITION: &str = include_str!("../../../../../examples/components/service.toml");
const TARGET: &str = "target = \"2ms\"";

/// What one policy gave.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Mean of the answers of the class with a target, in microseconds.
    response: u64,
    answers: u64,
    /// Requests that ended with an error, or with none.
    errors: u64,
    /// Pages above the minima, in the mean.
    above: u64,
    waits: u64,
}

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let folder = Folder::new()?;
    let clients = Script::new(&folder.0)?;
    let mut all: [Vec<Measured>; WAYS.len()] = Default::default();
    // As in the paper, what is slower than the mean with all memory is late.
    let mut target = Duration::from_millis(2);
    for _ in 0..ROUNDS {
        for ((policy, ..), rounds) in WAYS.iter().zip(&mut all) {
            let measured = measure(&folder.0, &clients, policy, target)?;
            if *policy == "static" {
                target = Duration::from_micros(measured.response.max(1));
            }
            rounds.push(measured);
        }
    }
    let middle = all.map(|rounds| Measured::middle(&rounds));
    let mut rows: Vec<_> = WAYS
        .iter()
        .zip(&middle)
        .flat_map(|(way, measured)| shown(*way, measured))
        .collect();
    let [of_static, _, _, tmem] = &middle;
    let percent = |part: u64, whole: u64| Some(100 * part / whole.max(1));
    let response = percent(tmem.response, of_static.response);
    let memory = percent(tmem.above, of_static.above);
    let what = "tmem: response as a part of static's";
    rows.push(row(what, "%", None, response, Claim::AtMost(130)));
    let what = "tmem: memory above the minima as a part of static's";
    rows.push(row(what, "%", None, memory, Claim::AtMost(33)));
    Ok(rows)
}

fn shown((policy, response, above): (&str, Option<u64>, Option<u64>), measured: &Measured) -> [ReproduceRow; 5] {
    let named = |what: &str| format!("{policy}: {what}");
    let shown = |what: &str, unit, paper, ours| row(named(what), unit, paper, Some(ours), Claim::Shown);
    let answers = Some(measured.answers);
    [
        shown("response", "us", response, measured.response),
        shown("pages above the minima, in the mean", "pages", above, measured.above),
        shown("waits for units", "waits", None, measured.waits),
        row(named("answers"), "answers", None, answers, Claim::AtLeast(1)),
        row(named("errors"), "answers", None, Some(measured.errors), Claim::Equal(0)),
    ]
}

impl Measured {
    /// The median of each number over the rounds, and all errors.
    fn middle(rounds: &[Self]) -> Self {
        let median = |of: fn(&Self) -> u64| {
            let mut values: Vec<u64> = rounds.iter().map(of).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        Self {
            response: median(|round| round.response),
            answers: median(|round| round.answers),
            errors: rounds.iter().map(|round| round.errors).sum(),
            above: median(|round| round.above),
            waits: median(|round| round.waits),
        }
    }
}

/// A folder with the service; removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let folder = Self(std::env::temp_dir().join(format!("freehold-table4-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).map_err(failed)?;
        for (name, text) in SOURCES {
            std::fs::write(folder.0.join(name), text).map_err(failed)?;
            let Some(object) = name.strip_suffix(".c") else {
                continue;
            };
            let made = Command::new("cc")
                .args([
                    "-std=gnu11",
                    "-O2",
                    "-I.",
                    "-shared",
                    "-fPIC",
                    "-o",
                    &format!("{object}.so"),
                    name,
                ])
                .current_dir(&folder.0)
                .status()
                .map_err(failed)?;
            if !made.success() {
                return Err(failed(format!("`{name}` does not compile")));
            }
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The service, ended with this.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(folder: &Path, clients: &Script, policy: &str, target: Duration) -> Result<Measured, Failure> {
    let text = COMPOSITION.replace(TARGET, &format!("target = \"{}us\"", target.as_micros()));
    std::fs::write(folder.join("service.toml"), text).map_err(failed)?;
    let port = free_ports()?;
    let mut service = Service(
        Command::new(own_executable()?)
            .args([
                "component",
                "run",
                "service.toml",
                "--json",
                "--trace",
                "trace",
                "--policy",
                policy,
                "--duration",
            ])
            .arg(format!("{}s", (WARM_UP + MEASURED).as_secs() + 1))
            .current_dir(folder)
            .env("TMPDIR", folder)
            .env("FREEHOLD_HTTP_PORT", port.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?,
    );
    until_served(port)?;
    let found = answers(clients, port)?;
    let mut document = String::new();
    if let Some(mut output) = service.0.stdout.take() {
        output.read_to_string(&mut document).map_err(failed)?;
    }
    let document: Value = serde_json::from_str(&document).map_err(failed)?;
    let rows = document["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    let waits = rows.iter().filter_map(|row| row["contended"].as_u64()).sum();
    let pages = |row: &Value| row["minimum"].as_u64().unwrap_or(0) * row["unit_pages"].as_u64().unwrap_or(0);
    let minima: u64 = rows.iter().map(pages).sum();
    Ok(Measured {
        response: found.mean_us,
        answers: found.answers,
        errors: found.refused + found.lost,
        above: mean_pages(&folder.join("trace"))?.saturating_sub(minima),
        waits,
    })
}

/// The mean of what units had in runs of the policy after the service was warm.
fn mean_pages(trace: &Path) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(trace).map_err(failed)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let warm = |line: &Value| {
        line["at_ns"]
            .as_u64()
            .is_some_and(|at| u128::from(at) > WARM_UP.as_nanos())
    };
    let pages: Vec<u64> = lines
        .filter(warm)
        .filter_map(|line| line["granted_pages"].as_u64())
        .collect();
    Ok(pages.iter().sum::<u64>() / (pages.len() as u64).max(1))
}

/// Clients of all fronts at the same time, from now on; what that of the first found after `WARM_UP`.
fn answers(clients: &Script, port: u16) -> Result<Report, Failure> {
    let whole = WARM_UP + MEASURED;
    let others: Result<Vec<_>, _> = (1..FRONTS).map(|other| clients.start(port + other, whole)).collect();
    clients.start(port, WARM_UP)?.report()?;
    let found = clients.start(port, MEASURED)?.report()?;
    drop(others?);
    Ok(found)
}

/// Whether a request is answered with a file.
fn request(port: u16) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.0 200 "))
}

fn until_served(port: u16) -> Result<(), Failure> {
    let began = Instant::now();
    while !(0..FRONTS).all(|front| request(port + front).unwrap_or(false)) {
        if began.elapsed() > PATIENCE {
            return Err(failed("the service does not answer"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The first of as many ports in a row that are free now, below those that the kernel gives to clients.
fn free_ports() -> Result<u16, Failure> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut firsts = (PORTS.start..PORTS.end).step_by(usize::from(FRONTS));
    firsts
        .find(|first| (*first..first + FRONTS).all(is_free))
        .ok_or_else(|| failed("no free ports"))
}
