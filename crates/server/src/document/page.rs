//! What is to be said of one page.

use super::build::reservation_name;
use super::explain::{Look, object_name};
use crate::view::EngineView;
use freehold_core::id::{ObjectId, PinnedPoolId, ReservationId};
use freehold_core::units::PageIndex;
use freehold_core::view::{PageState, PageView, PlaceView};
use freehold_report::explanation::{Explanation, PageExplanation};

/// How far down its lists a page is looked for, so that the engine's lock is held for a bounded time.
const DEPTH: usize = 65_536;

/// On whose lists a page may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    pub(super) reservation: Option<ReservationId>,
    pub(super) pool: Option<PinnedPoolId>,
}

pub(super) fn explain_page(
    explanation: &mut Explanation,
    view: &EngineView,
    look: &Look<'_>,
    (object, page): (ObjectId, u32),
    lists: Lists,
) {
    let (mut seen, mut position): (Option<PageView>, Option<(usize, PlaceView)>) = (None, None);
    (look.core)(&mut |core| {
        seen = core.page(object, PageIndex::new(page));
        let reserved = lists.reservation.into_iter().flat_map(|id| core.pages_of(id));
        let pinned = lists.pool.into_iter().flat_map(|id| core.pages_pinned_by(id));
        let mut places = reserved.chain(pinned).take(DEPTH).enumerate();
        let found = places.find(|(_, (at, _))| at.object() == object && at.page().get() == page);
        position = found.map(|(index, (_, place))| (index, place));
    });
    let Some(seen) = seen else {
        explanation.unprotected.push("the object is gone".to_owned());
        return;
    };
    let name = object_name(view, object);
    let state = match seen.state {
        PageState::Empty => "empty",
        PageState::Stored => "stored",
        PageState::Filling => "filling",
        PageState::Resident => "resident",
        PageState::Leaving => "leaving",
    };
    let owner = seen.owner.map(|id| reservation_name(view, id));
    let payer = owner.clone().unwrap_or_else(|| "the pool".to_owned());
    explanation.charged.push(format!(
        "page {page} of {name} is {state}: {payer} is charged, {} reservations have it on their lists, {} lock it",
        seen.sharers, seen.lockers
    ));
    let pinned = lists.pool.is_some();
    explanation.charged.push(match position {
        Some((_, PlaceView::Locked)) => "it is locked in this reservation: it does not leave".to_owned(),
        Some((_, PlaceView::Active)) if pinned => "it is pinned: no fault of others takes it".to_owned(),
        Some((_, PlaceView::Inactive)) if pinned => {
            "it is pinned, and was unmapped to learn whether it is still used".to_owned()
        }
        Some((index, PlaceView::Inactive)) => format!("it is inactive, and {index} pages go before it"),
        Some((index, PlaceView::Active)) => format!("it is active, and {index} pages go before it"),
        None if pinned => "it is not pinned now: it is on the global lists, if it is in a frame at all".to_owned(),
        None => "it is not among the pages of this task's reservation now".to_owned(),
    });
    explanation.page = Some(PageExplanation {
        object: name,
        page: u64::from(page),
        state: state.to_owned(),
        dirty: seen.dirty,
        owner,
        sharers: u64::from(seen.sharers),
        lockers: u64::from(seen.lockers),
        pinned: pinned && position.is_some(),
    });
}
