//! `freehold exec`: an ordinary program under a memory server.

mod pinning;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use freehold_client::{ConnectError, Observer, Options, PinningSettings, ReservationKind};
use freehold_core::units::FrameCount;
use freehold_scenario::{parse_size, parse_time};

use freehold_command::exec::deadline::Class;
use freehold_command::exec::own_server::{self, OwnServer};
use freehold_command::exec::setting::Setting;
use freehold_command::exec::{agent, program};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::options;
use freehold_command::output;

/// What it does, for people.
pub(crate) const ABOUT: &str = "Run a program under a memory server, which it knows nothing of";

/// Options of `freehold exec`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Memory that the program and its children have for themselves; without, they share the pool's with others
    #[arg(long, value_name = "SIZE", value_parser = parse_frames)]
    reserve: Option<FrameCount>,
    /// What happens when it is exhausted
    #[arg(long = "type", value_enum, default_value_t = Kind::Hard, requires = "reserve")]
    kind: Kind,
    /// How often a job of the main thread is released
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "budget")]
    period: Option<Duration>,
    /// CPU time of a job of the main thread
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "period")]
    budget: Option<Duration>,
    /// Write down every job of the main thread: one JSON document a line
    #[arg(long, value_name = "FILE", requires = "period")]
    report_jobs: Option<PathBuf>,
    /// How the main thread of a periodic program is scheduled
    #[arg(long, value_enum, default_value_t = Class::Deadline, requires = "period")]
    class: Class,
    #[command(flatten)]
    pinning: pinning::Options,
    /// How text and read-only data that other reservations use too are managed
    #[arg(long, value_enum, default_value_t = Sharing::Spc)]
    sharing: Sharing,
    /// Keep the text of a library resident: the end of its path, as in libc.so.6
    #[arg(long, value_name = "SUFFIX", requires = "reserve")]
    lock: Vec<String>,
    /// How urgent the program's faults are; above 0 needs the right to be real-time
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    urgency: u8,
    /// Run on this CPU only
    #[arg(long, value_name = "CPU", conflicts_with = "period")]
    cpu: Option<usize>,
    /// The server's socket [default: $FREEHOLD_SOCKET, the user's own server, the system's, or one for this command]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Run the program without a memory server, to compare with: its class and the account of its jobs only
    #[arg(long, conflicts_with_all = ["reserve", "adaptive", "socket", "keep_going"])]
    unmanaged: bool,
    /// Run the program unmanaged where it cannot be managed, and say why
    #[arg(long)]
    keep_going: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// What a reservation does when its frames are exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Never more than its frames
    Hard,
    /// May borrow frames that nobody has reserved
    Firm,
}

/// How shared pages are managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sharing {
    /// Shared-Page Conservation
    Spc,
    /// The paper's No-SP-Mgmt, for comparison
    None,
}

/// Runs the subcommand; ends this process as the program ended.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let settings = pinning::settings(arguments)?;
    let command = program::Command::find(&arguments.command)?;
    let prepared = match command.manageable() {
        _ if arguments.unmanaged => Ok(None),
        Err(reason) => Err(Failure::Input(format!("{}: {reason}", command.shown()))),
        Ok(()) => prepare(arguments, &command, settings).map(Some),
    };
    let (setting, agent) = match prepared {
        Ok(Some((setting, agent))) => (Some(setting), Some(agent)),
        Ok(None) => (None, None),
        Err(failure) if arguments.keep_going => {
            output::note(&format!("freehold: {} runs unmanaged: {failure}", command.shown()));
            (None, None)
        }
        Err(failure) => return Err(failure),
    };
    let ended = run::run(arguments, &command, setting.as_ref().zip(agent.as_deref()));
    if let Some(setting) = setting {
        setting.end(arguments.reserve);
    }
    Ok(ended?.leave())
}

fn prepare(
    arguments: &Arguments,
    command: &program::Command,
    settings: Option<PinningSettings>,
) -> Result<(Setting, PathBuf), Failure> {
    let (agent, link) = agent::loadable(agent::find()?)?;
    program::rights()?;
    let (observer, socket, own) = connect(arguments)?;
    let kind = match arguments.kind {
        Kind::Hard => ReservationKind::Hard,
        Kind::Firm => ReservationKind::Firm,
    };
    let reserve = |frames: FrameCount| observer.reserve(&command.name(), frames.get(), kind);
    let reservation = arguments.reserve.map(reserve).transpose();
    let reservation = reservation.map_err(|error| Failure::Run(error.to_string()))?;
    let pool = settings.map(|settings| observer.open_pool(&command.name(), settings));
    let pool = pool
        .transpose()
        .map_err(|error| Failure::Run(format!("--adaptive: {error}")))?;
    let setting = Setting::new(command.name(), (observer, socket, own), (reservation, pool), link);
    Ok((setting, agent))
}

/// The server that answers, or one of this command's own.
fn connect(arguments: &Arguments) -> Result<(Observer, PathBuf, Option<OwnServer>), Failure> {
    let mut options = Options::named("freehold exec");
    let named = arguments.socket.clone().unwrap_or_else(freehold_client::default_socket);
    // The program and its children connect too, from wherever they are by then.
    let socket = std::path::absolute(&named).map_err(|error| Failure::Run(format!("{}: {error}", named.display())))?;
    options.socket = Some(socket.clone());
    match Observer::connect(&options) {
        Ok(observer) => return Ok((observer, socket, None)),
        Err(ConnectError::NoServer { .. }) if arguments.socket.is_none() => {}
        Err(error) => return Err(Failure::Run(error.to_string())),
    }
    if let Some(frames) = arguments.reserve {
        options::refuse_what_is_not_there("--reserve", own_server::pool_of(frames))?;
    }
    let own = OwnServer::start(arguments.reserve)?;
    options.socket = Some(own.socket());
    let observer = Observer::connect(&options).map_err(|error| Failure::Run(error.to_string()))?;
    Ok((observer, own.socket(), Some(own)))
}

fn parse_frames(text: &str) -> Result<FrameCount, String> {
    let size = parse_size(text)?;
    let frames = u32::try_from(size.get().div_ceil(4096)).map_err(|_| format!("`{text}` is too large"))?;
    if frames == 0 {
        return Err(format!("`{text}` is no memory at all"));
    }
    Ok(FrameCount::new(frames))
}

/// A time with its unit, as options give it.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    parse_time(text).map(|time| Duration::from_nanos(time.get()))
}
