//! Effects drained from the core, and carried out together.
//!
//! Answers to faults go out as they are drained. The order of the rest of one batch: all unmappings but demotions; then
//! requests in the order in which the core made them; then demotions. The core orders effects for each page only, and
//! for one page unmappings precede its eviction (a page demoted and evicted in one batch is unmapped for its eviction
//! too), so this is one of the orders it allows; it lets adjacent pages be unmapped and dropped together. So *unmap,
//! copy out, drop* holds for every page (law 5). One call for a run matters where mappings are real: with a sibling
//! thread running on another CPU each costs a TLB shoot-down, after which the sibling has to find all its translations
//! again. Demotions come last so that their shoot-down falls together with that of the drops that follow: the sibling
//! pays once for both.

use crate::completions::{Completions, End};
use crate::holder_row::HolderRow;
use crate::runs::for_runs;
use freehold_core::effect::{Effect, Holder, Scope, Source, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::TaskId;

/// Pages of one object that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub first: PageRef,
    /// How many, at least one.
    pub count: usize,
}

/// What carries effects out. Of a request that has ended when the call returns the batch takes note; one that takes
/// longer (`None`) is the backend's, which takes note of its end itself.
pub trait Backend {
    /// What has ended and the core was not told of.
    fn completions(&mut self) -> &mut Completions;

    /// The core has decided. Told of every effect, in the core's order, before anything is done about those drained
    /// with it. What is over with the decision is done here: answers to faults, ends of locks, budgets.
    fn decided(&mut self, effect: &Effect);

    /// Whether there is room for what one more effect leaves with the backend itself.
    fn has_room(&self) -> bool {
        true
    }

    /// There was no room for all that one fact left: what was drained is carried out before the rest.
    fn overflow(&mut self) {}

    /// What was drained is about to be carried out; the pages that are to be written, and for whom.
    fn begin(&mut self, _writes: &mut dyn Iterator<Item = PageRef>) {}

    /// Removes the mappings of a run of pages.
    fn unmap(&mut self, run: Run, from: Scope);

    /// Gives a page a frame and fills it, for the task that waits.
    fn fill(&mut self, page: PageRef, source: Source, urgent: Option<TaskId>) -> Option<End>;

    /// Writes a page to its store, to be dropped afterwards; its mappings are gone. Its holder gets the frame.
    fn write(&mut self, page: PageRef, holder: Holder) -> Option<End>;

    /// A clean page is about to be dropped: whether the backend sees to that itself, because a victim cache wants it,
    /// or because dropping it takes time. Then it is not dropped here, and the backend takes note of the end.
    fn offer(&mut self, _page: PageRef) -> bool {
        false
    }

    /// Drops a run of pages; their mappings are gone, and their content is in the store or not wanted.
    fn drop_run(&mut self, run: Run);

    /// Moves the frame and content of a page to another, which may be mapped by the effect that follows: it is called
    /// as that is drained, after the unmappings so far.
    fn take(&mut self, from: PageRef, to: PageRef);

    /// What was begun may go to the device together.
    fn flush(&mut self) {}
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Fill(PageRef, Source, Option<TaskId>),
    Write(PageRef, Holder),
    Drop(PageRef),
}

type Unmapping = (PageRef, Scope);

/// What was drained and is not carried out yet.
#[derive(Debug, Default)]
pub struct Batch {
    unmappings: Vec<Unmapping>,
    /// Those that only ask whether a page is still referenced.
    demotions: Vec<Unmapping>,
    work: Vec<Work>,
    /// Pages to drop, sorted into runs.
    drops: Vec<PageRef>,
    is_bounded: bool,
}

impl Batch {
    /// A batch with room for `effects` effects at a time and no more, and for as many drops as that or `drops`. Nothing
    /// is allocated afterwards.
    #[must_use]
    pub fn bounded(effects: usize, drops: usize) -> Self {
        Self {
            unmappings: Vec::with_capacity(effects),
            demotions: Vec::with_capacity(effects),
            work: Vec::with_capacity(effects),
            drops: Vec::with_capacity(effects.max(drops)),
            is_bounded: true,
        }
    }

    /// Takes all effects that `poll` has from the core.
    pub fn drain<B: Backend>(&mut self, backend: &mut B, mut poll: impl FnMut(&mut B) -> Option<Effect>) {
        while let Some(effect) = poll(backend) {
            if !self.has_room() || !backend.has_room() {
                // What follows must not overtake what is in the buffers.
                backend.overflow();
                self.carry_out(backend);
            }
            if let Effect::Take { from, to } = effect {
                // The page is mapped by an effect that follows.
                unmap(&mut self.unmappings, backend);
                backend.take(from, to);
            }
            backend.decided(&effect);
            self.dispatch(effect);
        }
    }

