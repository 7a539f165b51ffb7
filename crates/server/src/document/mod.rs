//! Documents: what the server says of itself, as JSON or in Prometheus' format.
//!
//! They are made from a snapshot of the engine that may be `FRESH` old, and snapshots are `APART`, so that askers,
//! however many, hold the engine's lock only so often. Whoever is neither root nor the server's own user sees what is
//! his own, and of other reservations only the sizes.

mod advise;
mod build;
mod explain;
mod laws;
mod page;
mod pools;
mod ranges;
mod recording;
mod what_if;

use crate::control::{Peer, Refused, Registry};
use crate::engine::Membership;
use crate::error::EngineError;
use crate::settings::{Reaction, Unresponsive};
use crate::shared::Shared;
use crate::view::EngineView;
use freehold_protocol::message::{Question, Refusal};
use freehold_report::metrics;
use freehold_report::status::ServerStatus;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old a snapshot may be where nobody has made or given up anything since.
const FRESH: Duration = Duration::from_millis(20);
/// How far apart snapshots are taken in any case: whoever asks sees what he has done himself, and may wait so long.
const APART: Duration = Duration::from_millis(2);

/// A snapshot of the engine, and what the server says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    view: Arc<EngineView>,
    server: ServerStatus,
}

/// Takes snapshots, not too often.
#[derive(Debug)]
pub(crate) struct Snapshots {
    begun: Instant,
    server: ServerStatus,
    last: Mutex<Option<LastView>>,
    /// Changes by requests so far.
    changes: AtomicU64,
}

#[derive(Debug)]
struct LastView {
    taken: Instant,
    changes: u64,
    view: Arc<EngineView>,
}

impl Snapshots {
    /// For a server that begins now and listens at `socket`. `shortfalls`: what it wanted and could not have.
    pub(crate) fn new(socket: String, unresponsive: Unresponsive, shortfalls: Vec<String>) -> Self {
        let reaction = match unresponsive.reaction {
            Reaction::Kill => "kill",
            Reaction::Freeze => "freeze",
        };
        Self {
            begun: Instant::now(),
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: freehold_protocol::VERSION,
                pid: std::process::id(),
                user: rustix::process::geteuid().as_raw(),
                socket,
                uptime_ns: 0,
                unresponsive: reaction.to_owned(),
                unresponsive_ns: build::nanoseconds(unresponsive.bound),
                shortfalls,
            },
            last: Mutex::new(None),
            changes: AtomicU64::new(0),
        }
    }

    /// A request has made or given up something.
    pub(crate) fn spoil(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The engine now, or a moment ago.
    ///
    /// # Errors
    /// As [`Engine::view`](crate::Engine::view).
    pub(crate) fn take(&self, shared: &Shared) -> Result<Snapshot, EngineError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.changes.load(Ordering::Relaxed);
        let recent = last.as_ref().filter(|recent_view| recent_view.taken.elapsed() < FRESH);
        let view = match recent {
            Some(recent_view) if recent_view.changes == changes => Arc::clone(&recent_view.view),
            recent => {
                let apart = recent.map(|recent_view| APART.saturating_sub(recent_view.taken.elapsed()));
                std::thread::sleep(apart.unwrap_or_default());
                let changes = self.changes.load(Ordering::Relaxed);
                let view = Arc::new(shared.view()?);
                *last = Some(LastView {
                    taken: Instant::now(),
                    changes,
                    view: Arc::clone(&view),
                });
                view
            }
        };
        let server = ServerStatus {
            uptime_ns: build::nanoseconds(self.begun.elapsed()),
            ..self.server.clone()
        };
        Ok(Snapshot { view, server })
    }

    /// Everything in Prometheus' format.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn metrics(&self, shared: &Shared) -> Result<String, EngineError> {
        Ok(metrics::page(&build::status(&self.take(shared)?)))
    }
}

/// Answers a question of `peer`.
pub(crate) fn answer(registry: &Registry, peer: &Peer, question: Question, target: &str) -> Result<String, Refused> {
    let mut snapshot = registry.snapshots.take(&registry.shared)?;
    let partial = !peer.rights.privileged;
    if partial {
        snapshot.view = Arc::new(restrict(&snapshot.view, peer.user, |id| registry.maker(id)));
    }
    let mut strangers = registry.strangers.all();
    strangers.retain(|(stranger, _)| !partial || stranger.user == peer.user);
    match question {
        Question::Status | Question::Metrics => {
            let mut status = build::status(&snapshot);
            status.unmanaged = build::unmanaged(&snapshot, strangers);
            status.partial = partial;
            if let Some(devices) = &registry.devices {
                (status.victim_cache, status.devices) = devices.rows(partial.then_some(peer.user));
            }
            match question {
                Question::Metrics => Ok(metrics::page(&status)),
                _ => json(&status),
            }
        }
        Question::Explain => {
            let look = explain::Look {
                core: &|look| look(registry.shared.engine().core()),
                locate: &|client, address| registry.shared.engine().locate(client, address),
                strangers: &strangers,
            };
            json(&explain::explain(&snapshot, &look, target)?)
        }
        Question::WhatIf => json(&what_if::judge(&snapshot.view, peer, target)?),
        Question::Recording if partial => Err(Refused::new(
            Refusal::Forbidden,
            "what was recorded is for root and the server's own user",
        )),
        Question::Recording => recording::take(registry),
        Question::Laws if partial => Err(Refused::new(
            Refusal::Forbidden,
            "a check of the laws keeps faults waiting: it is for root and the server's own user",
        )),
        Question::Laws => json(&laws::check(&registry.shared)),
        Question::Advise => {
            // A hold of the engine for each: what they have in common is found out without it.
            let touched: &advise::Touched<'_> = &|object, of| registry.shared.engine().sampled_pages(object, of);
            json(&advise::advise(&snapshot.view, touched, target)?)
        }
    }
}

fn json(document: &impl Serialize) -> Result<String, Refused> {
    serde_json::to_string(document).map_err(|error| Refused::new(Refusal::State, format!("no document: {error}")))
}

/// The snapshot with what is `user`'s own, and the sizes of other reservations.
fn restrict(view: &EngineView, user: u32, maker: impl Fn(Membership) -> Option<u32>) -> EngineView {
    let mut view = view.clone();
    view.clients.retain(|client| client.uid == user);
    let own: BTreeSet<u32> = view.clients.iter().map(|client| client.pid).collect();
    let prefix = format!("{user}:");
    for object in &mut view.objects {
        // A user's own regions are called as he calls them.
        if object.uid == user
            && let Some(name) = object.name.strip_prefix(&prefix)
        {
            object.name = name.to_owned();
        }
        object.mappers.retain(|mapper| own.contains(&mapper.pid));
    }
    view.objects
        .retain(|object| object.uid == user || !object.mappers.is_empty());
    for row in &mut view.reservations {
        row.members.retain(|member| own.contains(&member.pid));
        if maker(Membership::Reservation(row.id)) != Some(user) && row.members.is_empty() {
            row.name = "(another user's)".to_owned();
        }
    }
    for row in &mut view.pinned_pools {
        row.members.retain(|(pid, _)| own.contains(pid));
        if maker(Membership::Pinned(row.id)) != Some(user) && row.members.is_empty() {
            row.name = "(another user's)".to_owned();
            (row.last, row.last_miss) = (None, None);
        }
    }
    view
}
