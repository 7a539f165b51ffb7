//! What `lsmod`, `ps` and `fifos` show.

use std::fs;

use serde::Serialize;

use crate::directory::{Directory, Kind};
use crate::fifo::FifoView;
use crate::fifo::peer::ProcessSide;
use crate::memory::{self, MemoryView};
use crate::status::{Status, ThreadView};

/// A loaded module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleView {
    /// Its name.
    pub name: String,
    /// `shared` or `separate`.
    pub space: &'static str,
    /// The process.
    pub pid: u32,
    /// Its threads.
    pub threads: Vec<ThreadView>,
    /// Its FIFOs.
    pub fifos: Vec<FifoView>,
    /// Memory by name that its process holds.
    pub mbuffs: Vec<MemoryView>,
}

/// Every loaded module, in the order of names.
#[must_use]
pub fn modules(directory: &Directory) -> Vec<ModuleView> {
    let fifos = fifos(directory);
    let names = directory.names(Kind::Module);
    let view = |name: String| {
        let status = Status::of(directory.find(Kind::Module, &name).ok()?)?;
        let own = owner(directory, Kind::Module, &name)?;
        let fifos = fifos.iter().filter(|fifo| fifo.owner == own);
        Some(ModuleView {
            space: if status.is_separate() { "separate" } else { "shared" },
            pid: status.process(),
            threads: status.threads(),
            fifos: fifos.map(|fifo| fifo.view).collect(),
            mbuffs: memory::held_by(directory, own.process, own.status),
            name,
        })
    };
    names.into_iter().filter_map(view).collect()
}

/// A FIFO and whose it is.
#[derive(Clone, Copy, Debug)]
struct OwnedFifo {
    owner: Owner,
    view: FifoView,
}

/// A module, by its process and the descriptor of its page of status there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    process: u32,
    status: u32,
}

/// Whom a link into `/proc` leads to.
fn owner(directory: &Directory, kind: Kind, name: &str) -> Option<Owner> {
    let target = fs::read_link(directory.link(kind, name)).ok()?;
    let mut parts = target.to_str()?.strip_prefix("/proc/")?.split("/fd/");
    let (process, status) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Owner { process, status })
}

fn fifos(directory: &Directory) -> Vec<OwnedFifo> {
    let names = directory.names(Kind::Fifo);
    let view = |name: String| {
        let side = ProcessSide::of(directory.find(Kind::Fifo, &name).ok()?).ok()?;
        let process = owner(directory, Kind::Fifo, &name)?.process;
        Some(OwnedFifo {
            owner: Owner {
                process,
                status: side.owner_status(),
            },
            view: side.view(),
        })
    };
    names.into_iter().filter_map(view).collect()
}
