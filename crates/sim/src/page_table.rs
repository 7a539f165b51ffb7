//! What each task has mapped: one byte for each page of each mapping. This alone decides whether an access faults.
//!
//! Beside it, for the usage figures, the number of the job that last touched the page.

use freehold_scenario::{AccessStep, Pattern, Scenario, setup};

/// The page may be read.
const READABLE: u8 = 1;
/// The page may be written.
const WRITABLE: u8 = 2;
/// The frame is the base object's, seen through a copy-on-write view.
const OF_BASE: u8 = 4;

/// One task's mapping of one region.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) task: usize,
    pub(crate) region: usize,
    /// The task's reservation.
    pub(crate) reservation: Option<usize>,
    /// Whether the task ever writes the region.
    pub(crate) writes: bool,
    bytes: Box<[u8]>,
    touched: Box<[u32]>,
    /// Distinct pages that the present job has touched.
    distinct: u64,
    /// The same, summed over the jobs that ended.
    distinct_sum: u64,
}

impl Table {
    fn new(task: usize, region: usize, reservation: Option<usize>, pages: usize) -> Self {
        Self {
            task,
            region,
            reservation,
            writes: false,
            bytes: vec![0; pages].into_boxed_slice(),
            touched: vec![0; pages].into_boxed_slice(),
            distinct: 0,
            distinct_sum: 0,
        }
    }

    /// How many of the pages `first .. first + len` from the first on can be accessed without a fault.
    pub(crate) fn hits(&self, first: u32, len: u32, write: bool) -> u32 {
        let needed = if write { WRITABLE } else { READABLE };
        let pages = &self.bytes[first as usize..(first + len) as usize];
        let miss = pages.iter().position(|byte| byte & needed == 0);
        miss.map_or(len, |position| u32::try_from(position).unwrap_or(len))
    }

    pub(crate) fn is_mapped(&self, page: u32) -> bool {
        self.bytes[page as usize] & READABLE != 0
    }

    pub(crate) fn is_writable(&self, page: u32) -> bool {
        self.bytes[page as usize] & WRITABLE != 0
    }

    /// Whether the page is mapped, and its frame is that of the base object.
    pub(crate) fn maps_base(&self, page: u32) -> bool {
        self.bytes[page as usize] & OF_BASE != 0
    }

    pub(crate) fn map(&mut self, page: u32, writable: bool, of_base: bool) {
        let writable = if writable { WRITABLE } else { 0 };
        let of_base = if of_base { OF_BASE } else { 0 };
        self.bytes[page as usize] = READABLE | writable | of_base;
    }

    pub(crate) fn unmap(&mut self, page: u32) {
        self.bytes[page as usize] = 0;
    }

    /// Notes accesses by job number `job` (from 1); `new_page` is called for pages that no job of this task touched
    /// before.
    pub(crate) fn touch(&mut self, first: u32, len: u32, job: u32, mut new_page: impl FnMut(u32)) {
        for (page, stamp) in (first..).zip(&mut self.touched[first as usize..(first + len) as usize]) {
            if *stamp != job {
                if *stamp == 0 {
                    new_page(page);
                }
                *stamp = job;
                self.distinct += 1;
            }
        }
    }

    /// Ends a job for the usage figures.
    pub(crate) fn end_job(&mut self) {
        self.distinct_sum += self.distinct;
        self.distinct = 0;
    }

    /// Distinct pages of the job under way.
    pub(crate) fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Distinct pages of each ended job, summed.
    pub(crate) fn distinct_sum(&self) -> u64 {
        self.distinct_sum
    }
}

fn may_write(step: &AccessStep) -> bool {
    match &step.pattern {
        Pattern::Trace { entries, .. } => entries.iter().any(|entry| entry.write),
        _ => step.write,
    }
}

/// All page tables.
#[derive(Debug)]
pub(crate) struct PageTables {
    tables: Vec<Table>,
    /// The table of a task and region.
    of: Vec<Vec<Option<usize>>>,
    /// Tables that can map frames of a region: its own mappings and those of copy-on-write views of it.
    over: Vec<Vec<usize>>,
    /// For each task, how often one of its pages was unmapped.
    epochs: Vec<u64>,
    /// For each reservation and region, whether a page was ever touched; and how many were.
    ever: Vec<Vec<Usage>>,
}

#[derive(Debug, Default)]
struct Usage {
    touched: Box<[bool]>,
    count: u64,
}

