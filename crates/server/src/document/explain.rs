//! Explanations: what a process, an address, a reservation or a region can count on, and why.

use super::Snapshot;
use super::build::{address, kind_name, reservation_name};
use super::page::{Lists, explain_page};
use super::{pools, ranges};
use crate::control::{Refused, Unmanaged};
use crate::engine::ClientId;
use crate::view::{ClientView, EngineView, ObjectView, PinnedPoolRow, ReservationRow};
use freehold_core::Memory;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::view::PlaceView;
use freehold_protocol::PAGE_SIZE;
use freehold_protocol::message::Refusal;
use freehold_report::explanation::{Explanation, Guarantee, Victim};

/// Victims named for each reservation.
const VICTIMS: usize = 8;
/// Reasons named why something is not protected.
const REASONS: usize = 12;

/// What lends the core to somebody for a moment.
pub(super) type Lend<'a> = dyn Fn(&mut dyn FnMut(&Memory)) + 'a;

/// How the engine is looked at, each time for a moment.
pub(super) struct Look<'a> {
    /// Lends the core.
    pub(super) core: &'a Lend<'a>,
    /// The object and the page at an address of a client.
    pub(super) locate: &'a dyn Fn(ClientId, u64) -> Option<(ObjectId, u32)>,
    /// Programs that run unmanaged.
    pub(super) strangers: &'a [(Unmanaged, u64)],
}

/// Explains `PID`, `PID:0xADDRESS`, a reservation's or an object's name.
pub(super) fn explain(snapshot: &Snapshot, look: &Look<'_>, target: &str) -> Result<Explanation, Refused> {
    let view = &*snapshot.view;
    let mut explanation = Explanation {
        target: target.to_owned(),
        ..Explanation::default()
    };
    let (process, place) = target
        .split_once(':')
        .map_or((target, None), |(pid, place)| (pid, Some(place)));
    let region = view
        .objects
        .iter()
        .find(|object| place.is_some() && object.name == target);
    let region = region.filter(|_| place.is_none_or(|place| parse_address(place).is_err()));
    if let Some(object) = region {
        explain_object(&mut explanation, view, object);
    } else if let Ok(pid) = process.parse::<u32>() {
        let client = view.clients.iter().find(|client| client.pid == pid);
        let client = client.ok_or_else(|| unknown(&no_client(pid, look.strangers)))?;
        match place {
            None => explain_process(&mut explanation, view, look, client),
            Some(place) => explain_address(&mut explanation, view, look, client, parse_address(place)?),
        }
    } else if let Some(row) = view.reservations.iter().find(|row| row.name == target) {
        explain_reservation(&mut explanation, view, look, row);
    } else if let Some(object) = find_object(view, target) {
        explain_object(&mut explanation, view, object);
    } else {
        let text = format!("{target:?} is no process id, reservation, region or file here: see `freehold status`");
        return Err(unknown(&text));
    }
    explanation.text = sentences(&explanation);
    Ok(explanation)
}

/// Why nothing of a process is protected.
fn no_client(pid: u32, strangers: &[(Unmanaged, u64)]) -> String {
    match strangers.iter().rev().find(|(stranger, _)| stranger.pid == pid) {
        Some((Unmanaged { name, why, .. }, _)) => format!(
            "process {pid} ({name}) runs unmanaged, though a client has begun it: {}; nothing of it is protected, and \
             it uses no frames of a reservation",
            why.text()
        ),
        None => format!(
            "process {pid} is no client of this server: nothing of it is protected; start it with `freehold exec`"
        ),
    }
}

fn unknown(text: &str) -> Refused {
    Refused::new(Refusal::Unknown, text)
}

fn parse_address(place: &str) -> Result<u64, Refused> {
    let digits = place.strip_prefix("0x").unwrap_or(place);
    u64::from_str_radix(digits, 16).map_err(|_| unknown(&format!("{place:?} is not an address such as 0x7f0012345000")))
}

