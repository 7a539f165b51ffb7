//! Advice for living processes: conservation or the eviction lock for each shared object (the paper's Table IV).
//!
//! Field names are those of the advice for scenarios. Max(S) of the object is the distinct pages that any of the
//! reservations has been seen to touch: a lock is one for all of them.

use super::build::reservation_name;
use crate::control::Refused;
use crate::view::{EngineView, ObjectView, ShareView};
use freehold_core::UNLOCKED_FRAMES;
use freehold_core::id::{ObjectId, ReservationId};
use freehold_core::limits::Regime;
use freehold_protocol::message::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Advice for the shared objects of some processes. Counts are pages, or frames, which are as large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// The processes.
    pub pids: Vec<u32>,
    /// One for each object that they share or could.
    pub regions: Vec<RegionAdvice>,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionAdvice {
    /// Its name.
    pub name: String,
    /// How it is shared now.
    pub asked: String,
    /// `spc` or `spel`; null where there is nothing to choose.
    pub choice: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// Max(S).
    pub max: u64,
    /// Avg(S): the mean over those who take part.
    pub avg: f64,
    /// Reservations that take part.
    pub n: u64,
    /// Whether Max(S) < n·Avg(S).
    pub max_below_n_avg: bool,
    /// Frames of all that take part, under conservation.
    pub frames_spc: u64,
    /// The same under the eviction lock, less what the locks give back.
    pub frames_spel: u64,
    /// Those that take part.
    pub reservations: Vec<ReservationAdvice>,
}

/// One reservation's part in an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationAdvice {
    /// Its name.
    pub name: String,
    /// Whether it takes part in the choice.
    pub takes_part: bool,
    /// Distinct pages that it touched.
    pub max: u64,
    /// Mean pages referenced per period.
    pub avg: f64,
    /// The frames it has.
    pub frames: u64,
    /// The frames it needs under conservation (M_R).
    pub frames_spc: u64,
    /// The frames it needs under the eviction lock: M_R′ = M_R + Max − Avg, and at least Max + 8.
    pub frames_spel: u64,
}

/// The pages of an object that a reservation referenced while sampled.
pub(super) type Touched<'a> = dyn Fn(ObjectId, ReservationId) -> Vec<u32> + 'a;

/// Weighs both choices for the objects of the processes named, as sampled so far.
pub(super) fn advise(view: &EngineView, touched: &Touched<'_>, target: &str) -> Result<AdviceDocument, Refused> {
    let pids: Result<Vec<u32>, _> = target.split_whitespace().map(str::parse).collect();
    let pids = pids
        .ok()
        .filter(|pids| !pids.is_empty())
        .ok_or_else(|| Refused::new(Refusal::Unknown, format!("{target:?} is not a list of process ids")))?;
    for pid in &pids {
        if !view.clients.iter().any(|client| client.pid == *pid) {
            let text = format!("process {pid} is no client of this server: start it with `freehold exec`");
            return Err(Refused::new(Refusal::Unknown, text));
        }
    }
    let chosen: BTreeSet<ReservationId> = view
        .reservations
        .iter()
        .filter(|row| row.members.iter().any(|member| pids.contains(&member.pid)))
        .map(|row| row.id)
        .collect();
    let mapped = |object: &&ObjectView| object.mappers.iter().any(|mapper| pids.contains(&mapper.pid));
    let regions = view.objects.iter().filter(mapped);
    let regions = regions.map(|object| weigh(view, touched, object, &chosen)).collect();
    Ok(AdviceDocument { pids, regions })
}

fn weigh(
    view: &EngineView,
    touched: &Touched<'_>,
    object: &ObjectView,
    chosen: &BTreeSet<ReservationId>,
) -> RegionAdvice {
    let part = |share: &&ShareView| share.reservation.is_some_and(|id| chosen.contains(&id));
    let shares: Vec<&ShareView> = object.shares.iter().filter(part).collect();
    // What is locked is locked for all, whoever touches it.
    let pages: BTreeSet<u32> = chosen.iter().flat_map(|id| touched(object.id, *id)).collect();
    let max = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let reservations: Vec<ReservationAdvice> = shares.iter().map(|share| one(view, share, max)).collect();
    let taking: Vec<&ReservationAdvice> = reservations.iter().filter(|part| part.takes_part).collect();
    let n = taking.len() as u64;
    let sum: f64 = taking.iter().map(|part| part.avg).sum();
    #[allow(clippy::cast_precision_loss, reason = "a handful of reservations")]
    let avg = if n == 0 { 0.0 } else { sum / n as f64 };
    let frames_spc: u64 = taking.iter().map(|part| part.frames_spc).sum();
    let grown: u64 = taking.iter().map(|part| part.frames_spel).sum();
    let saved = n.saturating_sub(1) * u64::from(max);
    let pool = &view.pool;
    let available = u64::from(pool.total.get()).saturating_sub(u64::from(pool.committed.get()));
    let growth = grown.saturating_sub(frames_spc);
    let max_below_n_avg = f64::from(max) < sum;
    let (choice, reason) = if object.regime == Regime::Unmanaged {
        (
            None,
            "it is under `none`, for comparison: nothing is conserved or locked".to_owned(),
        )
    } else if n < 2 {
        let reason = "fewer than two of these reservations were seen to touch it while sampled".to_owned();
        (None, reason)
    } else if !max_below_n_avg {
        (Some("spc"), format!("Max = {max} is not below n·Avg = {sum:.1}"))
    } else if growth > available {
        let reason = format!("Max = {max} < n·Avg = {sum:.1}, but the reservations cannot grow by {growth} frames");
        (Some("spc"), reason)
    } else {
        let reason = format!("Max = {max} < n·Avg = {sum:.1}, and every reservation can grow by Max − Avg");
        (Some("spel"), reason)
    };
    RegionAdvice {
        name: object.name.clone(),
        asked: if object.regime == Regime::Unmanaged {
            "none"
        } else {
            "spc"
        }
        .to_owned(),
        choice: choice.map(str::to_owned),
        reason,
        max: u64::from(max),
        avg,
        n,
        max_below_n_avg,
        frames_spc,
        frames_spel: grown.saturating_sub(saved),
        reservations,
    }
}

fn one(view: &EngineView, share: &ShareView, max: u32) -> ReservationAdvice {
    let id = share.reservation;
    let row = view.reservations.iter().find(|row| Some(row.id) == id);
    let frames = row.map_or(0, |row| u64::from(row.lists.capacity.get()));
    let average = share.sampled_average.max(0.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an average of 32-bit counts, not negative"
    )]
    let growth = (f64::from(max) - average).max(0.0).ceil() as u64;
    let takes_part = share.sampled_max > 0;
    let least = u64::from(max) + u64::from(UNLOCKED_FRAMES);
    ReservationAdvice {
        name: id.map_or_else(|| "the pool".to_owned(), |id| reservation_name(view, id)),
        takes_part,
        max: u64::from(share.sampled_max),
        avg: share.sampled_average,
        frames,
        frames_spc: frames,
        frames_spel: if takes_part {
            (frames + growth).max(least)
        } else {
            frames
        },
    }
}
