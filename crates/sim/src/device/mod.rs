//! Device memory in virtual time: the victim cache of `core::victim_cache` between the store and the file regions, and
//! devices that open and close.
//!
//! A clean file page that leaves memory is put, and its frame is free when the copy has ended; a fill of a file page
//! asks the cache before the store. Copies take [`COPY`] each. The faults of the scenario reach copies (they fail, or
//! are late), returns (late) and clients of devices, which die before their time.

mod contents;
mod result;

use std::collections::{BTreeMap, VecDeque};

use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::error::OpenError;
use freehold_core::victim_cache::{
    DeviceEffect, DeviceId, DeviceState, FileId, FrameIndex, FrameRange, Got, Placement, Policy, VictimCache,
    VictimCacheSpec,
};
use freehold_scenario::results::ResponseRecorder;
use freehold_scenario::{Faults, Scenario};

use crate::error::SimError;
use crate::laws::{LawBook, Oracle};
use crate::rng::Rng;
use crate::world::Ticket;
use contents::Contents;

/// How long one page takes to be copied into or out of the region: as long as a cold 4 KiB copy.
const COPY: u64 = 450;
/// How long one page takes to be zeroed before an untrusted client gets it.
const ZERO: u64 = 100;
/// Copies under way at a time, at most.
const COPIES: u16 = 64;

/// A page of a region.
pub(crate) type Key = (usize, u32);

/// What ends or begins at its time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A page is in its frame of the region; its own frame is free then.
    Put { frame: FrameIndex, ticket: Ticket },
    /// A page is out of its frame of the region.
    Got { frame: FrameIndex, ticket: Ticket },
    /// A page that was out at once is where it was asked for.
    Arrived { ticket: Ticket },
    /// A device is wanted until then.
    Open {
        device: usize,
        used: FrameCount,
        until: u64,
    },
    /// Its client closes it, or dies: of the open with this number.
    Close { device: usize, open: u64 },
    /// Nobody has these frames any more.
    Return { device: usize, range: FrameRange },
}

/// What the world is to do about a copy that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// The request of the ticket has ended.
    Done(Ticket),
    /// The page could not be copied out: it is read from its file.
    Read(Ticket),
}

/// A device has been opened or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// With so many pages of its memory.
    Open {
        /// How many.
        used: FrameCount,
    },
    /// All of its memory is back.
    Close,
}

/// Somebody wants a device.
#[derive(Clone, Copy, Debug)]
struct Wish {
    since: u64,
    used: FrameCount,
    /// Until then; `None` until a job ends.
    until: Option<u64>,
}

/// One device, by the simulator's books.
#[derive(Debug)]
struct Row {
    id: DeviceId,
    trusted: bool,
    /// What is wanted: not yet opened, or opened and not yet handed over.
    wish: Option<Wish>,
    closed_at: u64,
    opens: u64,
    refused: u64,
    open_times: ResponseRecorder,
    return_times: ResponseRecorder,
}

/// The region, what is in it, and what is to come.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    cache: VictimCache,
    contents: Contents,
    rows: Vec<Row>,
    events: BTreeMap<(u64, u64), Event>,
    arrivals: u64,
    ended: VecDeque<Ended>,
    /// Copies take no time, and what was closed is back.
    at_once: bool,
    changes: VecDeque<(usize, DeviceChange)>,
    faults: Option<(Faults, Rng)>,
}

impl DeviceMemory {
    /// For the devices of a scenario; `None` where it has none.
    pub(crate) fn new(scenario: &Scenario, at_once: bool) -> Result<Option<Self>, SimError> {
        if scenario.devices.is_empty() {
            return Ok(None);
        }
        let sizes: Vec<FrameCount> = scenario.devices.iter().map(|device| device.size).collect();
        let frames = sizes.iter().map(|size| size.get()).sum();
        let spec = VictimCacheSpec {
            frames: FrameCount::new(frames),
            devices: &sizes,
            granule: FrameCount::new(1),
            copies: COPIES,
            files: frames,
            policy: Policy::Lru,
            placement: Placement::Safe,
        };
        let cache = spec.seal().map_err(|reason| SimError::VictimCache { reason })?;
        let rows = scenario.devices.iter().enumerate();
        let rows = rows.filter_map(|(place, device)| Some(Row::new(DeviceId::new(place)?, device.trusted)));
        let mut memory = Self {
            cache,
            contents: Contents::new(frames),
            rows: rows.collect(),
            events: BTreeMap::new(),
            arrivals: 0,
            ended: VecDeque::new(),
            at_once,
            changes: VecDeque::new(),
            faults: scenario
                .faults
                .filter(|_| !at_once)
                .map(|faults| (faults, Rng::stream(faults.seed.unwrap_or(scenario.seed), 0xde71))),
        };
        for (device, found) in scenario.devices.iter().enumerate() {
            for open in &found.opens {
                let (used, until) = (open.used, open.until.get());
                memory.schedule(open.at.get(), Event::Open { device, used, until });
            }
        }
        Ok(Some(memory))
    }

