//! `freehold mount`: a directory's files elsewhere, over a page cache of a given size and device memory behind it.

use freehold_ecache::Cache;
use freehold_linux::PAGE_SIZE;
use freehold_mount::{Mount, Options};
use freehold_scenario::{DeviceFile, parse_size};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::output;
use crate::signals;
use crate::status::{Failure, Status};

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
    let name = arguments.devices.display().to_string();
    let text =
        std::fs::read_to_string(&arguments.devices).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    let devices = DeviceFile::parse(&text, &name).map_err(|error| Failure::Input(error.to_string()))?;
    let cache = Cache::new(&devices).map_err(|error| Failure::Run(error.to_string()))?;
    let options = Options {
        source: arguments.source.clone(),
        mountpoint: arguments.mountpoint.clone(),
        frames: arguments.cache,
        read_only: arguments.read_only,
        allow_other: arguments.allow_other,
    };
    let mount = Mount::new(&options, Arc::new(cache)).map_err(failure)?;
    let place = mount.mountpoint().display().to_string();
    output::print(&format!("{} at {place}\n", arguments.source.display()))?;
    while mount.is_mounted() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    let unused = mount.unmount();
    match unused.map_err(|error| Failure::Run(format!("cannot unmount {place}: {error}")))? {
        true => Ok(Status::Done),
        false => {
            output::note(&format!(
                "freehold: {place} was in use: programs that use it find it gone"
            ));
            Ok(Status::Done)
        }
    }
}

fn failure(error: freehold_mount::MountError) -> Failure {
    match error {
        freehold_mount::MountError::Source(_) | freehold_mount::MountError::TooSmall => {
            Failure::Input(error.to_string())
        }
        _ => Failure::Run(error.to_string()),
    }
}