/// An object by its name, or a file by the end of its path.
fn find_object<'a>(view: &'a EngineView, target: &str) -> Option<&'a ObjectView> {
    let exact = view.objects.iter().find(|object| object.name == target);
    let end = format!("/{target}");
    exact.or_else(|| view.objects.iter().find(|object| object.name.ends_with(&end)))
}

fn explain_process(explanation: &mut Explanation, view: &EngineView, look: &Look<'_>, client: &ClientView) {
    "process".clone_into(&mut explanation.kind);
    for task in &client.tasks {
        let row = view.reservations.iter().find(|row| Some(row.id) == task.reservation);
        let pool = pools::find(view, task.pinned);
        explanation.guarantees.push(guarantee(Some(&task.name), row, pool));
        if let Some(row) = row {
            explanation.next.extend(victims(view, look, row));
        }
        if let Some(pool) = pool {
            explanation.pinning.extend(pools::sentences(pool));
        }
    }
    if client.tasks.is_empty() {
        explanation.guarantees.push(guarantee(None, None, None));
    }
    let private = client.private.resident + client.private.slots;
    explanation.charged.push(format!(
        "its private memory: {private} pages in frames, {} in the store, charged to its first task",
        client.private.stored
    ));
    if client.private.lent_total > 0 {
        explanation.charged.push(format!(
            "{} pages lent to it beyond its reservation, {} so far: input, output or the kernel kept all others",
            client.private.lent, client.private.lent_total
        ));
    }
    let mapped = |object: &&ObjectView| object.mappers.iter().any(|mapper| mapper.client == client.id);
    let mut absent = 0_u32;
    for object in view.objects.iter().filter(mapped) {
        if object.resident > 0 {
            explanation.charged.extend(charges(view, object));
        } else {
            absent += 1;
        }
    }
    if absent > 0 {
        explanation.charged.push(format!(
            "nobody is charged for {absent} files that it maps: nothing of them is in frames"
        ));
    }
    explanation.unprotected = unprotected(client);
}

fn guarantee(task: Option<&str>, row: Option<&ReservationRow>, pool: Option<&PinnedPoolRow>) -> Guarantee {
    let who = task.map_or_else(|| "it".to_owned(), |task| format!("task {task}"));
    let Some(row) = row else {
        return Guarantee {
            task: task.map(str::to_owned),
            reservation: None,
            frames: 0,
            text: pool.map_or_else(
                || {
                    format!(
                        "{who} has no reservation: nothing is promised. Its pages are on the global lists, and any \
                         admission or fault of others may take their frames"
                    )
                },
                |pool| pools::guarantee(&who, pool),
            ),
        };
    };
    let lists = &row.lists;
    let mut text = format!(
        "{who} has {} frames that nobody else can have ({}, reservation {}): {} pages active, {} inactive, {} locked, \
         {} frames free",
        lists.capacity.get(),
        kind_name(row.kind),
        row.name,
        lists.active.get(),
        lists.inactive.get(),
        lists.locked.get(),
        lists.free.get()
    );
    if lists.borrowed.get() > 0 {
        text.push_str(&format!(
            "; {} more are borrowed and may be taken back",
            lists.borrowed.get()
        ));
    }
    if row.members.len() > 1 {
        text.push_str(&format!("; {} tasks use them together", row.members.len()));
    }
    Guarantee {
        task: task.map(str::to_owned),
        reservation: Some(row.name.clone()),
        frames: u64::from(lists.capacity.get()),
        text,
    }
}

/// Who pays for an object, in sentences.
fn charges(view: &EngineView, object: &ObjectView) -> Vec<String> {
    let mut parts = Vec::new();
    for share in &object.shares {
        let name = share
            .reservation
            .map_or_else(|| "the pool".to_owned(), |id| reservation_name(view, id));
        let foreign = share.listed.saturating_sub(share.owned);
        parts.push(format!(
            "{name} owns {} and has {foreign} of others' mapped, with a frame conserved for each",
            share.owned
        ));
    }
    let nobody = if parts.is_empty() {
        "nobody has any on its lists".to_owned()
    } else {
        parts.join("; ")
    };
    let changed = if object.changed {
        " (the file has changed since it was opened here)"
    } else {
        ""
    };
    vec![format!(
        "{}: {} of {} pages in frames; {nobody}{changed}",
        object.name, object.resident, object.pages
    )]
}

