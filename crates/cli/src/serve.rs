//! `freehold serve`: the memory server in the foreground, until SIGTERM or SIGINT.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use freehold_core::ReadAhead;
use freehold_core::units::FrameCount;
use freehold_linux::available::{memory_available, memory_available_at_rest};
use freehold_scenario::DeviceFile;
use freehold_scenario::parse_size;
use freehold_server::log::{self, Format};
use freehold_server::serve::{self, Ends, Options, Owner, ServeError, SocketError};
use freehold_server::{Limits, Quotas, Reaction, Settings, StoreMedium, Unresponsive};
use rustix::fd::OwnedFd;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::options::{PAGE, read_ahead, refuse_what_is_not_there};

use crate::exec::parse_span;

/// What the help says of it.
pub(crate) const ABOUT: &str = "Serve memory to other processes, until SIGTERM";

/// Frames that the smallest pool has.
const LEAST: u32 = 64;

/// Options of `freehold serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen [default: $FREEHOLD_SOCKET, /run/freehold/socket for root, else freehold.sock in
    /// $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Who may connect, as the mode of the socket [default: 0666 with --allow or --quota, else 0600]
    #[arg(long, value_name = "OCTAL", value_parser = parse_mode)]
    socket_mode: Option<u32>,
    /// Memory of the pool [default: half of what is available now]
    #[arg(long, value_name = "SIZE", value_parser = parse_frames)]
    pool: Option<FrameCount>,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    quotas: QuotaArguments,
    /// What becomes of a client that does not answer while somebody waits for it, and after how long
    #[arg(long, value_name = "kill|freeze[:TIME]", default_value = "kill:1s", value_parser = parse_unresponsive)]
    unresponsive: Unresponsive,
    /// SCHED_FIFO priority of the pager threads
    #[arg(long, value_name = "1-99", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=99))]
    priority: u32,
    /// CPUs that get a pager thread [default: all that the process may use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Set memory aside for the devices of this file, where file pages are cached while they are closed
    #[arg(long, value_name = "FILE")]
    devices: Option<PathBuf>,
    /// How log lines on standard error look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
    /// How much is logged
    #[arg(long, value_enum, default_value_t = Level::Info)]
    log_level: Level,
    /// Answer GET /metrics over HTTP here, as in 127.0.0.1:9464; whoever reaches it sees everything
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Let --metrics-listen be an address that other machines reach
    #[arg(long, requires = "metrics_listen")]
    metrics_public: bool,
    #[command(flatten)]
    own: OwnArguments,
}

/// Who may reserve how much.
#[derive(Debug, clap::Args)]
struct QuotaArguments {
    /// What a user may reserve, who may then also be real-time (urgency above 0): a number or a name, as in 1000=64MiB
    #[arg(long, value_name = "USER=SIZE", value_parser = parse_allowance)]
    allow: Vec<(u32, FrameCount)>,
    /// What every other user may reserve; root and the server's own user may reserve everything [default: nothing]
    #[arg(long, value_name = "SIZE", value_parser = parse_frames)]
    quota: Option<FrameCount>,
    /// What all users but root and the server's own may reserve together [default: three quarters of the pool, or the
    /// largest --allow if that is more]
    #[arg(long, value_name = "SIZE", value_parser = parse_frames)]
    quota_total: Option<FrameCount>,
}

/// Of a server that a command starts for itself.
#[derive(Debug, clap::Args)]
struct OwnArguments {
    /// Listen at `socket` in this folder, and remove it at the end: with the last client, when standard input has ended
    #[arg(long, hide = true, value_name = "FOLDER", conflicts_with = "socket")]
    own_folder: Option<PathBuf>,
    /// Only one program and its children will come: what its reservation reads back in the order of addresses comes
    /// with what follows, which law 0 forbids where several share the pool
    #[arg(long, hide = true, requires = "own_folder")]
    one_program: bool,
}

