//! Devices opened, given more, and closed.

use crate::cache::{Cache, Shared, State};
use crate::contiguity::Layout;
use crate::device::{Client, nanoseconds, record};
use crate::error::OpenError;
use freehold_core::units::FrameCount;
use freehold_core::victim_cache::{DeviceId, DeviceState, FrameRange, Opened as CoreOpened};
use rustix::fd::OwnedFd;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an opener waits for memory that its last client has closed and somebody still has.
const PATIENCE: Duration = Duration::from_millis(250);

/// An open device. Dropped, it is closed, and its memory comes back when nobody has it any more.
#[derive(Debug)]
pub struct Opened {
    shared: Arc<Shared>,
    device: DeviceId,
    /// What it was given first.
    pub grant: Grant,
}

/// Memory that a device is given.
#[derive(Debug)]
pub struct Grant {
    /// Pages that the device has at most.
    pub pages: u32,
    /// Pages that it uses now, these included.
    pub used: u32,
    /// The first page of these, in the region.
    pub first: u32,
    /// How many these are.
    pub count: u32,
    /// How these lie in the machine's memory.
    pub layout: Layout,
    /// Memory objects of these pages, in order of address, each as long as it is: for the client, and nobody else.
    pub descriptors: Vec<OwnedFd>,
    /// Whether they come as they are.
    pub trusted: bool,
    /// Pages filled with zeros for it.
    pub zeroed: u32,
    /// Cached pages that went for it.
    pub discarded: u32,
    /// How long it took.
    pub took: Took,
}

/// Where the time of an opening went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Waiting: for copies under way in its frames, and for what it had before to come back.
    pub wait: u64,
    /// Choosing the place.
    pub choose: u64,
    /// Filling with zeros.
    pub zero: u64,
    /// All of it.
    pub total: u64,
}

impl Cache {
    /// Opens a device with `used` pages of its memory, all where that is zero. Waits for copies under way in its
    /// frames, and for its own return if that is under way.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&self, name: &str, used: u32, client: Client) -> Result<Opened, OpenError> {
        let started = Instant::now();
        let state = self.shared.state();
        let device = state.find(name).ok_or_else(|| OpenError::Unknown(name.to_owned()))?;
        let result = self.shared.open(state, device, used, client, started);
        let mut state = self.shared.state();
        let row = &mut state.rows[device.index()];
        match &result {
            Ok(_) => {
                row.opens += 1;
                record(&mut row.open_times, started.elapsed());
            }
            Err(_) => row.refused += 1,
        }
        drop(state);
        result
    }
}

impl Opened {
    /// The grant without its descriptors stays: whoever serves a client passes them on and keeps none.
    pub(crate) fn take_grant(&mut self) -> Grant {
        let descriptors = std::mem::take(&mut self.grant.descriptors);
        Grant {
            descriptors,
            ..self.grant
        }
    }

    /// Gives the device more, up to its size: it uses `used` pages then, all where that is zero. What is new is
    /// granted. Only waits for copies under way.
    ///
    /// # Errors
    /// [`OpenError::Refused`], [`OpenError::System`]: the device has what it had.
    pub fn grow(&self, used: u32) -> Result<Grant, OpenError> {
        let started = Instant::now();
        let mut state = self.shared.state();
        let asked = Instant::now();
        let opened = state.core.grow(self.device, FrameCount::new(used))?;
        let choose = asked.elapsed();
        if opened.range.count().is_zero() {
            return Ok(self.shared.nothing_new(&state, self.device, opened.range));
        }
        self.shared.hand_over(state, self.device, &opened, choose, started)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.grant.descriptors.clear();
        self.shared.close(self.device);
    }
}

impl Shared {
    fn open(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        device: DeviceId,
        used: u32,
        client: Client,
        started: Instant,
    ) -> Result<Opened, OpenError> {
        let mut state = self.wait_for_return(state, device, started)?;
        let asked = Instant::now();
        let opened = state.core.open(device, FrameCount::new(used))?;
        let choose = asked.elapsed();
        state.rows[device.index()].client = Some(client);
        let grant = self.hand_over(state, device, &opened, choose, started);
        match grant {
            Ok(grant) => Ok(Opened {
                shared: Arc::clone(self),
                device,
                grant,
            }),
            Err(error) => {
                self.close(device);
                Err(error)
            }
        }
    }

    /// A device that is closed, or an error. What is on its way back is waited for; what somebody has, not for long.
    fn wait_for_return<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        device: DeviceId,
        started: Instant,
    ) -> Result<MutexGuard<'a, State>, OpenError> {
        loop {
            let row = &state.rows[device.index()];
            let name = || row.device.name.clone();
            let pid = row.client.map_or(0, |client| client.pid);
            match state.core.device(device).map(|view| view.state) {
                Some(DeviceState::Opening | DeviceState::Open) => return Err(OpenError::InUse { name: name(), pid }),
                Some(DeviceState::Returning) => {}
                Some(DeviceState::Idle) | None => return Ok(state),
            }
            if let Some(back) = row.returning
                && back.looked
                && started.elapsed() > PATIENCE
            {
                let (held, chunks) = (back.held, back.chunks);
                let name = name();
                return Err(OpenError::Held {
                    name,
                    held,
                    chunks,
                    pid,
                });
            }
            let waited = self.changed.wait_timeout(state, PATIENCE / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// From the core's answer to descriptors.
    fn hand_over(
        &self,
        mut state: MutexGuard<'_, State>,
        device: DeviceId,
        opened: &CoreOpened,
        choose: Duration,
        started: Instant,
    ) -> Result<Grant, OpenError> {
        let before = started.elapsed().saturating_sub(choose);
        let copies = Instant::now();
        state.drain();
        let range = loop {
            if let Some(range) = state.rows[device.index()].handed.take() {
                break range;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let wait = before + copies.elapsed();
        let (pages, used) = sizes(&state, device);
        let trusted = state.rows[device.index()].device.trusted;
        drop(state);
        let zeroing = Instant::now();
        if !trusted {
            self.region.zero(range)?;
        }
        let zero = zeroing.elapsed();
        let descriptors = self.region.descriptors(range)?;
        Ok(Grant {
            pages,
            used,
            first: range.first().get(),
            count: range.count().get(),
            layout: self.region.layout(range),
            descriptors,
            trusted,
            zeroed: if trusted { 0 } else { range.count().get() },
            discarded: opened.discarded.get(),
            took: Took {
                wait: nanoseconds(wait),
                choose: nanoseconds(choose),
                zero: if trusted { 0 } else { nanoseconds(zero) },
                total: nanoseconds(started.elapsed()),
            },
        })
    }

    fn nothing_new(&self, state: &State, device: DeviceId, range: FrameRange) -> Grant {
        let (pages, used) = sizes(state, device);
        Grant {
            pages,
            used,
            first: range.first().get(),
            count: range.count().get(),
            layout: Layout::UNKNOWN,
            descriptors: Vec::new(),
            trusted: state.rows[device.index()].device.trusted,
            zeroed: 0,
            discarded: 0,
            took: Took::default(),
        }
    }

    fn close(&self, device: DeviceId) {
        let mut state = self.state();
        let closed = state.core.closed(device);
        debug_assert!(closed.is_ok(), "what is open can be closed: {closed:?}");
        state.rows[device.index()].handed = None;
        state.drain();
        state.note_returns(device, &self.region);
        drop(state);
        self.work.notify_all();
    }
}

fn sizes(state: &State, device: DeviceId) -> (u32, u32) {
    let view = state.core.device(device);
    view.map_or((0, 0), |view| (view.size.get(), view.used.count().get()))
}
