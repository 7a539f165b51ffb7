//! Who moves units while threads call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use freehold_component::{CacheSpec, Kind, UnitManager, Window};
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::sched::{self, Policy};
use freehold_scenario::{Class, KINDS, Scenario, Transient};
use freehold_sim::component::Model;

use super::Threads;
use crate::error::LiveError;

/// How often the manager looks who asks for units.
const TICK: Duration = Duration::from_millis(5);
/// How long a request may wait for a user of a unit. Jobs of a run are shorter.
const BOUND: Duration = Duration::from_secs(30);
/// The most urgent that a thread may be.
const HIGHEST: u32 = 99;

/// The pools of a scenario's components: stacks and buffers of the first, of the second, and so on.
pub(super) fn caches(transient: &Transient, model: &Model) -> Vec<CacheSpec> {
    let components = transient.components.iter().zip(&model.components).enumerate();
    let caches = components.flat_map(|(place, (component, model))| {
        let kinds = [Kind::Stack, Kind::Buffer].into_iter().zip(model.kinds);
        kinds.map(move |(kind, units)| CacheSpec {
            component: place,
            name: component.name.clone(),
            kind,
            pages: units.frames as usize,
            minimum: units.minimum as usize,
            most: units.most as usize,
            bound: BOUND,
            restarts: false,
        })
    });
    debug_assert_eq!(KINDS.len(), 2);
    caches.collect()
}

pub(super) struct Manager<'a> {
    cast: &'a Threads<'a>,
    units: &'a mut UnitManager,
    origin: MonotonicTime,
}

impl<'a> Manager<'a> {
    pub(super) fn new(cast: &'a Threads<'a>, units: &'a mut UnitManager, origin: MonotonicTime) -> Self {
        Self { cast, units, origin }
    }

    /// Moves units until the run is over.
    pub(super) fn main(self) -> Result<(), LiveError> {
        be_above(self.cast.scenario);
        let after = |time: u64| self.origin.saturating_add(Duration::from_nanos(time));
        let end = after(self.cast.scenario.duration.get());
        let period = Duration::from_nanos(self.cast.transient.period.get());
        let mut due = self.origin.saturating_add(period);
        while clock::now() < end && !self.cast.stop.load(Ordering::Relaxed) {
            clock::sleep_until(clock::now().saturating_add(TICK).min(due).min(end));
            self.units.tick();
            if clock::now() >= due {
                let window = self.cast.window();
                self.units.run_policy(&window)?;
                due = due.saturating_add(period);
            }
        }
        Ok(())
    }
}

/// More urgent than every thread of fixed priority: what they wait for comes from here.
fn be_above(scenario: &Scenario) {
    let fixed = scenario.tasks.iter().filter_map(|task| match task.class {
        Class::Fifo { priority } => Some(u32::from(priority)),
        Class::Deadline | Class::BestEffort => None,
    });
    if let Some(most) = fixed.max() {
        let priority = (most + 1).min(HIGHEST);
        // The threads have theirs, so the right is there.
        let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority });
    }
}

impl Threads<'_> {
    /// What the threads that the policy knows have done since the last call.
    fn window(&self) -> Window {
        let now = clock::now();
        let mut window = Window::default();
        let threads = self.model.threads.iter().zip(&self.progress);
        for (_, progress) in threads.filter(|(thread, _)| thread.priority > 0) {
            let mut progress = progress.lock();
            window.tardiness.push(std::mem::take(&mut progress.tardiness));
            window.unfinished.push(progress.lateness(now));
        }
        window
    }
}