impl PageTables {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let regions = scenario.regions.len();
        let tasks = scenario.tasks.len() + setup::restorers(scenario).count();
        let ever = scenario
            .reservations
            .iter()
            .map(|_| (0..regions).map(|_| Usage::default()).collect());
        Self {
            tables: Vec::new(),
            of: vec![vec![None; regions]; tasks],
            over: vec![Vec::new(); regions],
            epochs: vec![0; tasks],
            ever: ever.collect(),
        }
    }

    /// A new, empty table for a task's mapping of a region.
    pub(crate) fn add(&mut self, scenario: &Scenario, task: usize, region: usize) {
        let reservation = scenario.tasks[task]
            .reservation
            .map(freehold_scenario::ReservationIndex::get);
        let mut steps = scenario.tasks[task]
            .accesses
            .iter()
            .filter(|step| step.region.get() == region);
        let writes = steps.any(may_write);
        self.push(scenario, task, region, (reservation, writes));
    }

    /// A table for who restores pages of a region: it only reads, and has no reservation.
    pub(crate) fn add_reader(&mut self, scenario: &Scenario, task: usize, region: usize) {
        self.push(scenario, task, region, (None, false));
    }

    fn push(&mut self, scenario: &Scenario, task: usize, region: usize, how: (Option<usize>, bool)) {
        let (reservation, writes) = how;
        let pages = scenario.regions[region].pages.get() as usize;
        let index = self.tables.len();
        self.tables.push(Table {
            writes,
            ..Table::new(task, region, reservation, pages)
        });
        self.of[task][region] = Some(index);
        self.over[region].push(index);
        if let Some(base) = scenario.regions[region].copy_of {
            self.over[base.get()].push(index);
        }
        if let Some(reservation) = reservation {
            let usage = &mut self.ever[reservation][region];
            if usage.touched.is_empty() {
                usage.touched = vec![false; pages].into_boxed_slice();
            }
        }
    }

    pub(crate) fn table(&self, task: usize, region: usize) -> Option<&Table> {
        self.of[task][region].map(|index| &self.tables[index])
    }

    pub(crate) fn table_mut(&mut self, task: usize, region: usize) -> Option<&mut Table> {
        self.of[task][region].map(|index| &mut self.tables[index])
    }

    /// Changes whenever a page of the task is unmapped.
    pub(crate) fn epoch(&self, task: usize) -> u64 {
        self.epochs[task]
    }

    /// Removes the mappings of a page's frame that `chosen` picks; `was_writable` hears whether any of them was.
    pub(crate) fn unmap(&mut self, region: usize, page: u32, chosen: impl Fn(&Table) -> bool) -> bool {
        let mut was_writable = false;
        for index in &self.over[region] {
            let table = &mut self.tables[*index];
            let of_this = table.maps_base(page) == (table.region != region);
            if of_this && table.is_mapped(page) && chosen(table) {
                was_writable |= table.is_writable(page);
                table.unmap(page);
                self.epochs[table.task] += 1;
            }
        }
        was_writable
    }

    /// A task that has the page's frame mapped.
    pub(crate) fn mapper(&self, region: usize, page: u32) -> Option<usize> {
        let maps = |table: &&Table| table.is_mapped(page) && table.maps_base(page) == (table.region != region);
        self.over[region]
            .iter()
            .map(|index| &self.tables[*index])
            .find(maps)
            .map(|table| table.task)
    }

    /// Notes accesses of a task for the usage figures.
    pub(crate) fn touch(&mut self, task: usize, region: usize, first: u32, len: u32, job: u32) {
        let Some(index) = self.of[task][region] else { return };
        let table = &mut self.tables[index];
        let Some(reservation) = table.reservation else { return };
        let usage = &mut self.ever[reservation][region];
        table.touch(first, len, job, |page| {
            let seen = &mut usage.touched[page as usize];
            usage.count += u64::from(!*seen);
            *seen = true;
        });
    }

    /// Ends a task's job for the usage figures.
    pub(crate) fn end_job(&mut self, task: usize) {
        for index in self.of[task].iter().flatten() {
            self.tables[*index].end_job();
        }
    }

    /// For each page of the region, whether the reservation ever touched it; empty where it does not map the region.
    pub(crate) fn touched(&self, reservation: usize, region: usize) -> &[bool] {
        &self.ever[reservation][region].touched
    }

    /// Distinct pages of the region that the reservation ever touched.
    pub(crate) fn ever_touched(&self, reservation: usize, region: usize) -> u64 {
        self.ever[reservation][region].count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_stop_at_the_first_page_that_faults() {
        let mut table = Table::new(0, 0, None, 8);
        assert_eq!(table.hits(0, 8, false), 0);
        (0..5).for_each(|page| table.map(page, page < 2, false));
        assert_eq!(table.hits(0, 8, false), 5);
        assert_eq!(table.hits(0, 8, true), 2);
        assert_eq!(table.hits(1, 2, false), 2);
        table.unmap(1);
        assert_eq!(table.hits(0, 8, false), 1);
    }

    #[test]
    fn touches_count_distinct_pages_of_a_job() {
        let mut table = Table::new(0, 0, Some(0), 4);
        let mut new = Vec::new();
        table.touch(0, 3, 1, |page| new.push(page));
        table.touch(1, 2, 1, |page| new.push(page));
        assert_eq!((table.distinct, new.as_slice()), (3, &[0, 1, 2][..]));
        table.end_job();
        table.touch(2, 2, 2, |page| new.push(page));
        table.end_job();
        assert_eq!((table.distinct_sum(), new.as_slice()), (5, &[0, 1, 2, 3][..]));
    }
}
