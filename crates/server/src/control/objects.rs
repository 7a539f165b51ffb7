//! Requests about objects, mappings and locks.

use crate::control::accounts::{Charge, Kind};
use crate::control::descriptors;
use crate::control::grants::{Grant, Locked, OpenObject};
use crate::control::refused::{Refused, clean};
use crate::control::registry::Registry;
use crate::control::reply::{Reply, Waiting};
use crate::control::session::{self, Session};
use crate::engine::{Engine, MapRequest, Opened, RegionRequest};
use crate::error::EngineError;
use freehold_core::limits::{PageRange, Regime};
use freehold_core::units::{PageCount, PageIndex};
use freehold_protocol::PAGE_SIZE;
use freehold_protocol::message::{OPENED_LAST, Refusal, RegionKind, Request};
use rustix::fd::OwnedFd;

/// The longest path, in characters.
const PATH: usize = 1_024;

fn range(first: u32, pages: u32) -> PageRange {
    PageRange {
        first: PageIndex::new(first),
        count: PageCount::new(pages),
    }
}

impl Session {
    pub(super) fn open_file(
        &mut self,
        registry: &Registry,
        regime: Regime,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Reply, Refused> {
        self.process()?;
        let [file] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|sent| {
            let text = format!("{} descriptors: the file to open is one", sent.len());
            Refused::new(Refusal::Descriptor, text)
        })?;
        let trusted = self.peer.rights.privileged.then_some(self.peer.pid);
        let checked = descriptors::check_file_system(&file, trusted);
        checked.map_err(|what| Refused::new(Refusal::Descriptor, format!("the file cannot be opened: {what}")))?;
        // The server's own finding: what a client says it is would be shown to everybody who uses the file.
        let path = clean(&descriptors::path(&file), PATH);
        let file = registry.shared.identify(file, self.peer.user)?;
        let charge = registry.take(self.peer.user, Kind::Objects, 1)?;
        let asker = (self.peer.user, self.client_role());
        let opened = registry.shared.engine().open_file(&file, regime, &path, asker);
        self.keep_object(registry, opened?, charge, false)
    }

    pub(super) fn open_region(
        &mut self,
        registry: &Registry,
        name: &str,
        pages: u32,
        kind: RegionKind,
        regime: Regime,
    ) -> Result<Reply, Refused> {
        self.process()?;
        let (user, shared) = (self.peer.user, kind == RegionKind::Shared);
        let name = session::name(name);
        let (owner, name) = match name.split_once(':').map(|(owner, name)| (owner.parse::<u32>(), name)) {
            Some((Ok(owner), name)) if shared => (Some(owner), name),
            _ => (None, &*name),
        };
        // What a user may not open it must not make the server set up either.
        let charge = registry.take(user, Kind::Objects, 1)?;
        let opened = {
            let mut engine = registry.shared.engine();
            self.region_user(&engine, owner, name, shared).and_then(|uid| {
                let request = RegionRequest {
                    name,
                    shared,
                    pages,
                    regime,
                    uid,
                };
                engine.open_region(&request).map_err(Refused::from)
            })
        };
        self.keep_object(registry, opened?, charge, true)
    }

    /// Whose region is meant: the asking user's own where no owner is named, the server's where root has none of that
    /// name. Nobody is given what another user has called so, unless he names that user.
    fn region_user(&self, engine: &Engine, owner: Option<u32>, name: &str, shared: bool) -> Result<u32, Refused> {
        let (user, privileged) = (self.peer.user, self.peer.rights.privileged);
        let there = |uid| engine.has_region(uid, name);
        let own = freehold_linux::process::effective_user();
        match owner {
            Some(owner) if owner == user => Ok(user),
            Some(owner) if privileged && there(owner) => Ok(owner),
            Some(owner) if privileged => Err(Refused::new(
                Refusal::Unknown,
                format!("user {owner} has no region {name:?}: see `freehold status`"),
            )),
            Some(owner) => Err(Refused::new(
                Refusal::Forbidden,
                format!("the region {name:?} is user {owner}'s: be that user, or root"),
            )),
            None if shared && user == 0 && !there(user) && there(own) => Ok(own),
            None => Ok(user),
        }
    }

