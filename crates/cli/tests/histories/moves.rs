//! What members do: each move asks the server for something, says beforehand what must come of it, and notes it.

use super::History;
use super::last_moves::{ask_more, die, die_while_asking, lock, unlock};
use super::model::{Held, MOST, Mapping, Member, Region};
use super::player::{Heard, Player, region_request};
use freehold_protocol::message::{Duration, PageCount, PinningSettings, Refusal, Request, ReservationKind, Role};
use std::collections::BTreeMap;

/// What a member does.
type Move = fn(&mut History, usize);

/// What members do, and how often.
const MOVES: [(u32, Move); 17] = [
    (6, reserve),
    (3, join),
    (3, release),
    (4, open_pool),
    (6, add_task),
    (2, remove_task),
    (6, open_region),
    (3, close_object),
    (8, map),
    (3, unmap),
    (20, write),
    (20, read),
    (3, lock),
    (2, unlock),
    (4, ask_more),
    (1, die),
    (1, die_while_asking),
];

/// Handles that name nothing are tried so often: one of so many.
const WRONG: u64 = 12;

/// One move of a member.
pub(crate) fn step(history: &mut History, at: usize) {
    let all: u32 = MOVES.iter().map(|(weight, _)| weight).sum();
    let mut left = history.below(u64::from(all));
    for (weight, play) in MOVES {
        match left.checked_sub(weight.into()) {
            Some(rest) => left = rest,
            None => return play(history, at),
        }
    }
}

/// Somebody comes.
pub(crate) fn come(history: &mut History) {
    let users: Vec<u32> = history.model.quotas.keys().copied().collect();
    let user = users[history.pick(users.len())];
    let player = Player::start(&history.program, &history.server.socket, user);
    let library = history.below(4) > 0;
    let hello = Request::Hello {
        role: if library { Role::Library } else { Role::Observer },
        agent_thread: 0,
        name: "player",
    };
    let heard = if library {
        player.greet(&hello)
    } else {
        player.ask(&hello)
    };
    assert_eq!(heard, Heard::Other, "a welcome");
    history.model.members.push(Member {
        player,
        library,
        memberships: BTreeMap::new(),
        tasks: BTreeMap::new(),
        objects: BTreeMap::new(),
        again: BTreeMap::new(),
        mappings: BTreeMap::new(),
    });
}

pub(super) fn refused(heard: &Heard, expected: Refusal, what: &str) {
    assert!(
        matches!(heard, Heard::Refused(why, _) if *why == expected),
        "{what}: {expected:?} is due, and it is {heard:?}"
    );
}

/// One of these handles, or at times one that names nothing; 999 where there is none.
pub(super) fn some_handle<T>(
    history: &mut History,
    handles: impl Fn(&Member) -> &BTreeMap<u32, T>,
    at: usize,
) -> (u32, bool) {
    let known: Vec<u32> = handles(&history.model.members[at]).keys().copied().collect();
    if known.is_empty() || history.below(WRONG) == 0 {
        return (999, false);
    }
    (known[history.pick(known.len())], true)
}

fn reserve(history: &mut History, at: usize) {
    let member = &history.model.members[at];
    if member.memberships.len() >= MOST {
        return;
    }
    let user = member.player.user;
    let number = history.model.number();
    let name = format!("v{number}");
    let rest = u64::from(history.model.rest_of(user));
    // At the edge of what is left at times, and past it.
    let frames = match history.below(6) {
        0 => rest + 1,
        1 if rest > 0 => rest,
        _ => 1 + history.below(200),
    };
    let frames = u32::try_from(frames).unwrap();
    let kind = if history.below(2) == 0 {
        ReservationKind::Hard
    } else {
        ReservationKind::Firm
    };
    let request = Request::Reserve {
        name: &name,
        frames,
        kind,
    };
    let heard = history.model.members[at].player.ask(&request);
    if u64::from(frames) > rest {
        return refused(&heard, Refusal::Exhausted, "more than the quota leaves");
    }
    let Heard::Reserved(handle, ticket) = heard else {
        panic!("{frames} frames of {rest} are not reserved: {heard:?}");
    };
    hold(history, at, handle, &name, ticket, (frames, false));
}

fn hold(history: &mut History, at: usize, handle: u32, name: &str, ticket: (u64, u64), (frames, pool): (u32, bool)) {
    let user = history.model.members[at].player.user;
    let held = Held {
        user,
        frames,
        pool,
        holders: 1,
    };
    history.model.held.insert(name.to_owned(), held);
    history.tickets.push((name.to_owned(), ticket));
    history.model.members[at].memberships.insert(handle, name.to_owned());
}

