//! Device memory of the laboratory's own, served at a socket of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use freehold_client::device::Device;
use freehold_ecache::serve::DeviceServer;
use freehold_ecache::{Cache, DeviceState, FileId, Key, PAGE_SIZE, PageIndex};
use freehold_scenario::DeviceFile;

use freehold_command::exit_status::Failure;

/// How long a device may take to come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// The machine, or the kernel, refuses what is needed.
fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("device memory cannot be had here: {error}"))
}

/// A cache for devices `(name, MiB)`.
pub(crate) fn cache(devices: &[(&str, u32)], trusted: bool) -> Result<Cache, Failure> {
    let mut text = String::new();
    for (name, mebibytes) in devices {
        text += &format!("[[device]]\nname = \"{name}\"\nsize = \"{mebibytes}MiB\"\ntrusted = {trusted}\n");
    }
    let file = DeviceFile::parse(&text, "the laboratory's devices").map_err(refused)?;
    Cache::new(&file).map_err(refused)
}

/// A page of the one file that the laboratory caches.
pub(crate) fn key(page: u32) -> Key {
    Key {
        file: FileId::new(1),
        page: PageIndex::new(page),
    }
}

/// Pages `0..pages`, each of which begins with its number.
pub(crate) fn fill(cache: &Cache, pages: u32) -> Result<(), Failure> {
    let mut page = [7; PAGE_SIZE];
    for number in 0..pages {
        page[..4].copy_from_slice(&number.to_le_bytes());
        cache.put(key(number), &page).map_err(refused)?;
    }
    Ok(())
}

/// A path for a socket, which goes in the end.
pub(crate) struct SocketPath(PathBuf);

impl SocketPath {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("freehold-lab-{name}-{}", std::process::id())))
    }
}

impl AsRef<Path> for SocketPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A cache whose devices can be opened.
pub(crate) struct Served {
    pub(crate) cache: Arc<Cache>,
    _server: DeviceServer,
    socket: SocketPath,
}

impl Served {
    pub(crate) fn start(cache: Cache) -> Result<Self, Failure> {
        let (cache, socket) = (Arc::new(cache), SocketPath::new("devices"));
        let nothing = serde_json::Map::new;
        let server = DeviceServer::listen(socket.as_ref(), Arc::clone(&cache), Box::new(nothing)).map_err(refused)?;
        Ok(Self {
            cache,
            _server: server,
            socket,
        })
    }

    /// Opens all of a device.
    pub(crate) fn open(&self, name: &str) -> Result<Device, Failure> {
        Device::open(self.socket.as_ref(), name, 0).map_err(refused)
    }

    /// Closes a device, and waits until all of it is back.
    pub(crate) fn close(&self, device: Device) -> Result<(), Failure> {
        device.close().map_err(refused)?;
        let limit = Instant::now() + PATIENCE;
        while self
            .cache
            .device_rows()
            .iter()
            .any(|row| row.state == DeviceState::Returning)
        {
            if Instant::now() > limit {
                return Err(Failure::Run("a closed device did not come back".to_owned()));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}