    fn has_room(&self) -> bool {
        let lists = [&self.unmappings, &self.demotions];
        !self.is_bounded
            || (lists.iter().all(|list| list.len() < list.capacity()) && self.work.len() < self.work.capacity())
    }

    fn dispatch(&mut self, effect: Effect) {
        match effect {
            Effect::Unmap {
                page,
                from,
                reason: UnmapReason::Demotion,
            } => self.demotions.push((page, from)),
            Effect::Unmap { page, from, .. } => self.unmappings.push((page, from)),
            Effect::Fill { page, source, urgent } => self.work.push(Work::Fill(page, source, urgent)),
            Effect::WriteBack { page, holder } => self.work.push(Work::Write(page, holder)),
            Effect::Discard { page, .. } => self.work.push(Work::Drop(page)),
            // Over with the decision, or for the record.
            Effect::Take { .. }
            | Effect::Map { .. }
            | Effect::Retry { .. }
            | Effect::Fail { .. }
            | Effect::Transfer { .. }
            | Effect::Recall { .. }
            | Effect::Locked { .. }
            | Effect::LockFailed { .. } => {}
        }
    }

    /// Carries out all that was drained.
    pub fn carry_out(&mut self, backend: &mut impl Backend) {
        let writes = self.work.iter().filter_map(|work| match work {
            Work::Write(page, _) => Some(*page),
            _ => None,
        });
        backend.begin(&mut { writes });
        unmap(&mut self.unmappings, backend);
        let (mut at, mut begun) = (0, false);
        while let Some(&work) = self.work.get(at) {
            at += 1;
            match work {
                Work::Fill(page, source, urgent) => {
                    begun |= source == Source::Store;
                    self.drop_left(backend);
                    let end = backend.fill(page, source, urgent);
                    end_at_once(backend, page, Request::Fill, end);
                }
                Work::Write(page, holder) => {
                    begun = true;
                    let end = backend.write(page, holder);
                    end_at_once(backend, page, Request::Evict, end);
                }
                Work::Drop(_) => at = self.drop_neighbours(at - 1, backend),
            }
        }
        self.work.clear();
        if begun {
            backend.flush();
        }
        unmap(&mut self.demotions, backend);
    }

    /// Drops the pages of all discards that follow each other from `first` on; returns where other work begins. The
    /// core is told in its own order.
    fn drop_neighbours(&mut self, first: usize, backend: &mut impl Backend) -> usize {
        let dropped = |work: &Work| match work {
            Work::Drop(page) => Some(*page),
            _ => None,
        };
        let mut past = first;
        while let Some(page) = self.work.get(past).and_then(dropped) {
            if !backend.offer(page) {
                self.drops.push(page);
                backend.completions().end(page, Request::Evict, End::Done);
            }
            past += 1;
        }
        self.drop_left(backend);
        past
    }

    /// A page has been copied out, and is dropped with [`drop_left`](Self::drop_left), or before a page is filled.
    pub fn has_left(&mut self, page: PageRef) {
        self.drops.push(page);
    }

    /// Drops all pages that have left, neighbours together.
    pub fn drop_left(&mut self, backend: &mut impl Backend) {
        if self.drops.is_empty() {
            return;
        }
        self.drops.sort_unstable();
        for_runs(
            &self.drops,
            |page| (page.object(), u64::from(page.page().get())),
            |&first, count| {
                backend.drop_run(Run { first, count });
            },
        );
        self.drops.clear();
    }
}

fn end_at_once(backend: &mut impl Backend, page: PageRef, request: Request, end: Option<End>) {
    if let Some(end) = end {
        backend.completions().end(page, request, end);
    }
}

fn unmap(unmappings: &mut Vec<Unmapping>, backend: &mut impl Backend) {
    let scope = |from: &Scope| match from {
        Scope::Everyone => u32::MAX,
        Scope::Of(holder) => HolderRow::from(*holder).get(),
    };
    let mappings = |(page, from): &Unmapping| (page.object(), scope(from));
    unmappings.sort_unstable_by_key(|unmapping| (mappings(unmapping), unmapping.0.page()));
    let place = |unmapping: &Unmapping| (mappings(unmapping), u64::from(unmapping.0.page().get()));
    for_runs(unmappings, place, |&(first, from), count| {
        backend.unmap(Run { first, count }, from)
    });
    unmappings.clear();
}

#[cfg(test)]
mod tests;
