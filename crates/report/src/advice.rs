//! Advice on sharing: conservation or the eviction lock for each shared object (the paper's Table IV).

use crate::sharing::Sharing;
use serde::{Deserialize, Serialize};

/// Advice for the shared objects of some processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// The processes.
    pub pids: Vec<u32>,
    /// One for each object that they share or could.
    pub regions: Vec<RegionAdvice>,
}

/// One region. Counts are pages, or frames, which are as large.
///
/// A reservation *takes part* where it touches the region and does not say itself, in `sharing` or `lock`, how it
/// shares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionAdvice {
    /// Its name.
    pub name: String,
    /// The sharing that the scenario asks for.
    pub asked: Sharing,
    /// `spc` or `spel`; null where there is nothing to choose.
    pub choice: Option<Sharing>,
    /// Why, in one sentence.
    pub reason: String,
    /// Max(S): pages that those who take part touch, taken together, and that nobody else locks.
    pub max: u64,
    /// Avg(S): mean pages referenced per period, the mean over those who take part.
    pub avg: f64,
    /// Reservations that take part.
    pub n: u64,
    /// Whether Max(S) < n·Avg(S).
    pub max_below_n_avg: bool,
    /// Frames of all reservations that map the region, under conservation.
    pub frames_spc: u64,
    /// The same under the eviction lock, less what the locks give back.
    pub frames_spel: u64,
    /// Those that map the region, in the scenario's order.
    pub reservations: Vec<ReservationAdvice>,
}

/// One reservation's part in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationAdvice {
    /// Its name.
    pub name: String,
    /// Whether it takes part in the choice.
    pub takes_part: bool,
    /// Max(S) of its own: distinct pages that it touched.
    pub max: u64,
    /// Avg(S) of its own: mean pages referenced per period.
    pub avg: f64,
    /// The frames it has.
    pub frames: u64,
    /// The frames it needs under conservation (M_R).
    pub frames_spc: u64,
    /// The frames it needs under the eviction lock for the same room for its other pages: M_R′ = M_R + Max − Avg, and
    /// at least Max + 8, since a reservation's locks leave 8 frames unlocked. `auto` locks only where M_R′ is enough.
    pub frames_spel: u64,
}
