//! `freehold device`: opens devices whose memory caches file pages while they are closed.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::exec::parse_span;
use freehold_client::default_socket;
use freehold_client::device::{Device, DeviceError, DeviceRefusal, Lies};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_scenario::parse_size;
use serde::Serialize;

/// Where the program finds its device's memory objects: numbers of descriptors with commas between, in order of
/// address.
const DESCRIPTORS: &str = "FREEHOLD_DEVICE_DESCRIPTORS";

/// Options of `freehold device`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Open a device, say what it got, and keep it for a time, while a program runs, or until a signal
    Open(OpenArguments),
}

/// Options of `freehold device open`.
#[derive(Debug, clap::Args)]
struct OpenArguments {
    /// The device's name in the device file
    name: String,
    /// How much of its memory is used [default: all]
    #[arg(long = "use", value_name = "SIZE", value_parser = parse_pages)]
    used: Option<u32>,
    /// Keep it for so long
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "program")]
    hold: Option<Duration>,
    /// The socket of the server or mount [default: $FREEHOLD_SOCKET, the user's own server, or the system's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Run this program meanwhile, and end as it does
    #[arg(last = true)]
    program: Vec<String>,
}

/// What the opening gave.
#[derive(Debug, Serialize)]
struct Document<'a> {
    device: &'a str,
    pages: u32,
    used: u32,
    first: u32,
    contiguity: &'static str,
    pieces: u32,
    descriptors: u32,
    trusted: bool,
    zeroed_pages: u32,
    discarded: u32,
    wait_ns: u64,
    choose_ns: u64,
    zero_ns: u64,
    total_ns: u64,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let Action::Open(arguments) = &arguments.command;
    let socket = arguments.socket.clone().unwrap_or_else(default_socket);
    let device = Device::open(&socket, &arguments.name, arguments.used.unwrap_or(0)).map_err(failure)?;
    say(arguments, &device)?;
    let ended = if arguments.program.is_empty() {
        hold(arguments.hold);
        Ok(Status::Done)
    } else {
        run_program(arguments, &device)
    };
    // Whoever opens it after this command finds it closed. Where the server cannot be told it has ended.
    let _ = device.close();
    ended
}

fn hold(time: Option<Duration>) {
    match time {
        Some(time) => std::thread::sleep(time),
        // A signal ends this process, and the kernel closes what it has.
        None => loop {
            std::thread::park();
        },
    }
}

fn say(arguments: &OpenArguments, device: &Device) -> Result<(), Failure> {
    let (grant, opening) = (device.grant(), device.opening());
    let contiguity = match opening.lies {
        Lies::Physical => "physical",
        Lies::Pieces => "pieces",
        Lies::Unknown => "unknown",
    };
    if arguments.json {
        return output::print_json(&Document {
            device: &arguments.name,
            pages: opening.most,
            used: opening.used,
            first: grant.first,
            contiguity,
            pieces: opening.pieces,
            descriptors: grant.descriptors,
            trusted: opening.trusted,
            zeroed_pages: opening.zeroed,
            discarded: opening.discarded,
            wait_ns: opening.wait,
            choose_ns: opening.choose,
            zero_ns: opening.zero,
            total_ns: opening.total,
        });
    }
    let how = match (opening.lies, opening.pieces) {
        (Lies::Physical, _) => "in one piece".to_owned(),
        (Lies::Pieces, pieces) => format!("in {pieces} pieces"),
        (Lies::Unknown, _) => "how it lies is unknown".to_owned(),
    };
    output::print(&format!(
        "{}: {} of {} pages from page {} on, {how}, in {} us; {} cached pages went\n",
        arguments.name,
        opening.used,
        opening.most,
        grant.first,
        opening.total / 1000,
        opening.discarded
    ))
}

/// The program inherits the device's memory objects; the device is open until it ends.
fn run_program(arguments: &OpenArguments, device: &Device) -> Result<Status, Failure> {
    let cannot = |error: std::io::Error| Failure::Run(format!("{}: {error}", arguments.program[0]));
    let mut passed: Vec<OwnedFd> = Vec::new();
    for (fd, _) in device.descriptors() {
        let fd = rustix::io::dup(fd).map_err(|errno| cannot(errno.into()))?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).map_err(|errno| cannot(errno.into()))?;
        passed.push(fd);
    }
    let numbers: Vec<String> = passed.iter().map(|fd| fd.as_fd().as_raw_fd().to_string()).collect();
    let mut program = Command::new(&arguments.program[0]);
    program
        .args(&arguments.program[1..])
        .env(DESCRIPTORS, numbers.join(","));
    let ended = program.status().map_err(cannot)?;
    let status = ended.code().or_else(|| Some(128 + ended.signal()?));
    Ok(match u8::try_from(status.unwrap_or(1)) {
        Ok(0) => Status::Done,
        Ok(code) => Status::NotRun(code),
        Err(_) => Status::Failed,
    })
}

fn failure(error: DeviceError) -> Failure {
    match error {
        DeviceError::Refused {
            reason: DeviceRefusal::TooLarge,
            text,
        } => Failure::Run(format!("--use: {text}")),
        error => Failure::Run(error.to_string()),
    }
}

fn parse_pages(text: &str) -> Result<u32, String> {
    let pages = parse_size(text)?.to_pages().map(|pages| pages.get());
    match pages {
        Some(0) => Err("at least one page is used: leave it out for all".to_owned()),
        Some(pages) => Ok(pages),
        None => Err("more than 16 TiB".to_owned()),
    }
}