/// Where evicted pages go.
#[derive(Debug, clap::Args)]
struct StoreArguments {
    /// Where evicted pages go
    #[arg(long, value_enum, default_value_t = StoreKind::Memory)]
    store: StoreKind,
    /// memory: how long a transfer takes
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = parse_span)]
    store_latency: Duration,
    /// memory, file: transfers at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    store_parallel: u16,
    /// Pages that tasks without a reservation read back together, a power of two up to 64: those around the one that
    /// is wanted
    #[arg(long, value_name = "PAGES", default_value = "1", value_parser = read_ahead)]
    read_ahead: ReadAhead,
    /// compressed: the memory it may take [default: half of the pool's size]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    store_size: Option<u64>,
    /// file: the directory of the file [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    store_directory: Option<PathBuf>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    /// Locked memory, outside the pool
    Memory,
    /// Locked memory, compressed
    Compressed,
    /// A nameless file
    File,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    /// What fails
    Error,
    /// And what is refused or missing
    Warn,
    /// And who comes and goes
    Info,
    /// And who looks
    Debug,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let folder = arguments.own.own_folder.as_deref();
    let limits = serve::raise_limits(folder.is_some());
    let options = options(arguments)?;
    let format = match arguments.log {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let level = match arguments.log_level {
        Level::Error => log::Level::ERROR,
        Level::Warn => log::Level::WARN,
        Level::Info => log::Level::INFO,
        Level::Debug => log::Level::DEBUG,
    };
    log::start(format, level).map_err(|error| Failure::Run(format!("cannot log: {error}")))?;
    let stop = stop_signal()?;
    let failed = |error: &dyn std::fmt::Display| match limits.as_slice() {
        [] => Failure::Run(error.to_string()),
        limits => Failure::Run(format!("{error}; it may not raise {}", limits.join(", "))),
    };
    match with_room(|| serve_until(folder, &options, &stop)).map_err(|error| failed(&error))? {
        Ok(()) => Ok(Status::Done),
        Err(
            error @ ServeError::Socket(
                SocketError::TooLong(_) | SocketError::NotASocket(_) | SocketError::Squatted { .. },
            ),
        ) => Err(Failure::Input(error.to_string())),
        Err(error) => Err(failed(&error)),
    }
}

/// Runs `serve` in a thread of its own: the first one has as much stack as its user allows programs (`ulimit -s`).
fn with_room<T: Send>(serve: impl FnOnce() -> T + Send) -> Result<T, String> {
    const STACK: usize = 2 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, serve);
        let thread = thread.map_err(|error| format!("the server's thread cannot be started: {error}"))?;
        thread.join().map_err(|_| "the server's thread has ended".to_owned())
    })
}

/// Serves until the stop, or with the owner of the folder, if any, and its last client.
fn serve_until(folder: Option<&Path>, options: &Options, stop: &OwnedFd) -> Result<(), ServeError> {
    let Some(folder) = folder else {
        return serve::serve(options, stop);
    };
    let pipe = std::io::stdin().as_fd().try_clone_to_owned()?;
    let owner = Some(Owner {
        process: std::os::unix::process::parent_id(),
        pipe: &pipe,
    });
    let served = serve::serve_while(options, Ends { stop, owner });
    // The owner may have been killed.
    let _ = std::fs::remove_dir_all(folder);
    served
}

/// Readable from the first signal that asks the server to end on.
fn stop_signal() -> Result<OwnedFd, Failure> {
    let cannot = |error| Failure::Run(format!("cannot catch signals: {error}"));
    let (stop, tell) = UnixStream::pair().map_err(cannot)?;
    // The terminal that it was started from may close: its clients go on.
    signal_hook::flag::register(SIGHUP, Arc::default()).map_err(cannot)?;
    for signal in [SIGTERM, SIGINT] {
        let tell = tell.try_clone().map_err(cannot)?;
        signal_hook::low_level::pipe::register(signal, tell).map_err(cannot)?;
    }
    Ok(stop.into())
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    refuse_strangers(arguments)?;
    let socket = match socket(arguments) {
        Some(socket) => socket,
        None => {
            let text = "--socket: where to listen is not said, and XDG_RUNTIME_DIR is not set";
            return Err(Failure::Input(text.to_owned()));
        }
    };
    let pool = match arguments.pool {
        Some(pool) => pool,
        None => half_of_available(&socket)?,
    };
    refuse_what_is_not_there("--pool", pool)?;
    if pool.get() < LEAST {
        return Err(Failure::Input(format!(
            "--pool: at least {LEAST} frames (256KiB) are needed"
        )));
    }
    let mut settings = Settings::new(pool);
    settings.store = backing(&arguments.store, pool);
    settings.read_ahead = arguments.store.read_ahead;
    settings.reads_on = arguments.own.one_program;
    settings.unresponsive = arguments.unresponsive;
    settings.priority = arguments.priority;
    settings.cpus.clone_from(&arguments.cpus);
    let own = rustix::process::geteuid().as_raw();
    let mut quotas = Quotas::new(own, arguments.quotas.quota.unwrap_or_default());
    for (user, frames) in &arguments.quotas.allow {
        quotas.allow(*user, *frames);
    }
    let largest = arguments.quotas.allow.iter().map(|(_, frames)| *frames).max();
    let part = FrameCount::new(pool.get() - pool.get() / 4);
    let total = part.max(largest.unwrap_or_default());
    quotas.limit_all(arguments.quotas.quota_total.unwrap_or(total));
    let limits = Limits {
        // One user alone cannot fill the page table.
        user_pages: u64::from(settings.pages.get()) / 2,
        ..Limits::default()
    };
    let devices = devices(arguments, pool)?;
    let for_users = |file: &DeviceFile| file.devices.iter().any(|device| !device.users.is_empty());
    let others = quotas.serves_others() || devices.as_ref().is_some_and(for_users);
    let mode = if others { 0o666 } else { 0o600 };
    Ok(Options {
        settings,
        quotas,
        limits,
        socket,
        mode: arguments.socket_mode.unwrap_or(mode),
        devices,
        metrics: arguments.metrics_listen,
    })
}

