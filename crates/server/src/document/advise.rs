//! Advice for living processes: conservation or the eviction lock for each shared object (the paper's Table IV).
//!
//! The rule is [`choice`], and the rows are those of the advice for scenarios. Max(S) of the object is the distinct
//! pages that any of the reservations has been seen to touch; each locks those that it touches itself.

use super::build::reservation_name;
use crate::control::Refused;
use crate::view::{EngineView, ObjectView, ShareView};
use freehold_core::UNLOCKED_FRAMES;
use freehold_core::id::{ObjectId, ReservationId};
use freehold_core::limits::Regime;
use freehold_core::sharing::choice::{self, Choice, Sharer, Union, Weighed};
use freehold_protocol::message::Refusal;
use freehold_report::advice::{AdviceDocument, RegionAdvice, ReservationAdvice};
use freehold_report::sharing::Sharing;
use std::collections::BTreeSet;

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
    let pages: BTreeSet<u32> = chosen.iter().flat_map(|id| touched(object.id, *id)).collect();
    let sharers: Vec<Sharer> = shares.iter().map(|share| sharer(view, share)).collect();
    let all = pages.len() as u64;
    let weighed = choice::choose(&sharers, Union { all, fixed: 0 });
    let reservations: Vec<ReservationAdvice> = shares
        .iter()
        .zip(&sharers)
        .map(|(share, sharer)| line(view, share, sharer))
        .collect();
    let (choice, reason) = if object.regime == Regime::Unmanaged {
        let reason = "it is under `none`, for comparison: nothing is conserved or locked".to_owned();
        (None, reason)
    } else if weighed.n < 2 {
        let reason = "fewer than two of these reservations were seen to touch it while sampled".to_owned();
        (None, reason)
    } else {
        chosen_of(view, &weighed, &reservations)
    };
    #[allow(clippy::cast_precision_loss, reason = "a handful of reservations")]
    let avg = weighed.sum_of_averages / weighed.n.max(1) as f64;
    RegionAdvice {
        name: object.name.clone(),
        asked: Sharing::from(object.regime),
        choice,
        reason,
        max: weighed.max,
        avg,
        n: weighed.n,
        max_below_n_avg: weighed.is_below(),
        frames_spc: weighed.frames_spc,
        frames_spel: weighed.frames_spel,
        reservations,
    }
}

/// What the rule came to, and whether there is room for it.
fn chosen_of(view: &EngineView, weighed: &Weighed, reservations: &[ReservationAdvice]) -> (Option<Sharing>, String) {
    let (max, sum) = (weighed.max, weighed.sum_of_averages);
    let pool = &view.pool;
    let promised = pool.committed.get().saturating_add(pool.outside.get());
    let available = u64::from(pool.total.get().saturating_sub(promised));
    let growth: u64 = reservations.iter().map(|part| part.frames_spel - part.frames_spc).sum();
    let spc = |but: String| (Some(Sharing::Spc), format!("Max = {max} < n·Avg = {sum:.1}, but {but}"));
    match weighed.choice {
        Choice::NotBelow => (Some(Sharing::Spc), format!("Max = {max} is not below n·Avg = {sum:.1}")),
        Choice::TooSmall(position) => {
            let part = &reservations[position];
            spc(format!(
                "grown by Max − Avg {} is too small to lock {} pages and leave {UNLOCKED_FRAMES} frames unlocked",
                part.name, part.max
            ))
        }
        Choice::NothingSaved => spc("not in whole frames".to_owned()),
        Choice::Spel if growth > available => spc(format!("the reservations cannot grow by {growth} frames")),
        Choice::Spel => {
            let reason = format!("Max = {max} < n·Avg = {sum:.1}, and every reservation can grow by Max − Avg");
            (Some(Sharing::Spel), reason)
        }
    }
}

fn sharer(view: &EngineView, share: &ShareView) -> Sharer {
    let id = share.reservation;
    let row = view.reservations.iter().find(|row| Some(row.id) == id);
    Sharer {
        frames: row.map_or(0, |row| u64::from(row.lists.capacity.get())),
        max: u64::from(share.sampled_max),
        avg: share.sampled_average.max(0.0),
        fixed: None,
    }
}

fn line(view: &EngineView, share: &ShareView, sharer: &Sharer) -> ReservationAdvice {
    let id = share.reservation;
    ReservationAdvice {
        name: id.map_or_else(|| "the pool".to_owned(), |id| reservation_name(view, id)),
        takes_part: sharer.takes_part(),
        max: sharer.max,
        avg: share.sampled_average,
        frames: sharer.frames,
        frames_spc: sharer.frames,
        frames_spel: sharer.grown().max(sharer.least()),
    }
}
