//! Which units there may be.

use super::cache::Kind;
use crate::composition::{Component, Composition, Transient};
use freehold_core::units::FrameCount;
use freehold_linux::PAGE_SIZE;
use std::time::Duration;

/// The units of one kind that a component may have.
#[derive(Clone, Debug)]
pub struct CacheSpec {
    /// The place of the component among all.
    pub component: usize,
    /// Its name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// Pages of one unit.
    pub pages: usize,
    /// Units that it always has.
    pub minimum: usize,
    /// Units that it may have.
    pub most: usize,
    /// How long a request waits at most.
    pub bound: Duration,
    /// Whether who holds a unit past the bound is to be started again.
    pub restarts: bool,
}

impl Transient {
    /// The limit in frames.
    pub(crate) fn frames(&self) -> FrameCount {
        let frames = self.limit.0 / PAGE_SIZE as u64;
        FrameCount::new(u32::try_from(frames).unwrap_or(u32::MAX))
    }
}

impl Component {
    /// The units that it may have; its place is this one.
    fn caches(&self, place: usize) -> impl Iterator<Item = CacheSpec> + '_ {
        let kinds = [(Kind::Stack, Some(self.stack)), (Kind::Buffer, self.cbuf)];
        let kinds = kinds.into_iter().filter_map(|(kind, units)| Some((kind, units?)));
        kinds.map(move |(kind, units)| CacheSpec {
            component: place,
            name: self.name.clone(),
            kind,
            pages: units.pages(),
            minimum: units.minimum,
            most: units.most,
            bound: self.bound.0,
            restarts: self.restart_hung,
        })
    }
}

impl Composition {
    /// The units of all components.
    pub(crate) fn caches(&self) -> Vec<CacheSpec> {
        let components = self.components.iter().enumerate();
        components
            .flat_map(|(place, component)| component.caches(place))
            .collect()
    }
}
