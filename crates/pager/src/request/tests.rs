use super::{Account, Candidate, HolderRow, Transfer, Transfers};
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

const FIRST: HolderRow = HolderRow(1);
const SECOND: HolderRow = HolderRow(2);

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
        page,
        number: page.page().get(),
        kind: Request::Evict,
        due: Instant::new(due),
        refused: false,
        account: Account {
            holder,
            task: None,
            since: Instant::ZERO,
        },
    }
}

fn at(number: u32, due: u64) -> Option<Candidate> {
    let due = Instant::new(due);
    Some(Candidate {
        number,
        due,
        foreign: false,
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
    assert_eq!(transfers.ripen(0, Instant::new(1)), None);
    for (page, due) in [(0, u64::MAX), (1, u64::MAX), (2, 40)] {
        transfers.insert(transfer(pages[page], due, FIRST));
    }
    assert_eq!(transfers.candidate(FIRST, 0, Instant::new(9)), at(2, 40));
    assert_eq!(transfers.ripen(1, Instant::new(30)), Some(FIRST));
    // Once due it stays so, and what has a time of its own keeps it.
    assert_eq!(transfers.ripen(1, Instant::new(90)), None);
    assert_eq!(transfers.ripen(2, Instant::new(90)), None);
    assert!(transfers.is_due(FIRST, Instant::new(30)) && !transfers.is_due(FIRST, Instant::new(29)));
    assert!(transfers.take_page_due(0, Instant::new(50)).is_none());
    transfers.retime(2, Instant::new(20));
    assert_eq!(transfers.earliest(), at(2, 20));
    transfers.retime(2, Instant::new(60));
    assert_eq!(
        transfers.take_due(FIRST, Instant::new(50)).map(|taken| taken.number),
        Some(1)
    );
    assert!(transfers.take_page_due(2, Instant::new(60)).is_some());
    assert_eq!(transfers.counts(), (1, 3));
}

#[test]
fn each_holder_gets_its_transfers_in_order_of_due_times() {
    let pages = pages(6);
    let transfers = Transfers::new(6, 6, 3);
    for (page, due, holder) in [
        (0, 30, FIRST),
        (1, 10, FIRST),
        (2, 20, FIRST),
        (3, 5, SECOND),
        (4, 10, FIRST),
    ] {
        assert_eq!(transfers.insert(transfer(pages[page], due, holder)), Some(false));
    }
    assert!(!transfers.is_due(FIRST, Instant::new(9)) && transfers.is_due(FIRST, Instant::new(10)));
    let mut order = Vec::new();
    while let Some(taken) = transfers.take_due(FIRST, Instant::new(25)) {
        order.push(taken.number);
    }
    assert_eq!(order, [1, 4, 2]);
    assert_eq!(transfers.counts(), (2, 5));
    assert_eq!(transfers.take_page(3).map(|taken| taken.number), Some(3));
    assert!(transfers.take_page(3).is_none());
    assert_eq!(transfers.earliest(), at(0, 30));
}

#[test]
fn a_page_has_one_transfer_and_a_full_table_refuses() {
    let pages = pages(3);
    let transfers = Transfers::new(2, 3, 2);
    assert!(transfers.insert(transfer(pages[0], 1, FIRST)).is_some());
    assert!(transfers.insert(transfer(pages[0], 2, FIRST)).is_none());
    assert!(transfers.insert(transfer(pages[1], 1, FIRST)).is_some());
    assert!(transfers.insert(transfer(pages[2], 1, FIRST)).is_none());
    assert!(transfers.take_page(0).is_some());
    assert!(transfers.insert(transfer(pages[2], 1, FIRST)).is_some());
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
    assert_eq!(transfers.candidate(FIRST, 0, Instant::new(11)), at(1, 10));
    assert_eq!(transfers.insert(transfer(pages[2], 50, SECOND)), Some(false));
}
