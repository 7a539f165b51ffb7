//! The core alone: the operations of the paper's Table II, each so many times.
//!
//! Everything is set up for all groups, then the operation is done in some of them: the difference between two runs
//! with different numbers of groups is the operation and nothing else. Each group is one object and two reservations.

use std::fmt::Display;
use std::hint::black_box;

use clap::ValueEnum;
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::{MappingId, ReservationId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

use freehold_command::exit_status::Failure;

/// Groups in all.
pub(crate) const GROUPS: u16 = 12;
/// Pages of each group, and so operations in it.
pub(crate) const PAGES: u32 = 256;
/// Frames of a reservation that is short of them.
const FEW: u32 = PAGES / 2;

/// An operation of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// A first touch: a free frame is given to a page
    Allocate,
    /// A touch at a full reservation: a clean page gives up its frame, which is given to another
    Replace,
    /// A page of another reservation is mapped
    Map,
    /// A sharer of pages ends: its own pass on, others' it leaves
    Unmap,
}

/// One object and its two sharers.
#[derive(Debug)]
struct Group {
    tasks: [TaskId; 2],
    mappings: [MappingId; 2],
    reservations: [ReservationId; 2],
}

/// Memory and its groups, set up for one operation.
#[derive(Debug)]
pub(crate) struct Core {
    memory: Memory,
    operation: Operation,
    groups: Vec<Group>,
    requests: Vec<(PageRef, Request)>,
}

impl Core {
    /// Sets all groups up.
    ///
    /// # Errors
    /// The core refuses: a mistake here.
    pub(crate) fn new(operation: Operation, regime: Regime) -> Result<Self, Failure> {
        let pages = PAGES * u32::from(GROUPS);
        let capacity = if operation == Operation::Replace {
            FEW
        } else {
            PAGES + 8
        };
        let limits = Limits {
            frames: FrameCount::new(2 * capacity * u32::from(GROUPS)),
            pages: PageCount::new(pages),
            reservations: 2 * GROUPS,
            objects: GROUPS,
            tasks: 2 * GROUPS,
            mappings: 2 * GROUPS,
            compared_pages: PageCount::new(pages),
            shared_locks: PageCount::ZERO,
        };
        let mut core = Self {
            memory: limits.seal().map_err(wrong)?,
            operation,
            groups: Vec::new(),
            requests: Vec::new(),
        };
        for _ in 0..GROUPS {
            let group = core.group(capacity, regime)?;
            core.prepare(&group)?;
            core.groups.push(group);
        }
        Ok(core)
    }

    fn group(&mut self, capacity: u32, regime: Regime) -> Result<Group, Failure> {
        let (kind, pages) = (ObjectKind::Shared, PageCount::new(PAGES));
        let object = self
            .memory
            .create_object(ObjectSpec { kind, pages, regime })
            .map_err(wrong)?;
        let mut sharer = || -> Result<_, Failure> {
            let (capacity, kind) = (FrameCount::new(capacity), ReservationKind::Hard);
            let reservation = self.memory.admit(ReservationSpec { capacity, kind }).map_err(wrong)?;
            let task = self.memory.add_task(Some(reservation)).map_err(wrong)?;
            let mapping = self.memory.map(task, object).map_err(wrong)?;
            Ok((task, mapping, reservation))
        };
        let (first, second) = (sharer()?, sharer()?);
        Ok(Group {
            tasks: [first.0, second.0],
            mappings: [first.1, second.1],
            reservations: [first.2, second.2],
        })
    }

    /// What comes before the operation.
    fn prepare(&mut self, group: &Group) -> Result<(), Failure> {
        let [stays, goes] = group.mappings;
        match self.operation {
            Operation::Allocate => Ok(()),
            Operation::Replace => self.touch(stays, 0, 1),
            Operation::Map => self.touch(stays, 0, 2).and_then(|()| self.touch(goes, 1, 2)),
            Operation::Unmap => {
                self.touch(stays, 0, 2)?;
                self.touch(goes, 1, 2)?;
                self.touch(stays, 1, 2)?;
                self.touch(goes, 0, 2)
            }
        }
    }

    /// Does the operation on every page of the first `groups` groups; returns how many pages that were.
    ///
    /// # Errors
    /// The core refuses: a mistake here.
    pub(crate) fn perform(&mut self, groups: u16) -> Result<u64, Failure> {
        let groups = groups.min(GROUPS);
        for at in 0..usize::from(groups) {
            let Group {
                tasks: [_, task],
                mappings: [stays, goes],
                reservations: [_, reservation],
            } = self.groups[at];
            match self.operation {
                Operation::Allocate | Operation::Replace => self.touch(stays, 0, 1)?,
                Operation::Map => {
                    self.touch(stays, 1, 2)?;
                    self.touch(goes, 0, 2)?;
                }
                Operation::Unmap => {
                    self.memory.remove_task(task).map_err(wrong)?;
                    self.drain()?;
                    self.memory.release(reservation).map_err(wrong)?;
                    self.drain()?;
                }
            }
        }
        Ok(u64::from(groups) * u64::from(PAGES))
    }

    /// Reads every `step`th page from `first` on. Reads leave pages clean.
    fn touch(&mut self, mapping: MappingId, first: u32, step: usize) -> Result<(), Failure> {
        for page in (first..PAGES).step_by(step).map(PageIndex::new) {
            let access = Access::Read;
            let fault = Fault { mapping, page, access };
            self.memory.handle_fault(Instant::ZERO, fault).map_err(wrong)?;
            self.drain()?;
        }
        Ok(())
    }

    /// Takes all effects, and answers every request at once.
    fn drain(&mut self) -> Result<(), Failure> {
        loop {
            while let Some(effect) = self.memory.poll_effect() {
                match effect {
                    Effect::Fill { page, .. } => self.requests.push((page, Request::Fill)),
                    Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => {
                        self.requests.push((page, Request::Evict));
                    }
                    other => {
                        let _ = black_box(other);
                    }
                }
            }
            let Some((page, request)) = self.requests.pop() else {
                return Ok(());
            };
            self.memory.handle_done(Instant::ZERO, page, request).map_err(wrong)?;
        }
    }
}

fn wrong(error: impl Display) -> Failure {
    Failure::Run(format!("the core refused: {error}"))
}