    /// Gives an opened object a handle; one for which this connection has one already keeps it until it is closed as
    /// often as it was opened.
    fn keep_object(
        &mut self,
        registry: &Registry,
        opened: Opened,
        charge: Charge,
        writable: bool,
    ) -> Result<Reply, Refused> {
        let Opened {
            object: key,
            pages,
            descriptor,
        } = opened;
        if let Some(handle) = self.grants.open_again(key) {
            registry.shared.engine().close_object(key);
            return Ok(Reply::Opened {
                handle,
                pages,
                descriptor,
            });
        }
        let taken = registry.take(self.peer.user, Kind::Pages, u64::from(pages));
        let kept = taken.and_then(|of_pages| {
            let object = Grant::new(OpenObject::new(key, writable), vec![charge, of_pages]);
            let full = |_| Refused::limit("opened objects of one connection", 1_024);
            self.grants.objects.insert(object).map_err(full)
        });
        let handle = kept.inspect_err(|_| registry.shared.engine().close_object(key))?;
        Ok(Reply::Opened {
            handle,
            pages,
            descriptor,
        })
    }

    pub(super) fn close_object(&mut self, registry: &Registry, handle: u32) -> Result<Reply, Refused> {
        if let Some(key) = self.grants.close(handle)? {
            registry.shared.engine().close_object(key);
        }
        Ok(Reply::Done(Vec::new()))
    }

    pub(super) fn map(&mut self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        let Request::Map {
            task,
            object,
            address,
            first,
            pages,
            writable,
        } = *request
        else {
            return Err(Refused::new(Refusal::State, "not here"));
        };
        let object = if object == OPENED_LAST {
            self.grants.opened_last
        } else {
            object
        };
        let (client, task, object) = (self.process()?, self.grants.task(task)?, self.grants.object(object)?);
        if writable && !object.writable {
            return Err(Refused::new(
                Refusal::Forbidden,
                "the content of a file is never written",
            ));
        }
        let bytes = u64::from(pages) * PAGE_SIZE as u64;
        if address % PAGE_SIZE as u64 != 0 || pages == 0 || address.checked_add(bytes).is_none_or(|end| end >> 47 != 0)
        {
            return Err(Refused::new(
                Refusal::Unknown,
                "a mapping begins at a page, is not empty, and ends below 2^47",
            ));
        }
        if self.grants.mappings.is_full() {
            return Err(Refused::limit("mappings of one connection", 4_096));
        }
        let charge = registry.take(self.peer.user, Kind::Mappings, 1)?;
        let request = MapRequest {
            task,
            object: object.key,
            address,
            range: range(first, pages),
            writable,
        };
        let made = registry.shared.engine().map(client, &request);
        // There is room: it was looked at above.
        self.grants
            .mappings
            .insert(Grant::new(made?, vec![charge]))
            .map(Reply::Made)
            .map_err(|_| Refused::limit("mappings of one connection", 4_096))
    }

    pub(super) fn unmap(&mut self, registry: &Registry, handle: u32) -> Result<Reply, Refused> {
        let client = self.process()?;
        let key = self.grants.mappings.get(handle).map(|mapping| mapping.what);
        let key = key.ok_or_else(|| Refused::handle("mapping", handle))?;
        let unmapped = registry.shared.engine().unmap(client, key);
        // One that went with its task has a handle until then.
        if matches!(unmapped, Ok(()) | Err(EngineError::NoSuchMapping)) {
            self.grants.mappings.remove(handle);
        }
        unmapped?;
        Ok(Reply::Done(Vec::new()))
    }