    /// Frames of the region.
    pub(crate) fn region(&self) -> FrameCount {
        self.contents.frames()
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.events.first_key_value().map(|((due, _), _)| *due)
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&mut self) {
        self.faults = None;
    }

    /// Copies that have not ended.
    pub(crate) fn copies(&self) -> usize {
        let copies = self.events.values();
        copies
            .filter(|event| matches!(event, Event::Put { .. } | Event::Got { .. } | Event::Arrived { .. }))
            .count()
    }

    /// A clean page of a file leaves memory: takes it, if there is room. Whether its request ends with the copy.
    pub(crate) fn put(&mut self, now: u64, key: Key, version: u64, ticket: Ticket, laws: &mut LawBook) -> bool {
        let Ok(put) = self.cache.put(file(key), PageIndex::new(key.1), 1) else {
            return false;
        };
        if let Some((file, page)) = put.evicted {
            let gone = (usize::try_from(file.get()).unwrap_or(usize::MAX), page.get());
            self.contents.evicted(gone, now, laws);
        }
        self.contents.put(put.frame, key, version, now, laws);
        if self.at_once {
            self.copied(put.frame, false, now, laws);
            return false;
        }
        self.schedule_copy(
            now,
            Event::Put {
                frame: put.frame,
                ticket,
            },
        );
        true
    }

    /// A page of a file is to be read: gives it back, if it is here. The request ends with the copy then.
    pub(crate) fn get(&mut self, now: u64, key: Key, version: u64, ticket: Ticket, laws: &mut LawBook) -> bool {
        match self.cache.get(file(key), PageIndex::new(key.1)) {
            Got::Hit(frame) => {
                self.contents.hit(frame, (key, version), now, laws);
                if self.at_once {
                    self.copied(frame, false, now, laws);
                    self.schedule_copy(now, Event::Arrived { ticket });
                } else {
                    self.schedule_copy(now, Event::Got { frame, ticket });
                }
                true
            }
            Got::Miss => {
                self.contents.missed(key, usize::from(COPIES), now, laws);
                false
            }
        }
    }

    /// A job of a task begins or ends: devices that it opens.
    pub(crate) fn job(&mut self, now: u64, scenario: &Scenario, task: usize, begins: bool, laws: &mut LawBook) {
        for (device, found) in scenario.devices.iter().enumerate() {
            let Some((owner, used)) = found.task.filter(|(owner, _)| owner.get() == task) else {
                continue;
            };
            debug_assert_eq!(owner.get(), task);
            if begins {
                self.wish(now, device, used, None, laws);
            } else {
                self.close(now, device, laws);
            }
        }
    }

