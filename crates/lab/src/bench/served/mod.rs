//! The benchmarks with the pager in another process: the bare message mode as their floor, and clients of a memory
//! server.
//!
//! Everything takes place on one CPU: the memory server keeps its pager thread beside its client, and the floor's
//! thread is kept there.

pub(crate) mod bare;
pub(super) mod evict;
pub(super) mod fill;
pub(super) mod soft;

use freehold_client::{Connection, Regime, Region, RegionKind, RegionSpec, Reservation, ReservationKind};
use freehold_linux::ThreadId;
use freehold_linux::sched;
use freehold_live::OwnServer;

use super::rounds::refused;
use freehold_command::exit_status::Failure;
use freehold_command::run_server::RunServer;

/// Runs `work` with the calling thread on one CPU, whose number it is given: the last that the process may use.
fn on_one_cpu<T>(work: impl FnOnce(usize) -> Result<T, Failure>) -> Result<T, Failure> {
    let me = ThreadId::current();
    let before = sched::affinity(me).map_err(refused)?;
    let cpu = *sched::allowed_cpus().map_err(refused)?.last().unwrap_or(&0);
    sched::pin(me, cpu).map_err(refused)?;
    let done = work(cpu);
    sched::set_affinity(me, &before).map_err(refused)?;
    done
}

/// A memory server of a benchmark's own, and a connection to it. Fields are dropped in this order.
struct Client {
    connection: Connection,
    _server: OwnServer,
}

impl Client {
    /// A server with so many frames and so many pages in all regions, its store in memory without latency.
    fn start(frames: u32, pages: u32) -> Result<Self, Failure> {
        let launch = RunServer::plain(frames, pages).launch()?;
        let (server, connection) = OwnServer::start(&launch).map_err(refused)?;
        Ok(Self {
            connection,
            _server: server,
        })
    }

    fn reserve(&self, name: &str, frames: u32) -> Result<Reservation, Failure> {
        self.connection
            .reserve(name, frames, ReservationKind::Hard)
            .map_err(refused)
    }

    fn region(&self, name: &str, pages: u32, kind: RegionKind) -> Result<Region, Failure> {
        open(&self.connection, name, pages, kind)
    }
}

fn open(connection: &Connection, name: &str, pages: u32, kind: RegionKind) -> Result<Region, Failure> {
    let spec = RegionSpec {
        name,
        pages,
        kind,
        regime: Regime::Conserve,
    };
    connection.open_region(&spec).map_err(refused)
}