/// What of a process nobody protects, and why.
fn unprotected(client: &ClientView) -> Vec<String> {
    let mut reasons = Vec::new();
    if client
        .tasks
        .iter()
        .all(|task| task.reservation.is_none() && task.pinned.is_none())
    {
        reasons.push("everything: it has no reservation, so its pages are the pool's".to_owned());
    } else if client.tasks.iter().any(|task| task.pinned.is_some()) {
        reasons.push("every page that is not pinned: it has no reservation".to_owned());
    }
    if client.private.inherited > 0 {
        reasons.push(format!(
            "{} pages inherited at a fork: shared with the parent by the kernel until they are written",
            client.private.inherited
        ));
    }
    for kept in &client.kept {
        let pages = (kept.end - kept.start) / PAGE_SIZE as u64;
        reasons.push(format!(
            "{pages} pages at {} are kept where they are: they do not leave, and are not counted on the lists",
            address(kept.start)
        ));
    }
    reasons.extend(client.unmanaged.iter().cloned());
    match ranges::of(client.pid, client.uid) {
        Ok(ranges) => {
            let rows = ranges::unmanaged(&ranges);
            let rest: u64 = rows.iter().skip(REASONS).map(|(pages, _)| pages).sum();
            let named = rows.iter().take(REASONS);
            reasons.extend(named.map(|(pages, why)| format!("{pages} pages: {why}")));
            if rest > 0 {
                reasons.push(format!("{rest} pages in smaller ranges"));
            }
        }
        Err(error) => reasons.push(format!("which ranges are not managed cannot be seen: {error}")),
    }
    reasons
}

fn explain_reservation(explanation: &mut Explanation, view: &EngineView, look: &Look<'_>, row: &ReservationRow) {
    "reservation".clone_into(&mut explanation.kind);
    explanation.guarantees.push(guarantee(None, Some(row), None));
    explanation.next = victims(view, look, row);
    let lists = &row.lists;
    explanation.charged.push(format!(
        "it holds {} frames: {} under pages that it owns, {} conserved for pages of others, {} free, {} in flight, \
         {} outside",
        lists.held.get(),
        lists.owned.get(),
        lists.conserved.get(),
        lists.free.get(),
        lists.in_flight.get(),
        lists.outside.get()
    ));
    let shared = |object: &&ObjectView| object.shares.iter().any(|share| share.reservation == Some(row.id));
    for object in view.objects.iter().filter(shared) {
        explanation.charged.extend(charges(view, object));
    }
    if lists.owed.get() > 0 {
        explanation.unprotected.push(format!(
            "{} frames are owed by the pool: a page that it shares under `none` was evicted by another",
            lists.owed.get()
        ));
    }
}

fn explain_object(explanation: &mut Explanation, view: &EngineView, object: &ObjectView) {
    "object".clone_into(&mut explanation.kind);
    explanation.charged = charges(view, object);
    for mapper in &object.mappers {
        let (place, last) = (
            address(mapper.address),
            u64::from(mapper.first) + u64::from(mapper.pages),
        );
        explanation.charged.push(format!(
            "process {} has pages {} to {last} at {place}",
            mapper.pid, mapper.first
        ));
    }
    if object.shares.iter().all(|share| share.reservation.is_none()) {
        let text = "no reservation has any of it: its pages are the pool's and may go at any time";
        explanation.unprotected.push(text.to_owned());
    }
}

