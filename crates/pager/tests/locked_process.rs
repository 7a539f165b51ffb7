//! Real-time programs lock their memory. Alone in its process, which is what gets locked.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{audit, check_page, hard, pager, private, write_page};
use freehold_pager::core::limits::{ObjectKind, ObjectSpec, Regime};
use freehold_pager::core::units::PageCount;
use freehold_pager::{CreateObjectError, MapObjectError};

fn lock_process(flags: i32) {
    // SAFETY: locking memory changes nothing that this program relies on.
    assert_eq!(unsafe { libc::mlockall(flags) }, 0);
}

#[test]
fn locking_on_fault_is_harmless_and_filling_what_is_to_come_is_refused() {
    let pager = pager(32, 96, 0);
    let reservation = hard(&pager, 16);
    let object = private(&pager, 64);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    lock_process(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
    // Mapped under the lock, and still not filled.
    private(&pager, 8);
    let bound = task.enter().unwrap();
    for version in 1..4 {
        for page in 0..64 {
            check_page(&bound, &region, page, version - 1);
            write_page(&bound, &region, page, version);
        }
    }
    drop(bound);
    audit(&pager);

    lock_process(libc::MCL_FUTURE);
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(8),
        regime: Regime::Conserve,
    };
    assert_eq!(pager.create_object(spec), Err(CreateObjectError::LockedAtOnce));
    let second = pager.add_task(Some(reservation)).unwrap();
    assert_eq!(second.map(object), Err(MapObjectError::LockedAtOnce));
    drop(second);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munlockall() }, 0);
    pager.create_object(spec).unwrap();
    audit(&pager);
}
