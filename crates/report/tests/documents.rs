//! Documents and metrics are written as they always were, to the byte: scripts read them.

use freehold_report::status::StatusDocument;
use freehold_report::{metrics, read};

/// Every field of the status document with a value of its own.
const STATUS: &str = include_str!("golden/status.json");
/// Its metrics.
const METRICS: &str = include_str!("golden/status.prom");

#[test]
fn a_status_is_read_and_written_again_as_it_was() {
    let status: StatusDocument = read(STATUS).unwrap();
    assert_eq!(serde_json::to_string(&status).unwrap(), STATUS.trim_end());
}

#[test]
fn metrics_are_the_numbers_of_the_status() {
    let status: StatusDocument = read(STATUS).unwrap();
    assert_eq!(metrics::page(&status), METRICS);
}

#[test]
fn a_reservation_of_an_older_release_has_nothing_outside() {
    let older = STATUS.replace("\"outside\":", "\"unknown\":");
    assert_ne!(older, STATUS);
    let status: StatusDocument = read(&older).unwrap();
    assert!(status.reservations.iter().all(|row| row.frames.outside == 0));
    assert!(
        status
            .reservations
            .iter()
            .all(|row| row.frames.owned > 0 && row.lists.active > 0)
    );
}
