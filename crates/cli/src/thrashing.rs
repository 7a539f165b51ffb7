//! Reservations that thrash: whose pages come back so often that the program does little else, and what would end it.

use freehold_client::Observer;
use freehold_report::status::{ReservationStatus, StatusDocument, TaskStatus};
use std::time::{Duration, Instant};

use crate::connect;
use freehold_command::status::Failure;

/// A reservation thrashes that reads as many pages back as it has within this time.
const WHOLE: Duration = Duration::from_secs(10);
/// Fewer a second than this are no thrashing, however few pages it has.
const FEW: u64 = 500;
/// The time between two looks, where there is no other.
const BETWEEN: Duration = Duration::from_millis(250);

/// One reservation that thrashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thrashing {
    /// Its name.
    pub(crate) reservation: String,
    /// Pages read back in a second.
    rate: u64,
    /// The time in which it reads as many pages back as it has, in milliseconds.
    whole: u64,
    /// Frames with which nothing had to leave.
    enough: u64,
}

impl Thrashing {
    /// In one sentence.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "reservation {} thrashes: {} pages a second come back, as many as it has each {} ms; {} MiB would end it",
            self.reservation,
            self.rate,
            self.whole,
            (self.enough * 4).div_ceil(1024)
        )
    }
}

/// Which reservations have thrashed between two looks.
pub(crate) fn between(before: &StatusDocument, after: &StatusDocument, passed: Duration) -> Vec<Thrashing> {
    let rows = after.reservations.iter();
    rows.filter_map(|row| judge(row, before, after, passed)).collect()
}

/// Looks twice, a moment apart.
///
/// # Errors
/// The server does not answer.
pub(crate) fn look(observer: &Observer) -> Result<Vec<Thrashing>, Failure> {
    let (before, begun) = (connect::status(observer)?, Instant::now());
    std::thread::sleep(BETWEEN);
    let after = connect::status(observer)?;
    Ok(between(&before, &after, begun.elapsed()))
}

fn judge(
    row: &ReservationStatus,
    before: &StatusDocument,
    after: &StatusDocument,
    passed: Duration,
) -> Option<Thrashing> {
    let (earlier, later) = (came_back(before, &row.name), came_back(after, &row.name));
    let passed = u64::try_from(passed.as_millis()).ok().filter(|passed| *passed > 0)?;
    let rate = later.saturating_sub(earlier).saturating_mul(1000) / passed;
    let whole = row.lists.capacity.saturating_mul(1000).checked_div(rate)?;
    let thrashes = rate >= FEW && u128::from(whole) <= WHOLE.as_millis();
    thrashes.then(|| Thrashing {
        reservation: row.name.clone(),
        rate,
        whole,
        enough: row.lists.capacity + away(after, &row.name),
    })
}

fn is_of(task: &TaskStatus, reservation: &str) -> bool {
    task.reservation.as_deref() == Some(reservation)
}

/// Pages read back for a reservation's tasks so far.
fn came_back(status: &StatusDocument, reservation: &str) -> u64 {
    let tasks = status.clients.iter().flat_map(|client| &client.tasks);
    let mine = tasks.filter(|task| is_of(task, reservation));
    mine.map(|task| task.swap_ins + task.read_ahead).sum()
}

/// Private pages of its programs that are in the store only. A program's private memory is its first task's.
fn away(status: &StatusDocument, reservation: &str) -> u64 {
    let clients = status.clients.iter();
    let mine = clients.filter(|client| client.tasks.first().is_some_and(|task| is_of(task, reservation)));
    mine.map(|client| client.private_stored).sum()
}

#[cfg(test)]
mod tests {
    use super::Thrashing;

    #[test]
    fn it_says_how_often_and_what_would_end_it() {
        let found = Thrashing {
            reservation: "r1".to_owned(),
            rate: 34_000,
            whole: 220,
            enough: 15_361,
        };
        let said = found.sentence();
        assert!(said.contains("r1") && said.contains("34000 pages a second"), "{said}");
        assert!(said.contains("220 ms") && said.contains("61 MiB"), "{said}");
    }
}
