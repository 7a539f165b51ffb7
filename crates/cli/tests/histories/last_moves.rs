//! Moves that change nothing of who owns what, and the last ones.

use super::History;
use super::moves::{refused, some_handle, some_page};
use super::player::{Heard, region_request};
use freehold_protocol::message::{Duration, JobReport, Question, Refusal, Regime, Request, ReservationKind};

/// Where the server says no, nothing has changed; where it says yes, the pages stay. Neither shows in who owns what.
pub(super) fn lock(history: &mut History, at: usize) {
    let (reservation, _) = some_handle(history, |member| &member.memberships, at);
    let (object, _) = some_handle(history, |member| &member.objects, at);
    let request = Request::Lock {
        reservation,
        object,
        first: u32::try_from(history.below(20)).unwrap(),
        pages: u32::try_from(1 + history.below(8)).unwrap(),
    };
    let heard = history.model.members[at].player.ask(&request);
    assert!(matches!(heard, Heard::Done | Heard::Refused(..)), "{heard:?}");
}

pub(super) fn unlock(history: &mut History, at: usize) {
    let (reservation, _) = some_handle(history, |member| &member.memberships, at);
    let (object, _) = some_handle(history, |member| &member.objects, at);
    let request = Request::Unlock {
        reservation,
        object,
        first: u32::try_from(history.below(20)).unwrap(),
        pages: u32::try_from(1 + history.below(4)).unwrap(),
    };
    let heard = history.model.members[at].player.ask(&request);
    assert!(matches!(heard, Heard::Done | Heard::Refused(..)), "{heard:?}");
}

/// Requests that change nothing of who owns what.
pub(super) fn ask_more(history: &mut History, at: usize) {
    let (task, _) = some_handle(history, |member| &member.tasks, at);
    let (pool, _) = some_handle(history, |member| &member.memberships, at);
    let others = [1, history.server.child.id(), history.model.members[0].player.pid()];
    let process = others[history.pick(others.len())];
    let (response, missed) = (history.next(), history.below(2) == 0);
    let requests = [
        Request::Count { task },
        Request::CountProcess { process },
        Request::Sample { period: 0, process },
        Request::JobEnd { task, response, missed },
        Request::Keep {
            address: 1 << 30,
            length: 4096,
        },
        Request::Ask {
            question: Question::Laws,
            target: "",
        },
        Request::ReportJob {
            pool,
            job: JobReport {
                missed,
                running: Duration::new(response),
                remaining: Duration::ZERO,
                swap_ins: 7,
                swap_time: Duration::new(response),
                swap_delay: Duration::new(1),
                delay: Duration::new(response),
                memory_delay: Duration::new(response),
                slack: Duration::new(3),
            },
            next_release: response,
        },
        Request::OpenFile {
            regime: Regime::Conserve,
            path: "a file",
        },
    ];
    let which = history.pick(requests.len());
    let player = &history.model.members[at].player;
    let heard = match requests[which] {
        request @ Request::OpenFile { .. } => player.open_file(&request),
        request => player.ask(&request),
    };
    match (requests[which], &heard) {
        (Request::Ask { .. }, _) => refused(&heard, Refusal::Forbidden, "the laws are not for users"),
        (Request::OpenFile { .. }, Heard::Opened(object)) => {
            assert_eq!(player.ask(&Request::CloseObject { object: *object }), Heard::Done);
        }
        _ => assert_ne!(heard, Heard::Nothing, "{:?}", requests[which]),
    }
}

pub(super) fn die(history: &mut History, at: usize) {
    history.model.die(at);
}

/// Nobody hears whether it was met; what it made returns in any case.
pub(super) fn die_while_asking(history: &mut History, at: usize) {
    let name = format!("never{}", history.model.number());
    let kind = ReservationKind::Hard;
    let requests = [
        Request::Reserve {
            name: &name,
            frames: 3,
            kind,
        },
        region_request(&name, 5, true),
        Request::Forked { parent: 1 },
        Request::AddTask {
            membership: 0,
            urgency: 0,
            name: &name,
        },
    ];
    let which = history.pick(requests.len() + 1);
    let page = some_page(history, at);
    let player = &history.model.members[at].player;
    match (requests.get(which), page) {
        (Some(request), _) => player.post(request),
        // What it writes is what was there: nobody knows how far it comes.
        (None, Some((mapping, page, region, place))) => {
            player.begin_to_write(mapping, page, history.model.regions[&region].words[place]);
        }
        (None, None) => {}
    }
    history.model.die(at);
}
