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

use freehold_command::run_server::{RunRecording, RunServer, RunStore};
use freehold_command::status::{Failure, Status};

/// Options of `freehold serve-run`, made by [`RunServer::launch`].
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What it is to be, in JSON
    #[arg(value_parser = server)]
    server: RunServer,
    /// Where to listen
    socket: PathBuf,
}

fn server(text: &str) -> Result<RunServer, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    log::start(Format::Text, log::Level::ERROR).map_err(|error| Failure::Run(format!("cannot log: {error}")))?;
    let server = &arguments.server;
    let settings = settings(server)?;
    let own = rustix::process::geteuid().as_raw();
    let defaults = Limits::default();
    // Who sets the pace asks at every step.
    let most = |limit| if server.paced { u32::MAX } else { limit };
    let limits = Limits {
        user_pages: u64::from(settings.pages.get()),
        requests_per_second: most(defaults.requests_per_second),
        requests_at_once: most(defaults.requests_at_once),
        ..defaults
    };
    let options = Options {
        settings,
        quotas: Quotas::new(own, FrameCount::ZERO),
        limits,
        socket: arguments.socket.clone(),
        mode: 0o600,
        devices: devices(&server.devices),
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

fn devices(sizes: &[(u32, bool)]) -> Option<DeviceFile> {
    let device = |(position, &(size, trusted)): (usize, &(u32, bool))| Device {
        name: freehold_live::device_name(position),
        size: FrameCount::new(size),
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

fn at_a_time(parallel: u32) -> Result<u16, Failure> {
    u16::try_from(parallel).map_err(|_| Failure::Input(format!("{parallel} transfers at a time are too many")))
}

fn recording(recording: &RunRecording) -> RecordingRoom {
    RecordingRoom {
        faults: recording.faults,
        evictions: recording.others,
        transfers: recording.others,
        holds: recording.others,
        samples: recording.samples,
        sample_step: Duration::from_nanos(recording.step),
    }
}

fn settings(server: &RunServer) -> Result<Settings, Failure> {
    let mut settings = Settings::new(FrameCount::new(server.frames));
    settings.pages = PageCount::new(server.pages.max(1));
    settings.compared_pages = PageCount::new(server.compared_pages);
    settings.shared_locks = PageCount::new(server.shared_locks);
    settings.priority = server.priority;
    settings.paced = server.paced;
    settings.recording = server.recording.as_ref().map(recording);
    settings.read_ahead = ReadAhead::of(server.read_ahead)
        .ok_or_else(|| Failure::Input(format!("{} pages are not read ahead", server.read_ahead)))?;
    settings.store = match &server.store {
        RunStore::Memory(latency, parallel) => Backing::Memory {
            latency: Duration::from_nanos(*latency),
            parallel: at_a_time(*parallel)?,
        },
        RunStore::Compressed(bytes) => Backing::Compressed { bytes: *bytes },
        RunStore::File(directory, parallel) => Backing::File {
            directory: directory.clone(),
            parallel: at_a_time(*parallel)?,
        },
    };
    Ok(settings)
}
