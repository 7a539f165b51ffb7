//! Reservations that thrash, and the pool: pages come back so often that programs do little else. What would end it.

use freehold_client::Observer;
use freehold_report::status::{StatusDocument, TaskStatus};
use std::time::{Duration, Instant};

use crate::connect;
use freehold_command::enough::Enough;
use freehold_command::exit_status::Failure;

/// A reservation thrashes that reads as many pages back as it has within this time.
const WHOLE: Duration = Duration::from_secs(10);
/// Fewer a second than this are no thrashing, however few pages it has.
const FEW: u64 = 500;
/// The time between two looks, where there is no other.
const BETWEEN: Duration = Duration::from_millis(250);

/// Programs that thrash together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thrashing {
    holder: Holder,
    /// Pages read back in a second.
    rate: u64,
    /// The time in which as many pages are read back as they have, in milliseconds.
    whole: u64,
    enough: Enough,
}

/// Whose frames they use: a reservation's, by its name, or the pool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder(Option<String>);

impl Holder {
    /// What a task or a guarantee names; nothing where it has no reservation.
    pub(crate) fn named(reservation: Option<&str>) -> Self {
        Self(reservation.map(str::to_owned))
    }

    fn has(&self, task: &TaskStatus) -> bool {
        task.reservation == self.0
    }
}

impl Thrashing {
    /// Whether it is these programs that thrash.
    pub(crate) fn is_of(&self, holder: &Holder) -> bool {
        self.holder == *holder
    }

    /// In one sentence.
    pub(crate) fn sentence(&self) -> String {
        let (who, what) = match &self.holder.0 {
            Some(name) => (format!("reservation {name}"), ""),
            None => ("the pool, without a reservation,".to_owned(), "a pool of "),
        };
        format!(
            "{who} thrashes: {} pages a second come back, as many as it has each {} ms; {what}{} MiB would end it",
            self.rate,
            self.whole,
            self.enough.mebibytes()
        )
    }
}

/// Which programs have thrashed between two looks: those of each reservation, and those without.
pub(crate) fn between(before: &StatusDocument, after: &StatusDocument, passed: Duration) -> Vec<Thrashing> {
    let rows = after
        .reservations
        .iter()
        .map(|row| (Some(&*row.name), row.lists.capacity));
    let memory = &after.memory;
    let left = memory.pool.saturating_sub(memory.committed + memory.outside);
    let all = rows.chain([(None, left)]);
    all.filter_map(|(name, frames)| judge(Holder::named(name), frames, [before, after], passed))
        .collect()
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

fn judge(holder: Holder, frames: u64, looks: [&StatusDocument; 2], passed: Duration) -> Option<Thrashing> {
    let [earlier, later] = looks.map(|look| came_back(look, &holder));
    let [_, now] = looks;
    let passed = u64::try_from(passed.as_millis()).ok().filter(|passed| *passed > 0)?;
    let rate = later.saturating_sub(earlier).saturating_mul(1000) / passed;
    let whole = frames.saturating_mul(1000).checked_div(rate)?;
    let thrashes = rate >= FEW && u128::from(whole) <= WHOLE.as_millis();
    // What of the pool others have reserved is not theirs.
    let reserved = if holder.0.is_none() {
        now.memory.pool.saturating_sub(frames)
    } else {
        0
    };
    let enough = Enough::of(reserved + frames, away(now, &holder));
    thrashes.then_some(Thrashing {
        holder,
        rate,
        whole,
        enough,
    })
}

/// Pages read back for a holder's tasks so far.
fn came_back(status: &StatusDocument, holder: &Holder) -> u64 {
    let tasks = status.clients.iter().flat_map(|client| &client.tasks);
    let mine = tasks.filter(|task| holder.has(task));
    mine.map(|task| task.swap_ins + task.read_ahead).sum()
}

/// Private pages of its programs that are in the store only. A program's private memory is its first task's.
fn away(status: &StatusDocument, holder: &Holder) -> u64 {
    let clients = status.clients.iter();
    let mine = clients.filter(|client| client.tasks.first().is_some_and(|task| holder.has(task)));
    mine.map(|client| client.private.stored).sum()
}

#[cfg(test)]
mod tests {
    use super::{Enough, Holder, Thrashing};

    #[test]
    fn it_says_how_often_and_what_would_end_it() {
        let mut found = Thrashing {
            holder: Holder::named(Some("r1")),
            rate: 34_000,
            whole: 220,
            enough: Enough::of(15_361, 0),
        };
        let said = found.sentence();
        assert!(said.contains("reservation r1 thrashes: 34000 pages a second"), "{said}");
        assert!(said.contains("220 ms; 61 MiB"), "{said}");
        found.holder = Holder::named(None);
        let said = found.sentence();
        assert!(
            said.contains("without a reservation") && said.contains("a pool of 61 MiB"),
            "{said}"
        );
    }
}
