//! Device memory of a run whose pager is in this process: the victim cache on real pages, behind the pager, and a
//! socket at which the clients of devices open them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freehold_core::fact::PageRef;
use freehold_core::frames::Frames;
use freehold_core::units::FrameCount;
use freehold_ecache::serve::DeviceServer;
use freehold_ecache::{Cache, DeviceState, FileId, Key, PAGE_SIZE, Times};
use freehold_linux::folder::PrivateFolder;
use freehold_pager::{FileCache, Pager};
use freehold_scenario::results::{DeviceResult, Laws, Response, VictimCacheResult};
use freehold_scenario::{Backing, Device, DeviceFile, Scenario, ScenarioDevice};

use crate::error::LiveError;
use crate::placement::server::{Openings, device_name, private_folder};
use crate::result::Checks;

/// The memory, and who serves it.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    cache: Arc<Cache>,
    kept: Arc<Kept>,
    _server: DeviceServer,
    socket: PathBuf,
    _folder: PrivateFolder,
    /// The pool's frames that it stands for.
    _frames: Option<Frames>,
}

impl DeviceMemory {
    /// For a scenario's devices; `None` where it has none.
    pub(crate) fn new(scenario: &Scenario) -> Result<Option<Self>, LiveError> {
        if scenario.devices.is_empty() {
            return Ok(None);
        }
        let refused = |error: &dyn std::fmt::Display| LiveError::DeviceMemory(error.to_string());
        let cache = Arc::new(Cache::new(&file(scenario)).map_err(|error| refused(&error))?);
        let folder = private_folder().map_err(|error| refused(&error))?;
        let socket = folder.path().join("socket");
        let server = DeviceServer::listen(&socket, Arc::clone(&cache), Box::new(serde_json::Map::new));
        Ok(Some(Self {
            kept: Arc::new(Kept {
                cache: Arc::clone(&cache),
                begun: AtomicBool::new(false),
            }),
            cache,
            _server: server.map_err(|error| refused(&error))?,
            socket,
            _folder: folder,
            _frames: None,
        }))
    }

    /// Where the pager's pages of files go.
    pub(crate) fn files(&self) -> Arc<dyn FileCache> {
        Arc::clone(&self.kept) as _
    }

    /// Takes the memory's frames out of the pool.
    pub(crate) fn set_aside(&mut self, pager: &Pager) -> Result<(), LiveError> {
        let frames = FrameCount::new(self.cache.region_row().uses.frames);
        let taken = pager.set_aside(frames);
        self._frames = Some(taken.map_err(|error| LiveError::DeviceMemory(error.to_string()))?);
        Ok(())
    }

    /// Everything is set up: from now on pages are kept.
    pub(crate) fn begin(&self) {
        self.kept.begun.store(true, Ordering::Release);
    }

    /// Where devices are opened.
    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// What became of it, of which the clients of its devices have found this.
    pub(crate) fn results(
        &self,
        scenario: &Scenario,
        found: &[Openings],
    ) -> (Option<VictimCacheResult>, Vec<DeviceResult>) {
        let row = self.cache.region_row();
        let count = u64::from;
        let result = VictimCacheResult {
            frames: count(row.uses.frames),
            free: count(row.uses.free),
            filling: count(row.uses.filling),
            cached: count(row.uses.cached),
            leaving: count(row.uses.leaving),
            device: count(row.uses.device),
            retired: count(row.uses.retired),
            puts: row.puts,
            gets: row.gets,
            hits: row.hits,
            evicted: row.evicted,
            flushed: row.flushed,
            discarded: row.discarded,
            failed: 0,
        };
        let rows = self.cache.device_rows();
        let devices = scenario.devices.iter().zip(found).zip(&rows);
        let device = |((device, openings), row): ((&ScenarioDevice, &Openings), &freehold_ecache::DeviceRow)| {
            let Times { p50, p99, max } = row.return_ns;
            DeviceResult {
                name: device.name.clone(),
                pages: count(row.pages),
                used: count(row.used),
                state: match row.state {
                    DeviceState::Idle => "idle",
                    DeviceState::Open => "open",
                    DeviceState::Returning => "returning",
                }
                .to_owned(),
                first: row.first.map(count),
                trusted: device.trusted,
                opens: openings.opens,
                refused: openings.refused,
                open_ns: openings.times.response(),
                return_ns: Response { p50, p99, max },
            }
        };
        (Some(result), devices.map(device).collect())
    }

    /// Law 6, as the clients of devices and the cache's books have it.
    pub(crate) fn laws(&self, scenario: &Scenario, found: &[Openings]) -> Laws {
        let mut checks = Checks::new(scenario);
        for (device, openings) in scenario.devices.iter().zip(found) {
            checks.check(6, openings.wrong.is_empty(), || {
                format!("device {}: {}", device.name, openings.wrong.join("; "))
            });
        }
        let books = self.cache.check_laws();
        checks.check(6, books.is_ok(), || format!("{books:?}"));
        let mismatched = self.cache.region_row().mismatched;
        checks.check(6, mismatched == 0, || {
            format!("{mismatched} cached pages were not what was put")
        });
        checks.laws
    }
}

fn file(scenario: &Scenario) -> DeviceFile {
    let device = |(position, device): (usize, &ScenarioDevice)| Device {
        name: device_name(position),
        size: device.size,
        trusted: device.trusted,
        users: Vec::new(),
    };
    DeviceFile {
        // Huge pages would round what is opened.
        backing: Backing::Small,
        devices: scenario.devices.iter().enumerate().map(device).collect(),
    }
}

/// The pager's pages of files in device memory.
#[derive(Debug)]
struct Kept {
    cache: Arc<Cache>,
    begun: AtomicBool,
}

impl Kept {
    fn is_on(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

impl FileCache for Kept {
    fn put(&self, page: PageRef, content: &[u8; PAGE_SIZE]) {
        if !self.is_on() {
            return;
        }
        // Where there is no room for it, it is read from the store when somebody wants it.
        let _ = self.cache.put(key(page), content);
    }

    fn get(&self, page: PageRef, content: &mut [u8; PAGE_SIZE]) -> bool {
        // Whoever has the cache at the moment is waited for: a page that stayed in it would be an old one as soon as
        // somebody writes to it.
        self.is_on() && self.cache.get(key(page), content)
    }
}

fn key(page: PageRef) -> Key {
    Key {
        file: FileId::new(page.object().index() as u64),
        page: page.page(),
    }
}
