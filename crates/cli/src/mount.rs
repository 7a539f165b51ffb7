//! `freehold mount`: a directory's files elsewhere, over a page cache of a given size and device memory behind it.

use freehold_ecache::Cache;
use freehold_ecache::serve::DeviceServer;
use freehold_linux::PAGE_SIZE;
use freehold_mount::{Mount, Options, TakenOff, Watcher};
use freehold_scenario::{DeviceFile, parse_size};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_command::signals;

/// How often the command looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Options of `freehold mount`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The directory whose files are served
    source: PathBuf,
    /// The directory at which they appear
    mountpoint: PathBuf,
    /// The page cache: pages held by the mount and by the kernel for it are together never more
    #[arg(long, value_name = "SIZE", value_parser = parse_frames)]
    cache: usize,
    /// The devices whose memory holds what the page cache evicts while they are closed
    #[arg(long, value_name = "FILE")]
    devices: PathBuf,
    /// Refuse to change anything
    #[arg(long)]
    read_only: bool,
    /// Let other users use the mount too
    #[arg(long)]
    allow_other: bool,
    /// Where devices are opened and the status is asked for [default: $FREEHOLD_SOCKET, or nowhere]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

fn parse_frames(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    let frames = usize::try_from(bytes.get()).map_err(|_| "too large".to_owned())? / PAGE_SIZE;
    if frames < Options::LEAST_FRAMES {
        return Err(format!("at least {} KiB", Options::LEAST_FRAMES * PAGE_SIZE / 1024));
    }
    Ok(frames)
}

/// Mounts, and serves until SIGTERM or SIGINT, or until the mount is taken off.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let stop = signals::catch()?;
    let devices = DeviceFile::load(&arguments.devices).map_err(|error| Failure::Input(error.to_string()))?;
    let cache = Cache::new(&devices).map_err(|error| Failure::Run(error.to_string()))?;
    let options = Options {
        source: arguments.source.clone(),
        mountpoint: arguments.mountpoint.clone(),
        frames: arguments.cache,
        read_only: arguments.read_only,
        allow_other: arguments.allow_other,
    };
    let cache = Arc::new(cache);
    let mount = Mount::new(&options, Arc::clone(&cache)).map_err(failure)?;
    let socket = arguments
        .socket
        .clone()
        .or_else(|| std::env::var_os("FREEHOLD_SOCKET").map(PathBuf::from));
    let served = socket.map(|socket| serve_devices(&socket, cache, mount.watcher()));
    let served = served.transpose()?;
    let place = mount.mountpoint().display().to_string();
    output::print(&format!("{} at {place}\n", arguments.source.display()))?;
    while mount.is_mounted() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    drop(served);
    let taken = mount.unmount();
    match taken.map_err(|error| Failure::Run(format!("cannot unmount {place}: {error}")))? {
        TakenOff::Unused => {}
        TakenOff::InUse => {
            output::note(&format!(
                "freehold: {place} was in use: programs that use it find it gone"
            ));
        }
        TakenOff::Elsewhere => {
            output::note(&format!(
                "freehold: {place} shows another file system by now, which stays: who uses this one still finds it gone"
            ));
        }
    }
    Ok(Status::Done)
}

fn serve_devices(socket: &Path, cache: Arc<Cache>, watcher: Watcher) -> Result<DeviceServer, Failure> {
    let more = move || {
        let mut row = serde_json::Map::new();
        // Numbers and text: it is always JSON.
        if let Ok(value) = serde_json::to_value(watcher.row()) {
            row.insert("mount".to_owned(), value);
        }
        row
    };
    DeviceServer::listen(socket, cache, Box::new(more)).map_err(|error| Failure::Run(error.to_string()))
}

fn failure(error: freehold_mount::MountError) -> Failure {
    match error {
        freehold_mount::MountError::Source(_) | freehold_mount::MountError::TooSmall => {
            Failure::Input(error.to_string())
        }
        _ => Failure::Run(error.to_string()),
    }
}
