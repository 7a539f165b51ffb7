//! A trace as replays go through it: its pages numbered as they first appear, its rows as short steps.

use super::lru::Numbers;
use super::row::{Event, Pages, Row, TraceError};
use super::{Format, read_rows};
use std::io::BufRead;

/// A step. Rows that say nothing to a replay have none, and rows of single pages that follow one another share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Pages are used whose numbers follow one another.
    Use {
        /// The number of the first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Pages are used whose numbers do not: those at this place among the scattered ones.
    UseScattered { place: u32 },
    /// Pages are deleted: those at this place among the scattered ones.
    Delete { place: u32 },
    /// Time passes: until that at this place.
    Time { place: u32 },
    /// Pages are used for this from now on.
    Mark { group: u32 },
    /// A device opens; the place is that of its row.
    Open { device: u32, place: u32 },
    /// A device closes.
    Close { device: u32, place: u32 },
}

/// What a row of a device says beside its device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceRow {
    /// The row's number.
    pub(super) number: u64,
    /// Pages that an opening uses; 0: all.
    pub(super) used: u32,
}

/// A trace, read once for any number of replays. It takes a few bytes a row, however many pages the row names.
#[derive(Debug, Default)]
pub struct Trace {
    numbers: Numbers,
    steps: Vec<Step>,
    scattered: Vec<Pages>,
    times: Vec<u64>,
    devices: Vec<DeviceRow>,
    rows: u64,
}

impl Trace {
    /// Reads a whole trace. `devices` are the names that rows of devices can have, in order.
    ///
    /// # Errors
    /// The first row that is wrong; nothing is guessed.
    pub fn read<R: BufRead>(reader: R, format: &Format, devices: &[String]) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        read_rows(reader, format, devices, &mut |row| trace.push(&row))?;
        Ok(trace)
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many pages have numbers.
    pub(super) fn pages(&self) -> usize {
        self.numbers.len()
    }

    /// The numbers of the pages at a place among the scattered ones, as far as they have any.
    pub(super) fn scattered(&self, place: u32) -> impl Iterator<Item = u32> + '_ {
        let pages = self.scattered.get(place as usize).copied();
        let each = pages
            .into_iter()
            .flat_map(|pages| each(pages).map(move |page| (pages.file, page)));
        each.filter_map(|(file, page)| self.numbers.find(file, page))
    }

    pub(super) fn time(&self, place: u32) -> u64 {
        self.times.get(place as usize).copied().unwrap_or(0)
    }

    pub(super) fn device(&self, place: u32) -> DeviceRow {
        self.devices.get(place as usize).copied().unwrap_or_default()
    }

    fn push(&mut self, row: &Row) {
        self.rows += 1;
        if let Some(time) = row.time
            && self.times.last().is_none_or(|last| *last < time)
        {
            let place = place(&mut self.times, time);
            self.steps.push(Step::Time { place });
        }
        match row.event {
            Event::Access(pages) => self.uses(pages),
            Event::Delete(pages) => {
                let place = place(&mut self.scattered, pages);
                self.steps.push(Step::Delete { place });
            }
            Event::Inform => {}
            Event::Mark { group } => self.steps.push(Step::Mark { group: short(group) }),
            Event::Open { device, used } => {
                let place = self.device_row(row.number, used);
                let device = short(device);
                self.steps.push(Step::Open { device, place });
            }
            Event::Close { device } => {
                let place = self.device_row(row.number, 0);
                let device = short(device);
                self.steps.push(Step::Close { device, place });
            }
        }
    }

    fn device_row(&mut self, number: u64, used: u32) -> u32 {
        place(&mut self.devices, DeviceRow { number, used })
    }

    fn uses(&mut self, pages: Pages) {
        let mut numbers = each(pages).map(|page| self.numbers.number(pages.file, page));
        let Some(first) = numbers.next() else { return };
        let (mut count, mut in_order) = (1, true);
        for number in numbers {
            in_order &= number == first.wrapping_add(count);
            count += 1;
        }
        if !in_order {
            let place = place(&mut self.scattered, pages);
            self.steps.push(Step::UseScattered { place });
            return;
        }
        if let Some(Step::Use {
            first: before,
            count: so_many,
        }) = self.steps.last_mut()
            && before.wrapping_add(*so_many) == first
        {
            *so_many += count;
        } else {
            self.steps.push(Step::Use { first, count });
        }
    }
}

impl FromIterator<Row> for Trace {
    fn from_iter<Rows: IntoIterator<Item = Row>>(rows: Rows) -> Self {
        let mut trace = Self::default();
        rows.into_iter().for_each(|row| trace.push(&row));
        trace
    }
}

fn place<T>(rows: &mut Vec<T>, row: T) -> u32 {
    let place = short(rows.len());
    rows.push(row);
    place
}

/// Four thousand million of anything do not fit into memory beside their rows.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn each(pages: Pages) -> std::ops::Range<u32> {
    let first = pages.first.get();
    first..first.saturating_add(pages.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_core::units::PageIndex;

    fn uses(file: u64, first: u32, count: u32) -> Event {
        Event::Access(Pages {
            file,
            first: PageIndex::new(first),
            count,
        })
    }

    fn trace(events: &[(u64, Event)]) -> Trace {
        let rows = (1..).zip(events);
        rows.map(|(number, (time, event))| Row {
            number,
            time: Some(*time),
            event: *event,
        })
        .collect()
    }

    #[test]
    fn pages_in_order_share_a_step_and_scattered_ones_are_looked_up() {
        let trace = trace(&[
            (5, uses(1, 0, 1)),
            (5, uses(1, 1, 2)),
            (5, Event::Inform),
            (6, uses(2, 9, 1)),
            (4, uses(1, 0, 4)),
            (6, uses(1, 2, 2)),
        ]);
        let steps = [
            Step::Time { place: 0 },
            Step::Use { first: 0, count: 3 },
            Step::Time { place: 1 },
            Step::Use { first: 3, count: 1 },
            // Page 3 of file 1 has the number 4: not the one behind page 2.
            Step::UseScattered { place: 0 },
            Step::UseScattered { place: 1 },
        ];
        assert_eq!((trace.steps(), trace.rows()), (&steps[..], 6));
        assert_eq!(trace.scattered(0).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!(trace.scattered(1).collect::<Vec<_>>(), [2, 4]);
        assert_eq!((trace.time(0), trace.time(1)), (5, 6));
    }

    #[test]
    fn what_is_deleted_and_never_used_has_no_number() {
        let Event::Access(deleted) = uses(1, 0, 3) else { return };
        let trace = trace(&[(0, uses(1, 1, 1)), (0, Event::Delete(deleted))]);
        assert_eq!((trace.pages(), trace.scattered(0).collect::<Vec<_>>()), (1, vec![0]));
    }
}
