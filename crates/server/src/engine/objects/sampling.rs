//! Which pages of shared objects a client references in each period, and private memory that is left alone.
//!
//! At the end of each period all mappings of shared objects are dropped; a fault on a page is its reference.

use crate::engine::Engine;
use crate::engine::forks::withheld::addresses;
use crate::engine::keys::ClientId;
use crate::engine::spaces::SegmentKind;
use crate::error::EngineError;
use freehold_core::id::{ObjectId, ReservationId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The shortest period: a shorter one would keep the server busy with nothing else.
const SHORTEST: Duration = Duration::from_millis(10);
/// Ranges that one client has left alone, at most.
const MOST_KEPT: usize = 1_024;

/// References to one object by the tasks of one reservation.
#[derive(Debug, Default)]
struct References {
    ever: BTreeSet<u32>,
    now: BTreeSet<u32>,
    sum: u64,
}

/// What is being sampled.
#[derive(Debug, Default)]
pub(in crate::engine) struct Samples {
    /// By client: the period in nanoseconds, and when it ends.
    periods: BTreeMap<ClientId, (u64, u64)>,
    references: BTreeMap<(ObjectId, Option<ReservationId>), References>,
    /// Periods that have ended, of each reservation.
    ended: BTreeMap<Option<ReservationId>, u64>,
}

impl Engine {
    /// Samples which shared pages a client references in each period; zero ends it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`]; [`EngineError::Limit`] for a period of less than 10 ms.
    pub fn sample(&mut self, client: ClientId, period: Duration) -> Result<(), EngineError> {
        self.step(|engine| {
            if engine.client(client).is_none() {
                return Err(EngineError::NoSuchClient);
            }
            if period.is_zero() {
                engine.clients.samples.periods.remove(&client);
                return Ok(());
            }
            if period < SHORTEST {
                return Err(EngineError::Limit {
                    what: "samples: a period is 10 ms at least",
                });
            }
            let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
            let end = engine.step.now.get().saturating_add(nanos);
            engine.clients.samples.periods.insert(client, (nanos, end));
            engine.zap_shared(client);
            engine.io.completions.wake(0);
            Ok(())
        })
    }

    pub(super) fn is_sampled(&self, client: ClientId) -> bool {
        self.clients.samples.periods.contains_key(&client)
    }

    /// A task of a sampled client has faulted on a shared page.
    pub(in crate::engine) fn note_reference(&mut self, client: ClientId, address: u64, object: ObjectId, page: u32) {
        if self.clients.samples.periods.is_empty() || !self.is_sampled(client) {
            return;
        }
        let segment = self.client(client).and_then(|client| client.segment(address));
        let task = segment.and_then(|(_, segment)| self.tasks.at(segment.task.index()));
        let Some(reservation) = task.map(|task| task.reservation) else {
            return;
        };
        let references = self
            .clients
            .samples
            .references
            .entry((object, reservation))
            .or_default();
        references.ever.insert(page);
        references.now.insert(page);
    }

    /// Ends periods that are over.
    pub(in crate::engine) fn end_periods(&mut self) {
        let now = self.step.now.get();
        let over = self.clients.samples.periods.iter().filter(|(_, (_, end))| *end <= now);
        let over: Vec<ClientId> = over.map(|(id, _)| *id).collect();
        for id in over {
            let Some(client) = self.client(id) else {
                self.clients.samples.periods.remove(&id);
                continue;
            };
            let tasks = client.tasks.iter().filter_map(|key| self.tasks.at(key.index()));
            let reservations: BTreeSet<_> = tasks.map(|task| task.reservation).collect();
            for reservation in reservations {
                *self.clients.samples.ended.entry(reservation).or_default() += 1;
                let mine = self
                    .clients
                    .samples
                    .references
                    .iter_mut()
                    .filter(|((_, whose), _)| *whose == reservation);
                for (_, references) in mine {
                    references.sum += references.now.len() as u64;
                    references.now.clear();
                }
            }
            if let Some((period, end)) = self.clients.samples.periods.get_mut(&id) {
                *end = now.saturating_add(*period);
            }
            self.zap_shared(id);
        }
    }

    /// When the next period is over.
    pub(in crate::engine) fn periods_due(&self) -> Option<u64> {
        self.clients.samples.periods.values().map(|(_, end)| *end).min()
    }

    fn zap_shared(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let shared = client
            .space
            .iter()
            .filter(|(_, segment)| segment.kind != SegmentKind::Private);
        let ranges: Vec<(u64, u64)> = shared.map(|(start, segment)| (*start, segment.end)).collect();
        for (start, end) in ranges {
            let pages = u32::try_from((end - start) / crate::PAGE).unwrap_or(u32::MAX);
            self.order_zap(id, start, pages);
        }
    }

    /// Distinct pages of an object that sampled clients of a reservation referenced, and the mean of a period.
    pub(in crate::engine) fn sampled(&self, object: ObjectId, reservation: Option<ReservationId>) -> (u32, f64) {
        let Some(references) = self.clients.samples.references.get(&(object, reservation)) else {
            return (0, 0.0);
        };
        let periods = self.clients.samples.ended.get(&reservation).copied().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let average = if periods == 0 {
            0.0
        } else {
            references.sum as f64 / periods as f64
        };
        (u32::try_from(references.ever.len()).unwrap_or(u32::MAX), average)
    }

    /// The pages of an object that sampled clients of a reservation referenced. O(pages).
    #[must_use]
    pub fn sampled_pages(&self, object: ObjectId, reservation: ReservationId) -> Vec<u32> {
        let references = self.clients.samples.references.get(&(object, Some(reservation)));
        references.map_or(Vec::new(), |references| references.ever.iter().copied().collect())
    }

    /// What was sampled of an object that is gone is forgotten.
    pub(in crate::engine) fn forget_samples(&mut self, object: ObjectId) {
        self.clients.samples.references.retain(|(of, _), _| *of != object);
    }

    /// Leaves private memory where it is from now on.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::Range`], [`EngineError::Limit`].
    pub fn keep(&mut self, client: ClientId, address: u64, length: u64) -> Result<(), EngineError> {
        let range = addresses(address, length)?;
        let row = self.client_mut(client).ok_or(EngineError::NoSuchClient)?;
        if row.memory.kept.len() >= MOST_KEPT {
            return Err(EngineError::Limit {
                what: "ranges that are left alone",
            });
        }
        row.memory.kept.push(range);
        Ok(())
    }
}