/// The next victims of a reservation, with the reason.
fn victims(view: &EngineView, look: &Look<'_>, row: &ReservationRow) -> Vec<Victim> {
    let mut pages: Vec<(PageRef, PlaceView)> = Vec::new();
    (look.core)(&mut |core| {
        let movable = |(_, place): &(PageRef, PlaceView)| *place != PlaceView::Locked;
        pages = core.pages_of(row.id).filter(movable).take(VICTIMS).collect();
    });
    let victim = |(page, place): &(PageRef, PlaceView)| Victim {
        reservation: row.name.clone(),
        object: object_name(view, page.object()),
        page: u64::from(page.page().get()),
        reason: match place {
            PlaceView::Inactive => "inactive: unmapped, and not touched since",
            _ => "active, but no page is inactive before it: it is the longest on its list",
        }
        .to_owned(),
    };
    pages.iter().map(victim).collect()
}

pub(super) fn object_name(view: &EngineView, id: ObjectId) -> String {
    let object = view.objects.iter().find(|object| object.id == id);
    object.map_or_else(|| "private memory".to_owned(), |object| object.name.clone())
}

fn explain_address(explanation: &mut Explanation, view: &EngineView, look: &Look<'_>, client: &ClientView, place: u64) {
    "address".clone_into(&mut explanation.kind);
    let task = client.tasks.first();
    let row = view
        .reservations
        .iter()
        .find(|row| task.is_some_and(|task| task.reservation == Some(row.id)));
    let pool = pools::find(view, task.and_then(|task| task.pinned));
    explanation
        .guarantees
        .push(guarantee(task.map(|task| task.name.as_str()), row, pool));
    let lists = Lists {
        reservation: row.map(|row| row.id),
        pool: pool.map(|pool| pool.id),
    };
    if let Some(page) = mapped_page(view, client, place) {
        explain_page(explanation, view, look, page, lists);
        return;
    }
    let ranges = match ranges::of(client.pid, client.uid) {
        Ok(ranges) => ranges,
        Err(error) => {
            explanation
                .unprotected
                .push(format!("the process cannot be looked at: {error}"));
            return;
        }
    };
    match ranges.iter().find(|range| range.contains(place)) {
        None => explanation.unprotected.push("nothing is mapped there".to_owned()),
        Some(range) if range.managed => {
            if client.kept.iter().any(|range| range.contains(&place)) {
                explanation
                    .unprotected
                    .push("the range is kept where it is: its pages do not leave".to_owned());
            }
            explanation.charged.push(format!(
                "private memory of the process ({}), charged to its first task",
                range.what()
            ));
            if let Some(page) = (look.locate)(client.id, place) {
                explain_page(explanation, view, look, page, lists);
            }
        }
        Some(range) => {
            let why = range
                .why_unmanaged()
                .unwrap_or_else(|| format!("{}: not managed, and not resident", range.what()));
            let lock = if range.is_locked() {
                "; the program has locked it itself"
            } else {
                ""
            };
            explanation.unprotected.push(format!("{why}{lock}"));
        }
    }
}

/// The page of a shared object that a client has at an address.
fn mapped_page(view: &EngineView, client: &ClientView, place: u64) -> Option<(ObjectId, u32)> {
    view.objects.iter().find_map(|object| {
        let mapper = object.mappers.iter().find(|mapper| {
            let length = u64::from(mapper.pages) * PAGE_SIZE as u64;
            mapper.client == client.id && (mapper.address..mapper.address.saturating_add(length)).contains(&place)
        })?;
        let page = u64::from(mapper.first) + (place - mapper.address) / PAGE_SIZE as u64;
        Some((object.id, u32::try_from(page).ok()?))
    })
}

fn sentences(explanation: &Explanation) -> Vec<String> {
    let mut text: Vec<String> = Vec::new();
    text.extend(
        explanation
            .guarantees
            .iter()
            .map(|row| format!("guarantee: {}", row.text)),
    );
    text.extend(explanation.charged.iter().map(|line| format!("charged: {line}")));
    text.extend(explanation.pinning.iter().map(|line| format!("pinning: {line}")));
    for victim in &explanation.next {
        text.push(format!(
            "next: page {} of {} leaves {} ({})",
            victim.page, victim.object, victim.reservation, victim.reason
        ));
    }
    text.extend(
        explanation
            .unprotected
            .iter()
            .map(|line| format!("not protected: {line}")),
    );
    text
}
