//! Devices: a region of the pool that is set aside for them, and clients that open them at the server's own socket.
//! While they are closed, pages of files that leave are cached there.

use crate::control::Charge;
use crate::serve::ServeError;
use crate::shared::Shared;
use crate::victims::Victims;
use freehold_core::frames::Frames;
use freehold_ecache::Cache;
use freehold_ecache::serve::DeviceServer;
use freehold_linux::Errno;
use freehold_linux::socket::PacketSocket;
use freehold_scenario::DeviceFile;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The devices of a server.
#[derive(Debug)]
pub(crate) struct Devices {
    server: DeviceServer,
    cache: Arc<Cache>,
    victims: Arc<Victims>,
    /// The region's frames: no reservation is promised any of them.
    _frames: Frames,
}

impl Devices {
    /// Sets the region aside, which is as many frames as all devices together.
    ///
    /// # Errors
    /// [`ServeError::Devices`] where the pool has not so many, or their memory cannot be made.
    pub(crate) fn new(file: &DeviceFile, shared: &Shared) -> Result<Self, ServeError> {
        let cannot = |error: &dyn std::fmt::Display| ServeError::Devices(error.to_string());
        let frames = shared
            .engine()
            .set_aside(file.frames())
            .map_err(|error| cannot(&error))?;
        let cache = Arc::new(Cache::new(file).map_err(|error| cannot(&error))?);
        let server = DeviceServer::new(Arc::clone(&cache), Box::new(Map::new)).map_err(|error| cannot(&error))?;
        let victims = Victims::start(Arc::clone(&cache)).map_err(|error| cannot(&error))?;
        shared.evict_into(Arc::clone(&victims));
        Ok(Self {
            server,
            cache,
            victims,
            _frames: frames,
        })
    }

    /// Serves a connection whose first packet was a request of a device, on a descriptor of its own. Its user is
    /// charged for it until it ends.
    ///
    /// # Errors
    /// The kernel's refusal of the descriptor.
    pub(crate) fn serve(&self, socket: &PacketSocket, first: &[u8], charge: Option<Charge>) -> Result<(), Errno> {
        let own = socket.try_clone()?;
        self.server.serve(own, Some(first.to_vec()), charge);
        Ok(())
    }

    /// The rows of the status document: the region's, and the devices' that `user` may open, or all.
    pub(crate) fn rows(&self, user: Option<u32>) -> (Option<Value>, Vec<Value>) {
        let mut devices = self.cache.device_rows();
        if let Some(user) = user {
            devices.retain(|row| row.users.contains(&user));
        }
        let devices = devices.iter().map(|row| json!(row)).collect();
        (user.is_none().then(|| self.region()), devices)
    }

    /// The region's row, and which files it is for.
    fn region(&self) -> Value {
        let mut row = json!(self.cache.region_row());
        let files = self.victims.counts();
        if let Value::Object(row) = &mut row {
            row.insert("leased_files".to_owned(), json!(files.leased));
            row.insert("refused_leases".to_owned(), json!(files.refused));
        }
        row
    }
}