fn open_pool(history: &mut History, at: usize) {
    let member = &history.model.members[at];
    if member.memberships.len() >= MOST {
        return;
    }
    let user = member.player.user;
    let number = history.model.number();
    let name = format!("p{number}");
    let rest = history.model.rest_of(user);
    let highest = 1 + u32::try_from(history.below(150)).unwrap();
    let settings = PinningSettings {
        highest_swap_budget: Duration::new(1_000),
        initial_capacity: PageCount::new(highest / 2),
        highest_capacity: PageCount::new(highest),
        gamma: 2,
        ..PinningSettings::paper(Duration::new(500_000), Duration::new(1_000_000))
    };
    let request = Request::OpenPool { name: &name, settings };
    match history.model.members[at].player.ask(&request) {
        Heard::Reserved(handle, ticket) => {
            assert!(
                highest <= rest,
                "a pool of {highest} pages, where {rest} frames are left"
            );
            hold(history, at, handle, &name, ticket, (highest, true));
        }
        heard => {
            // The pool of the server may have promised its frames: then too nothing has changed.
            assert!(
                matches!(heard, Heard::Refused(Refusal::Exhausted | Refusal::State, _)),
                "{heard:?}"
            );
        }
    }
}

fn join(history: &mut History, at: usize) {
    if history.tickets.is_empty() || history.model.members[at].memberships.len() >= MOST {
        return;
    }
    let which = history.pick(history.tickets.len());
    let (name, (ticket_high, ticket_low)) = history.tickets[which].clone();
    let request = Request::Join {
        ticket_high,
        ticket_low,
    };
    let heard = history.model.members[at].player.ask(&request);
    match history.model.held.get_mut(&name).filter(|held| held.holders > 0) {
        None => refused(&heard, Refusal::Unknown, "a ticket of nothing"),
        Some(held) => {
            let Heard::Reserved(handle, _) = heard else {
                panic!("{heard:?}")
            };
            held.holders += 1;
            history.model.members[at].memberships.insert(handle, name);
        }
    }
}

fn release(history: &mut History, at: usize) {
    let (reservation, known) = some_handle(history, |member| &member.memberships, at);
    let heard = history.model.members[at].player.ask(&Request::Release { reservation });
    if !known {
        return refused(&heard, Refusal::Unknown, "release of nothing");
    }
    assert_eq!(heard, Heard::Done);
    let name = history.model.members[at].memberships.remove(&reservation).unwrap();
    history.model.let_go(&name);
}

fn add_task(history: &mut History, at: usize) {
    if history.model.members[at].tasks.len() >= MOST {
        return;
    }
    let name = format!("t{}", history.model.number());
    let (handle, known) = some_handle(history, |member| &member.memberships, at);
    let without = history.below(4) == 0;
    let urgent = history.below(8) == 0;
    let member = &mut history.model.members[at];
    let request = Request::AddTask {
        membership: if without { 0 } else { handle },
        urgency: u8::from(urgent),
        name: &name,
    };
    let heard = member.player.ask(&request);
    if !member.library {
        return refused(&heard, Refusal::State, "a task of an observer");
    }
    if urgent && member.player.user != super::ALLOWED {
        return refused(&heard, Refusal::Forbidden, "urgency of a user who may not");
    }
    if !without && !known {
        return refused(&heard, Refusal::Unknown, "a task in nothing");
    }
    let Heard::Made(task) = heard else { panic!("{heard:?}") };
    let within = (!without).then(|| member.memberships[&handle].clone());
    member.tasks.insert(task, (name, within));
}

fn remove_task(history: &mut History, at: usize) {
    let (task, known) = some_handle(history, |member| &member.tasks, at);
    let member = &mut history.model.members[at];
    let heard = member.player.ask(&Request::RemoveTask { task });
    if !member.library {
        return refused(&heard, Refusal::State, "a task of an observer");
    }
    if !known {
        return refused(&heard, Refusal::Unknown, "a task that is not there");
    }
    assert_eq!(heard, Heard::Done);
    member.tasks.remove(&task);
    let gone = member.mappings.iter().filter(|(_, mapping)| mapping.task == task);
    let gone: Vec<u32> = gone.map(|(handle, _)| *handle).collect();
    for handle in gone {
        member.mappings.remove(&handle);
        member.player.drop_mapping(handle);
        // Its handle says nothing more to the server.
        refused(
            &member.player.unmap(handle),
            Refusal::Unknown,
            "a mapping of a task that is gone",
        );
    }
    history.model.forget();
}