fn devices(arguments: &Arguments, pool: FrameCount) -> Result<Option<DeviceFile>, Failure> {
    let Some(path) = &arguments.devices else {
        return Ok(None);
    };
    let file = DeviceFile::load(path).map_err(|error| Failure::Input(error.to_string()))?;
    if file.frames() >= pool {
        return Err(Failure::Input(format!(
            "{}: device.size: all devices together have {}, the pool has {pool}: enlarge --pool, or shrink a device",
            path.display(),
            file.frames()
        )));
    }
    Ok(Some(file))
}

/// Metrics name everybody's processes and files, and nobody is asked who he is.
fn refuse_strangers(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.metrics_listen {
        Some(address) if !address.ip().is_loopback() && !arguments.metrics_public => Err(Failure::Input(format!(
            "--metrics-listen {address}: other machines may reach it, and see everything: name 127.0.0.1 or [::1], or \
             say --metrics-public too"
        ))),
        _ => Ok(()),
    }
}

fn socket(arguments: &Arguments) -> Option<PathBuf> {
    if let Some(folder) = &arguments.own.own_folder {
        return Some(folder.join("socket"));
    }
    let named = std::env::var_os(freehold_protocol::SOCKET_VARIABLE).filter(|value| !value.is_empty());
    let named = arguments.socket.clone().or(named.map(PathBuf::from));
    named.or_else(serve::default_path)
}

fn backing(store: &StoreArguments, pool: FrameCount) -> StoreMedium {
    match store.store {
        StoreKind::Memory => StoreMedium::Memory {
            latency: store.store_latency,
            parallel: store.store_parallel,
        },
        StoreKind::Compressed => StoreMedium::Compressed {
            bytes: store.store_size.unwrap_or(pool.to_bytes().get() / 2),
        },
        StoreKind::File => StoreMedium::File {
            directory: store
                .store_directory
                .clone()
                .unwrap_or_else(|| PathBuf::from("/var/tmp")),
            parallel: store.store_parallel,
        },
    }
}

/// Where an earlier server has left its socket it was killed, and so were its programs: their memory is waited for.
fn half_of_available(socket: &Path) -> Result<FrameCount, Failure> {
    let available = if socket.exists() {
        memory_available_at_rest()
    } else {
        memory_available()
    };
    let frames = available.and_then(|(bytes, _)| u32::try_from(bytes / PAGE / 2).ok());
    let unknown = || Failure::Run("how much memory is available is not known: give --pool".to_owned());
    frames.map(FrameCount::new).ok_or_else(unknown)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map(|size| size.get())
}

fn parse_frames(text: &str) -> Result<FrameCount, String> {
    let pages = parse_size(text)?.to_pages();
    pages
        .map(|pages| pages.to_frames())
        .ok_or_else(|| "more than 16 TiB".to_owned())
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "an octal mode such as 0660 is expected".to_owned())
}

fn parse_unresponsive(text: &str) -> Result<Unresponsive, String> {
    let (what, bound) = text.split_once(':').unwrap_or((text, "1s"));
    let reaction = match what {
        "kill" => Reaction::Kill,
        "freeze" => Reaction::Freeze,
        _ => return Err("`kill` or `freeze` is expected, with a time if need be: kill:500ms".to_owned()),
    };
    let bound = parse_span(bound)?;
    if bound.is_zero() {
        return Err("a client needs some time to answer".to_owned());
    }
    Ok(Unresponsive { bound, reaction })
}

fn parse_allowance(text: &str) -> Result<(u32, FrameCount), String> {
    let (user, size) = text
        .split_once('=')
        .ok_or_else(|| "a user and a size are expected, as in 1000=64MiB".to_owned())?;
    let user = match user.parse() {
        Ok(user) => user,
        Err(_) => user_number(user)?,
    };
    Ok((user, parse_frames(size)?))
}

/// The number of a user in `/etc/passwd`; others are given by number.
fn user_number(name: &str) -> Result<u32, String> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name))
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    });
    found.ok_or_else(|| format!("no user {name:?} in /etc/passwd: give the number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_strictly() {
        assert_eq!(parse_allowance("1000=64MiB"), Ok((1000, FrameCount::new(16_384))));
        assert_eq!(parse_allowance("root=4KiB"), Ok((0, FrameCount::new(1))));
        for bad in ["1000", "1000=", "nobody-here=1MiB", "1000=x"] {
            assert!(parse_allowance(bad).is_err(), "{bad}");
        }
        let frozen = parse_unresponsive("freeze:20ms").unwrap();
        assert_eq!(
            (frozen.bound, frozen.reaction),
            (Duration::from_millis(20), Reaction::Freeze)
        );
        assert_eq!(parse_unresponsive("kill").unwrap().bound, Duration::from_secs(1));
        for bad in ["stop", "kill:", "kill:0s", "kill:1"] {
            assert!(parse_unresponsive(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert!(parse_mode("999").is_err() && parse_mode("7777").is_err());
    }
}
