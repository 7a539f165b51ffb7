use super::{Account, Candidate, HolderRow, Moving, Transfer, Transfers};
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

const FIRST: HolderRow = HolderRow::new(1);
const SECOND: HolderRow = HolderRow::new(2);

/// Names of pages: only a core makes them.
fn pages(count: u32) -> Vec<PageRef> {
    let limits = Limits {
        frames: FrameCount::new(count),
        pages: PageCount::new(count),
        reservations: 1,
        objects: 1,
        tasks: 1,
        mappings: 1,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    };
    let mut memory: Memory = limits.seal().unwrap();
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(count),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).unwrap();
    let task = memory.add_task(None).unwrap();
    let mapping = memory.map(task, object).unwrap();
    let mut name = |page| {
        let access = Access::Read;
        let page = PageIndex::new(page);
        memory
            .handle_fault(Instant::ZERO, Fault { mapping, page, access })
            .unwrap();
        let mut found = None;
        while let Some(effect) = memory.poll_effect() {
            if let Effect::Fill { page, .. } = effect {
                found = Some(page);
            }
        }
        let page = found.unwrap();
        memory.handle_done(Instant::ZERO, page, Request::Fill).unwrap();
        while memory.poll_effect().is_some() {}
        page
    };
    (0..count).map(&mut name).collect()
}

fn transfer(page: PageRef, due: u64, holder: HolderRow) -> Transfer {
    Transfer {
        record: page.page().get(),
        queue: holder.index(),
        due: Instant::new(due),
        urgency: 0,
        frees_for: None,
        what: Moving {
            page,
            kind: Request::Evict,
            refused: false,
            cached: false,
            account: Account {
                holder,
                task: None,
                since: Instant::ZERO,
            },
        },
    }
}

fn at(number: u32, due: u64) -> Option<Candidate> {
    let due = Instant::new(due);
    Some(Candidate {
        number,
        due,
        foreign: false,
        beside: false,
    })
}

/// What a task drives whose page has a transfer that is due later.
fn beside(number: u32, due: u64) -> Option<Candidate> {
    at(number, due).map(|candidate| Candidate {
        beside: true,
        ..candidate
    })
}

fn foreign(number: u32, due: u64) -> Option<Candidate> {
    at(number, due).map(|candidate| Candidate {
        foreign: true,
        ..candidate
    })
}

#[test]
fn transfers_become_due_when_told_and_move_to_their_places() {
    let pages = pages(3);
    let transfers = Transfers::new(3, 3, 3);
    assert_eq!(transfers.complete(0, Instant::new(1)), None);
    for (page, due) in [(0, u64::MAX), (1, u64::MAX), (2, 40)] {
        transfers.insert(transfer(pages[page], due, FIRST));
    }
    assert_eq!(transfers.candidate(FIRST, 0, Instant::new(9)), beside(2, 40));
    assert_eq!(transfers.complete(1, Instant::new(30)), Some(FIRST));
    // Once due it stays so, and what has a time of its own keeps it.
    assert_eq!(transfers.complete(1, Instant::new(90)), None);
    assert_eq!(transfers.complete(2, Instant::new(90)), None);
    assert!(transfers.is_due(FIRST, Instant::new(30)) && !transfers.is_due(FIRST, Instant::new(29)));
    assert!(transfers.take_page_due(0, Instant::new(50)).is_none());
    transfers.retime(2, Instant::new(20));
    assert_eq!(transfers.earliest(), at(2, 20));
    transfers.retime(2, Instant::new(60));
    assert_eq!(
        transfers.take_due(FIRST, Instant::new(50)).map(|taken| taken.record),
        Some(1)
    );
    assert!(transfers.take_page_due(2, Instant::new(60)).is_some());
    assert_eq!(transfers.counts(), (1, 3));
}

#[test]
fn a_waiting_task_drives_its_page_then_its_holder_then_anybody() {
    let pages = pages(4);
    let transfers = Transfers::new(4, 4, 3);
    let now = Instant::new(15);
    assert_eq!(transfers.candidate(FIRST, 0, now), None);
    // It drifts: whoever enters a transfer is told.
    assert_eq!(transfers.insert(transfer(pages[3], 40, SECOND)), Some(true));
    transfers.found();
    assert_eq!(transfers.candidate(FIRST, 0, now), foreign(3, 40));
    transfers.insert(transfer(pages[1], 10, FIRST));
    assert_eq!(transfers.candidate(FIRST, 0, now), at(1, 10));
    transfers.insert(transfer(pages[0], 12, SECOND));
    assert_eq!(transfers.candidate(FIRST, 0, now), at(0, 12));
    assert_eq!(transfers.candidate(FIRST, 0, Instant::new(11)), beside(1, 10));
    assert_eq!(transfers.insert(transfer(pages[2], 50, SECOND)), Some(false));
}