fn open_region(history: &mut History, at: usize) {
    if history.model.members[at].objects.len() >= MOST {
        return;
    }
    let user = history.model.members[at].player.user;
    let shared = history.below(3) > 0;
    // A few names, the same for all users, always with the same size but for mistakes.
    let which = history.below(3);
    let name = if shared {
        format!("r{which}")
    } else {
        format!("private{}", history.model.number())
    };
    let right = 10 + 20 * u32::try_from(which).unwrap();
    let pages = if history.below(10) == 0 { right + 1 } else { right };
    let found = history.model.region_named(user, &name).filter(|_| shared);
    let member = &mut history.model.members[at];
    let heard = member.player.ask(&region_request(&name, pages, shared));
    if !member.library {
        return refused(&heard, Refusal::State, "a region of an observer");
    }
    if found.is_some_and(|region| history.model.regions[&region].words.len() != pages as usize) {
        return refused(&heard, Refusal::State, "another size");
    }
    let Heard::Opened(handle) = heard else {
        panic!("{heard:?}")
    };
    let region = found.unwrap_or_else(|| history.model.number());
    let row = history.model.regions.entry(region).or_insert_with(|| Region {
        name,
        user,
        shared,
        words: vec![0; pages as usize],
        openings: 0,
    });
    // What a connection has open already keeps its handle, until it is closed as often.
    let member = &mut history.model.members[at];
    if member.objects.insert(handle, region).is_none() {
        row.openings += 1;
    } else {
        *member.again.entry(handle).or_default() += 1;
    }
}

fn close_object(history: &mut History, at: usize) {
    let (object, known) = some_handle(history, |member| &member.objects, at);
    let member = &mut history.model.members[at];
    let heard = member.player.ask(&Request::CloseObject { object });
    if !known {
        return refused(&heard, Refusal::Unknown, "an object that is not open");
    }
    assert_eq!(heard, Heard::Done);
    if let Some(again) = member.again.get_mut(&object).filter(|again| **again > 0) {
        *again -= 1;
        return;
    }
    let region = member.objects.remove(&object).unwrap();
    history.model.close(region);
}

fn map(history: &mut History, at: usize) {
    let member = &history.model.members[at];
    if member.mappings.len() >= MOST || member.objects.is_empty() {
        return;
    }
    let (task, is_task) = some_handle(history, |member| &member.tasks, at);
    let (object, is_object) = some_handle(history, |member| &member.objects, at);
    let known = history.model.members[at].objects.get(&object);
    let size = known.map_or(1, |region| history.model.regions[region].words.len()) as u64;
    let first = history.below(size);
    let pages = 1 + history.below(size - first);
    // Past the end at times.
    let pages = if history.below(WRONG) == 0 {
        size - first + 1
    } else {
        pages
    };
    let member = &mut history.model.members[at];
    let heard = member.player.map([task.into(), object.into(), first, pages]);
    if !is_task || !is_object || first + pages > size {
        return refused(&heard, Refusal::Unknown, "a mapping of what is not there");
    }
    let Heard::Made(handle) = heard else {
        panic!("{heard:?}")
    };
    let mapping = Mapping {
        task,
        region: member.objects[&object],
        first: u32::try_from(first).unwrap(),
        pages: u32::try_from(pages).unwrap(),
    };
    member.mappings.insert(handle, mapping);
}

fn unmap(history: &mut History, at: usize) {
    let (mapping, known) = some_handle(history, |member| &member.mappings, at);
    let member = &mut history.model.members[at];
    let heard = member.player.unmap(mapping);
    if !member.library {
        return refused(&heard, Refusal::State, "a mapping of an observer");
    }
    if !known {
        return refused(&heard, Refusal::Unknown, "a mapping that is not there");
    }
    assert_eq!(heard, Heard::Done);
    member.mappings.remove(&mapping);
    history.model.forget();
}

/// A page of a mapping: its handle, the page there, the region, and the page in the region.
pub(super) fn some_page(history: &mut History, at: usize) -> Option<(u32, u32, u32, usize)> {
    let known: Vec<(u32, Mapping)> = {
        let member = &history.model.members[at];
        member
            .mappings
            .iter()
            .map(|(handle, mapping)| (*handle, *mapping))
            .collect()
    };
    if known.is_empty() {
        return None;
    }
    let (handle, mapping) = known[history.pick(known.len())];
    let page = u32::try_from(history.below(mapping.pages.into())).unwrap();
    Some((handle, page, mapping.region, (mapping.first + page) as usize))
}

fn write(history: &mut History, at: usize) {
    for _ in 0..4 {
        let Some((mapping, page, region, place)) = some_page(history, at) else {
            return;
        };
        let value = history.next();
        history.model.members[at]
            .player
            .write(mapping, page, value)
            .expect("it lives");
        history.model.regions.get_mut(&region).unwrap().words[place] = value;
    }
}

fn read(history: &mut History, at: usize) {
    for _ in 0..4 {
        let Some((mapping, page, region, place)) = some_page(history, at) else {
            return;
        };
        let found = history.model.members[at].player.read(mapping, page);
        let region = &history.model.regions[&region];
        assert_eq!(found, Some(region.words[place]), "page {place} of {}", region.name);
    }
}
