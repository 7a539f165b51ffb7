//! A whole server: from its options to its end.

mod in_process;
mod metrics;
mod notify;
mod process;
mod socket;

use crate::control::{self, Limits, Registry};
use crate::devices::Devices;
use crate::document::Snapshots;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::quota::Quotas;
use crate::settings::Settings;
use crate::shared::{Pagers, Shared};
use freehold_scenario::DeviceFile;
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{info, warn};

pub use crate::control::{Ends, Owner};
pub use in_process::InProcess;
pub use process::raise_limits;
pub use socket::{SocketError, default_path};

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes, store, priorities.
    pub settings: Settings,
    /// Rights of users.
    pub quotas: Quotas,
    /// Bounds on what clients can drive.
    pub limits: Limits,
    /// Where to listen.
    pub socket: PathBuf,
    /// Who may connect: the mode of the socket.
    pub mode: u32,
    /// Devices whose memory is set aside in the pool, if there are any.
    pub devices: Option<DeviceFile>,
    /// Where to answer `GET /metrics`, if anywhere.
    pub metrics: Option<SocketAddr>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket is not to be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The engine cannot be made.
    #[error("the server cannot begin: {0}")]
    Engine(#[from] EngineError),
    /// The memory of devices cannot be had.
    #[error("the devices cannot be served: {0}")]
    Devices(String),
    /// Metrics cannot be served.
    #[error("metrics cannot be served at {address}: {error}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The system's refusal.
    #[error("the server cannot run: {0}")]
    System(#[from] io::Error),
}

/// Serves until `stop` can be read: see [`serve_while`].
///
/// # Errors
/// See [`ServeError`]; nothing has begun then.
pub fn serve(options: &Options, stop: &OwnedFd) -> Result<(), ServeError> {
    serve_while(options, Ends { stop, owner: None })
}

/// Serves until `ends` says so. From here on a panic in any thread ends the process at once: clients must not run
/// on with half a server.
///
/// # Errors
/// See [`ServeError`]; nothing has begun then.
pub fn serve_while(options: &Options, ends: Ends<'_>) -> Result<(), ServeError> {
    abort_on_panic();
    // Before there is a descriptor that the helper could hold for a moment longer than the server.
    let (_process, shortfalls) = process::prepare();
    let place = socket::SocketPlace::new(&options.socket)?;
    let owner = ends.owner.map(|owner| owner.process);
    let (registry, pagers) = begin(options, shortfalls, owner)?;
    if let Some(address) = options.metrics {
        let bound = metrics::start(&registry, address);
        let bound = bound.map_err(|error| ServeError::Metrics { address, error })?;
        info!(%bound, "serving metrics");
    }
    control::tracers::start(&registry)?;
    let listener = place.listen(options.mode)?;
    info!(
        socket = ?options.socket,
        pool_frames = options.settings.frames.get(),
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    notify::tell("READY=1\nSTATUS=serving");
    let ran = control::run(&registry, listener, ends, || {
        notify::tell("STOPPING=1");
        place.remove();
        info!("ending: clients are told");
    });
    // Only now, when nobody talks to clients any more.
    drop(pagers);
    info!("ended");
    crate::log::flush();
    // The process ends: to take the tables down piece by piece first would take as long as to set them up.
    std::mem::forget(registry);
    Ok(ran?)
}

/// The engine with its pager threads, and what sessions share: all but the socket.
fn begin(
    options: &Options,
    mut shortfalls: Vec<String>,
    owner: Option<u32>,
) -> Result<(Arc<Registry>, Pagers), ServeError> {
    let mut settings = options.settings.clone();
    settings.tables.clients = settings.tables.clients.min(process::most_clients());
    let shared = Shared::new(Engine::new(&settings)?);
    let pagers = shared.spawn_pagers()?;
    shortfalls.extend(refused_priorities(&shared));
    shortfalls.extend(shared.engine().without_paths());
    for shortfall in &shortfalls {
        warn!("{shortfall}");
    }
    // The status document asks for it each time.
    if let Some(shortfall) = shared.engine().locked_backing().shortfall() {
        warn!("{shortfall}");
    }
    let socket_name = options.socket.display().to_string();
    let snapshots = Snapshots::new(socket_name, options.settings.unresponsive, shortfalls);
    let devices = options.devices.as_ref().map(|file| Devices::new(file, &shared));
    let registry = Registry::new(
        shared,
        options.quotas.clone(),
        options.limits,
        snapshots,
        owner,
        devices.transpose()?,
    );
    Ok((registry, pagers))
}

/// Pager threads that have no real-time priority, in words.
fn refused_priorities(shared: &Arc<Shared>) -> Vec<String> {
    let Ok(view) = shared.view() else {
        return Vec::new();
    };
    let refused = view.pagers.iter().filter_map(|pager| {
        let why = pager.refused.as_ref()?;
        Some(format!(
            "the pager thread of CPU {} has no real-time priority ({why}): faults are served late where it is busy",
            pager.cpu
        ))
    });
    let store = view
        .store_description
        .shortfalls
        .iter()
        .map(|shortfall| format!("store: {shortfall}"));
    refused.chain(store).collect()
}

fn abort_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        std::process::abort();
    }));
}