    pub(super) fn lock(
        &mut self,
        registry: &Registry,
        reservation: u32,
        object: u32,
        (first, pages): (u32, u32),
    ) -> Result<Reply, Refused> {
        let locked = Locked {
            reservation: self.grants.reservation(reservation)?,
            object: self.grants.object(object)?.key,
            range: range(first, pages),
        };
        self.grants.may_lock()?;
        registry
            .shared
            .engine()
            .lock(locked.reservation, locked.object, locked.range)?;
        Ok(Reply::Wait(Waiting::Lock(locked)))
    }

    pub(super) fn unlock(
        &mut self,
        registry: &Registry,
        reservation: u32,
        object: u32,
        (first, pages): (u32, u32),
    ) -> Result<Reply, Refused> {
        let (reservation, object) = (self.grants.reservation(reservation)?, self.grants.object(object)?.key);
        let range = range(first, pages);
        registry.shared.engine().unlock(reservation, object, range)?;
        self.forget_locks(reservation, object, range);
        Ok(Reply::Done(Vec::new()))
    }

    /// A program locks or unlocks its own memory.
    pub(super) fn program_lock(&self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        let client = self.process()?;
        let mut engine = registry.shared.engine();
        match *request {
            Request::LockMemory { call, address, pages } => engine.lock_memory(client, call, address, pages)?,
            Request::UnlockMemory { call, address, length } => engine.unlock_memory(client, call, address, length)?,
            _ => return Err(Refused::new(Refusal::State, "not here")),
        }
        Ok(Reply::Done(Vec::new()))
    }

    /// What is unlocked is not to be unlocked again at the end: what remains of each lock is kept.
    fn forget_locks(
        &mut self,
        reservation: freehold_core::id::ReservationId,
        object: crate::engine::ObjectKey,
        gone: PageRange,
    ) {
        let mut kept = Vec::with_capacity(self.grants.locks.len());
        for locked in self.grants.locks.drain(..) {
            if locked.reservation == reservation && locked.object == object {
                let rest = without(locked.range, gone).into_iter().flatten();
                kept.extend(rest.map(|range| Locked { range, ..locked }));
            } else {
                kept.push(locked);
            }
        }
        self.grants.locks = kept;
    }
}

/// What remains of a range before and after another.
fn without(range: PageRange, gone: PageRange) -> [Option<PageRange>; 2] {
    let ((first, last), (from, to)) = (bounds(range), bounds(gone));
    if last <= from || first >= to {
        return [Some(range), None];
    }
    [(first, from.min(last)), (to.max(first), last)].map(|(first, last)| (first < last).then(|| part(first, last)))
}

fn bounds(range: PageRange) -> (u64, u64) {
    let first = u64::from(range.first.get());
    (first, first + u64::from(range.count.get()))
}

fn part(first: u64, last: u64) -> PageRange {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    range(narrow(first), narrow(last - first))
}

/// `make verify`: all ranges among a few pages, at both ends of what there is.
#[cfg(test)]
mod verify {
    use super::*;

    const PAGES: u32 = 9;

    fn pages(range: PageRange) -> Vec<u64> {
        let (first, last) = bounds(range);
        (first..last).collect()
    }

    fn ranges(base: u32) -> impl Iterator<Item = PageRange> {
        let starts = 0..PAGES;
        starts.flat_map(move |first| (0..=PAGES - first).map(move |count| range(base + first, count)))
    }

    #[test]
    fn what_remains_of_a_lock_is_what_was_not_unlocked() {
        for base in [0, u32::MAX - PAGES] {
            for locked in ranges(base) {
                for gone in ranges(base) {
                    let expected: Vec<u64> = pages(locked)
                        .into_iter()
                        .filter(|page| !pages(gone).contains(page))
                        .collect();
                    let left = without(locked, gone).into_iter().flatten();
                    assert_eq!(
                        left.flat_map(pages).collect::<Vec<_>>(),
                        expected,
                        "{locked:?} {gone:?}"
                    );
                }
            }
        }
    }
}