    /// Does what is due; the ends of requests are in [`take_ended`](Self::take_ended).
    pub(crate) fn advance(&mut self, now: u64, laws: &mut LawBook) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Event::Put { frame, ticket } => {
                    let fails = self.fails();
                    self.copied(frame, fails, now, laws);
                    // The page leaves whether or not it could be kept.
                    self.ended.push_back(Ended::Done(ticket));
                }
                Event::Got { frame, ticket } => {
                    let fails = self.fails();
                    self.copied(frame, fails, now, laws);
                    let ended = if fails {
                        Ended::Read(ticket)
                    } else {
                        Ended::Done(ticket)
                    };
                    self.ended.push_back(ended);
                }
                Event::Arrived { ticket } => self.ended.push_back(Ended::Done(ticket)),
                Event::Open { device, used, until } => self.wish(now, device, used, Some(until), laws),
                Event::Close { device, open } => {
                    if self.rows[device].opens == open {
                        self.close(now, device, laws);
                    }
                }
                Event::Return { device, range } => self.give_back(now, device, range, laws),
            }
            self.poll(now, laws);
        }
    }

    /// The next request that has ended.
    pub(crate) fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// The next device that has been opened or closed, in their order.
    pub(crate) fn take_change(&mut self) -> Option<(usize, DeviceChange)> {
        self.changes.pop_front()
    }

    /// Compares the cache's books with themselves and with what is known of every frame.
    pub(crate) fn check(&self, now: u64, is_resident: impl Fn(Key) -> bool, laws: &mut LawBook) {
        if let Err(violation) = self.cache.check_laws() {
            laws.note(now, violation.law, || format!("books of the victim cache: {violation}"));
        }
        self.contents.compare(&self.cache, is_resident, now, laws);
    }

    fn copied(&mut self, frame: FrameIndex, fails: bool, now: u64, laws: &mut LawBook) {
        let told = if fails {
            self.cache.copy_failed(frame)
        } else {
            self.cache.copied(frame)
        };
        if let Err(error) = told {
            laws.report(now, Oracle::VictimCache, || {
                format!("the end of a copy is refused: {error}")
            });
        }
        self.contents.copied(frame, fails, now, laws);
    }

    fn wish(&mut self, now: u64, device: usize, used: FrameCount, until: Option<u64>, laws: &mut LawBook) {
        let row = &mut self.rows[device];
        // One before that was never served has passed.
        row.refused += u64::from(row.wish.is_some());
        let since = now;
        row.wish = Some(Wish { since, used, until });
        self.open(now, device, laws);
    }

    /// Opens what is wanted, if nothing of it is on its way back.
    fn open(&mut self, now: u64, device: usize, laws: &mut LawBook) {
        let row = &mut self.rows[device];
        let Some(wish) = row.wish else { return };
        if wish.until.is_some_and(|until| until <= now) {
            row.wish = None;
            row.refused += 1;
            return;
        }
        match self.cache.open(row.id, wish.used) {
            Ok(opened) => {
                row.opens += 1;
                let open = row.opens;
                self.changes.push_back((device, DeviceChange::Open { used: wish.used }));
                self.contents.discarded(opened.range);
                if let Some(until) = wish.until {
                    let until = self.end_of_client(now, until.max(now));
                    self.schedule(until, Event::Close { device, open });
                }
                self.poll(now, laws);
            }
            // It waits for its own frames, whoever still has them.
            Err(OpenError::InUse) => {}
            Err(error) => {
                row.refused += 1;
                row.wish = None;
                laws.report(now, Oracle::VictimCache, || {
                    format!("device {device}, which is closed, is refused: {error}")
                });
            }
        }
    }

    fn close(&mut self, now: u64, device: usize, laws: &mut LawBook) {
        let row = &mut self.rows[device];
        row.wish = None;
        if self.cache.closed(row.id).is_ok() {
            row.closed_at = now;
            self.changes.push_back((device, DeviceChange::Close));
            self.poll(now, laws);
        }
    }

    fn give_back(&mut self, now: u64, device: usize, range: FrameRange, laws: &mut LawBook) {
        let row = &mut self.rows[device];
        if let Err(error) = self.cache.returned(row.id, range) {
            laws.report(now, Oracle::VictimCache, || {
                format!("frames of device {device} do not come back: {error}")
            });
        }
        self.contents.returned(range);
        row.return_times
            .record(freehold_core::units::Duration::new(now - row.closed_at));
        self.open(now, device, laws);
    }

    fn poll(&mut self, now: u64, laws: &mut LawBook) {
        while let Some(effect) = self.cache.poll_effect() {
            match effect {
                DeviceEffect::HandOver { device, range } => {
                    self.contents.handed_over(range, now, laws);
                    let row = &mut self.rows[device.index()];
                    let zeroing = if row.trusted {
                        0
                    } else {
                        u64::from(range.count().get()) * ZERO
                    };
                    let since = row.wish.take().map_or(now, |wish| wish.since);
                    row.open_times
                        .record(freehold_core::units::Duration::new(now - since + zeroing));
                }
                DeviceEffect::Revoke { device, range } => {
                    let place = device.index();
                    if !self.at_once
                        && !self.rows[place].trusted
                        && let Err(error) = self.cache.retired(device, range)
                    {
                        laws.report(now, Oracle::VictimCache, || {
                            format!("frames cannot be retired: {error}")
                        });
                    }
                    if self.at_once {
                        self.give_back(now, place, range, laws);
                        continue;
                    }
                    let due = now + self.delay(0);
                    self.schedule(due, Event::Return { device: place, range });
                }
            }
        }
    }

    fn schedule_copy(&mut self, now: u64, event: Event) {
        let due = now + self.delay(COPY);
        self.schedule(due, event);
    }

    fn schedule(&mut self, due: u64, event: Event) {
        self.arrivals += 1;
        self.events.insert((due, self.arrivals), event);
    }

    /// A time, by the faults of the scenario.
    fn delay(&mut self, time: u64) -> u64 {
        let late = self.draw(|faults| faults.late);
        let by = self.faults.as_ref().map_or(0, |(faults, _)| faults.late_by.get());
        if late { time + by } else { time }
    }

    fn fails(&mut self) -> bool {
        self.draw(|faults| faults.fail)
    }

    fn draw(&mut self, probability: fn(&Faults) -> f64) -> bool {
        let drawn = self.faults.as_mut();
        drawn.is_some_and(|(faults, rng)| rng.chance(probability(faults)))
    }

    /// When the client of a device closes it: at its time, or it dies before.
    fn end_of_client(&mut self, now: u64, until: u64) -> u64 {
        let dies = self.fails();
        let drawn = self.faults.as_mut().filter(|_| dies);
        drawn.map_or(until, |(_, rng)| rng.within(now, until))
    }

    fn state(&self, row: &Row) -> (DeviceState, FrameRange) {
        let view = self.cache.device(row.id);
        view.map_or((DeviceState::Idle, FrameRange::default()), |view| {
            (view.state, view.used)
        })
    }
}

impl Row {
    fn new(id: DeviceId, trusted: bool) -> Self {
        Self {
            id,
            trusted,
            wish: None,
            closed_at: 0,
            opens: 0,
            refused: 0,
            open_times: ResponseRecorder::new(),
            return_times: ResponseRecorder::new(),
        }
    }
}

fn file(key: Key) -> FileId {
    FileId::new(key.0 as u64)
}
