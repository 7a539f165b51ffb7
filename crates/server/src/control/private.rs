//! Requests about private memory.

use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::control::reply::{Reply, Waiting};
use crate::control::session::Session;
use crate::engine::ClientId;
use freehold_linux::PAGE_SIZE;
use freehold_linux::available::memory_available;
use freehold_protocol::message::{Refusal, Request};

/// Bytes that are given back without a look at what the machine has.
const LITTLE: u64 = 16 << 20;
/// Of what the machine has available, one part in so many stays.
const SHARE_LEFT: u64 = 8;

impl Session {
    pub(super) fn keep(&self, registry: &Registry, address: u64, length: u64) -> Result<Reply, Refused> {
        let client = self.process()?;
        registry.shared.engine().keep(client, address, length)?;
        Ok(Reply::Done(Vec::new()))
    }

    /// Requests about what a program does with its private memory.
    pub(super) fn private_memory(&self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        match *request {
            Request::Inherit { address, length, how } => {
                let client = self.process()?;
                registry.shared.engine().inherit(client, address, length, how)?;
            }
            Request::InheritAlike { address, length, other } => {
                let client = self.process()?;
                registry.shared.engine().inherit_alike(client, address, length, other)?;
            }
            Request::Relinquish {
                process,
                address,
                length,
            } => return self.relinquish(registry, process, address, length),
            _ => return Err(Refused::new(Refusal::State, "not here")),
        }
        Ok(Reply::Done(Vec::new()))
    }

    /// Refused where the machine would have nothing left: what is given back is in frames outside of the pool.
    fn relinquish(&self, registry: &Registry, process: u32, address: u64, length: u64) -> Result<Reply, Refused> {
        let client = match process {
            0 => self.process()?,
            pid => self.other(registry, registry.called(self.peer(), pid))?,
        };
        afford(registry, client, if length == 0 { u64::MAX } else { length })
            .map_err(|text| Refused::new(Refusal::Exhausted, text))?;
        let count = registry.shared.engine().relinquish(client, address, length)?;
        Ok(Reply::Wait(Waiting::Relinquish { client, count }))
    }
}

/// Whether the machine has room for so many bytes of a client's private memory, at most; if not, why.
pub(super) fn afford(registry: &Registry, client: ClientId, most: u64) -> Result<(), String> {
    let elsewhere = registry.shared.engine().pages_elsewhere(client) * PAGE_SIZE as u64;
    let needed = elsewhere.min(most);
    if needed <= LITTLE {
        return Ok(());
    }
    match memory_available() {
        Some((bytes, limit)) if needed > bytes - bytes / SHARE_LEFT => {
            let (needed, bytes) = (needed >> 20, bytes >> 20);
            Err(format!(
                "{needed} MiB are elsewhere, and {bytes} MiB are available {limit}"
            ))
        }
        _ => Ok(()),
    }
}
