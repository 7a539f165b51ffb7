//! A core whose requests are answered at once, so that its own work is what is measured.

use std::fmt::Display;
use std::hint::black_box;

use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::MappingId;
use freehold_core::units::{Instant, PageIndex};

use freehold_command::exit_status::Failure;

/// The core, and the time of its facts: a microsecond for each fault.
pub(super) struct Driven {
    pub(super) memory: Memory,
    requests: Vec<(PageRef, Request)>,
    now: u64,
}

impl Driven {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            requests: Vec::new(),
            now: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::new(self.now)
    }

    /// A write to a page that is not mapped, and all that follows from it; `note` hears which pages are mapped and
    /// which are no more.
    pub(super) fn fault(
        &mut self,
        mapping: MappingId,
        page: u32,
        mut note: impl FnMut(PageRef, bool),
    ) -> Result<(), Failure> {
        self.now += 1_000;
        let now = Instant::new(self.now);
        let fault = Fault {
            mapping,
            page: PageIndex::new(page),
            access: Access::Write,
        };
        self.memory.handle_fault(now, fault).map_err(wrong)?;
        self.drain(&mut note);
        while let Some((page, request)) = self.requests.pop() {
            self.memory.handle_done(now, page, request).map_err(wrong)?;
            self.drain(&mut note);
        }
        Ok(())
    }

    fn drain(&mut self, note: &mut impl FnMut(PageRef, bool)) {
        while let Some(effect) = self.memory.poll_effect() {
            match effect {
                Effect::Fill { page, .. } => self.requests.push((page, Request::Fill)),
                Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => {
                    self.requests.push((page, Request::Evict));
                }
                Effect::Map { page, .. } => note(page, true),
                Effect::Unmap { page, .. } => note(page, false),
                other => {
                    let _ = black_box(other);
                }
            }
        }
    }
}

/// What the core refused, or what is wrong with what it did.
pub(super) fn wrong(error: impl Display) -> Failure {
    Failure::Run(format!("the core refused: {error}"))
}
