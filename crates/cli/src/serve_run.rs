//! `freehold serve-run`: the memory server of one run (`freehold run --placement server`). It is `freehold serve` with
//! tables for the scenario, for this user alone, and ends when its standard input does, with the run.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_core::ReadAhead;
use freehold_core::units::{FrameCount, PageCount};
use freehold_linux::folder::{self, StaleFolder};
use freehold_scenario::{Backing as DeviceBacking, Device, DeviceFile};
use freehold_server::log::{self, Format};
use freehold_server::serve::{self, Options};
use freehold_server::{Backing, Limits, Quotas, RecordingRoom, Settings};

use freehold_command::options::read_ahead;
use freehold_command::status::{Failure, Status};

/// Options of `freehold serve-run`, made by [`freehold_command::run_server`].
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Frames of the pool
    #[arg(long)]
    frames: u32,
    /// Pages of all regions
    #[arg(long)]
    pages: u32,
    /// Pages under `none`
    #[arg(long)]
    compared_pages: u32,
    /// Locked pages that others pay
    #[arg(long)]
    shared_locks: u32,
    /// Priority of the pager threads
    #[arg(long)]
    priority: u32,
    /// `memory`, `compressed` or `file`
    #[arg(long)]
    store: String,
    /// Of `memory`: nanoseconds of a transfer
    #[arg(long)]
    latency: u64,
    /// Of `memory` and `file`: transfers at a time
    #[arg(long)]
    parallel: u16,
    /// Pages that tasks without a reservation read back together
    #[arg(long, value_parser = read_ahead, default_value = "1")]
    read_ahead: ReadAhead,
    /// Of `compressed`: bytes it may take, 0 for as many as it needs
    #[arg(long)]
    capacity: u64,
    /// Of `file`: its directory
    #[arg(long)]
    directory: PathBuf,
    /// A device, by its pages, and `,trusted` behind them if it is; in order
    #[arg(long, value_parser = device, value_name = "PAGES")]
    device: Vec<Size>,
    /// The run sets its pace
    #[arg(long)]
    paced: bool,
    /// Record what happens: so many faults at most, 0 for nothing
    #[arg(long, default_value_t = 0)]
    record_faults: usize,
    /// So many evictions, transfers and holds of the engine, each
    #[arg(long, default_value_t = 0)]
    record_others: usize,
    /// So many samples
    #[arg(long, default_value_t = 0)]
    record_samples: usize,
    /// Nanoseconds between two samples
    #[arg(long, default_value_t = 0)]
    record_step: u64,
    /// Where to listen
    socket: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    log::start(Format::Text, log::Level::ERROR).map_err(|error| Failure::Run(format!("cannot log: {error}")))?;
    let settings = settings(arguments)?;
    let own = rustix::process::geteuid().as_raw();
    let defaults = Limits::default();
    let limits = Limits {
        user_pages: u64::from(settings.pages.get()),
        // Who sets the pace asks at every step.
        requests_per_second: if arguments.paced {
            u32::MAX
        } else {
            defaults.requests_per_second
        },
        requests_at_once: if arguments.paced {
            u32::MAX
        } else {
            defaults.requests_at_once
        },
        ..defaults
    };
    let options = Options {
        settings,
        quotas: Quotas::new(own, FrameCount::ZERO),
        limits,
        socket: arguments.socket.clone(),
        mode: 0o600,
        devices: devices(&arguments.device),
        metrics: None,
    };
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let stop = input.map_err(|error| Failure::Run(format!("no standard input: {error}")))?;
    let served = serve::serve(&options, &stop);
    remove_what_a_killed_run_left(&arguments.socket);
    match served {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::Run(error.to_string())),
    }
}

/// A device's pages, and whether it is trusted.
type Size = (FrameCount, bool);

fn device(text: &str) -> Result<Size, String> {
    let (pages, trusted) = text
        .strip_suffix(",trusted")
        .map_or((text, false), |pages| (pages, true));
    let pages = pages.parse().map_err(|error| format!("{error}"))?;
    Ok((FrameCount::new(pages), trusted))
}

fn devices(sizes: &[Size]) -> Option<DeviceFile> {
    let device = |(position, &(size, trusted)): (usize, &Size)| Device {
        name: freehold_live::device_name(position),
        size,
        trusted,
        users: Vec::new(),
    };
    let devices: Vec<Device> = sizes.iter().enumerate().map(device).collect();
    (!devices.is_empty()).then_some(DeviceFile {
        // Huge pages would round what is opened.
        backing: DeviceBacking::Small,
        devices,
    })
}

/// The directory is the run's, which removes it; but it may have been killed.
fn remove_what_a_killed_run_left(socket: &Path) {
    let Some(directory) = socket.parent() else { return };
    let names = directory.parent().zip(directory.file_name());
    if let Some((parent, name)) = names {
        let left = folder::left_behind(parent, &name.to_string_lossy());
        left.into_iter().for_each(StaleFolder::remove);
    }
}

fn recording(arguments: &Arguments) -> Option<RecordingRoom> {
    let others = arguments.record_others;
    let room = RecordingRoom {
        faults: arguments.record_faults,
        evictions: others,
        transfers: others,
        holds: others,
        samples: arguments.record_samples,
        sample_step: Duration::from_nanos(arguments.record_step),
    };
    (room.faults > 0).then_some(room)
}

fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let mut settings = Settings::new(FrameCount::new(arguments.frames));
    settings.pages = PageCount::new(arguments.pages.max(1));
    settings.compared_pages = PageCount::new(arguments.compared_pages);
    settings.shared_locks = PageCount::new(arguments.shared_locks);
    settings.priority = arguments.priority;
    settings.paced = arguments.paced;
    settings.recording = recording(arguments);
    settings.read_ahead = arguments.read_ahead;
    settings.store = match arguments.store.as_str() {
        "memory" => Backing::Memory {
            latency: Duration::from_nanos(arguments.latency),
            parallel: arguments.parallel,
        },
        "compressed" => Backing::Compressed {
            bytes: arguments.capacity,
        },
        "file" => Backing::File {
            directory: arguments.directory.clone(),
            parallel: arguments.parallel,
        },
        other => return Err(Failure::Input(format!("there is no store {other:?}"))),
    };
    Ok(settings)
}
