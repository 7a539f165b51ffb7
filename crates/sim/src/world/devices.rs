//! The victim cache between file regions and the store.

use super::{Ticket, World};
use crate::device::{DeviceChange, Ended};

impl World<'_> {
    /// A clean page of a file leaves: whether the victim cache takes it. Its request ends with the copy then.
    pub(super) fn put_cached(&mut self, now: u64, ticket: Ticket) -> bool {
        let key = (ticket.region, ticket.page.page().get());
        let version = self.physical.file_version(key.0, key.1);
        match (&mut self.devices, version) {
            (Some(devices), Some(version)) => devices.put(now, key, version, ticket, &mut self.laws),
            _ => false,
        }
    }

    /// A page is to be read: whether the victim cache has it. The request ends with the copy then.
    pub(super) fn get_cached(&mut self, now: u64, ticket: Ticket) -> bool {
        let key = (ticket.region, ticket.page.page().get());
        let version = self.physical.file_version(key.0, key.1);
        let ticket = Ticket { cached: true, ..ticket };
        match (&mut self.devices, version) {
            (Some(devices), Some(version)) => devices.get(now, key, version, ticket, &mut self.laws),
            _ => false,
        }
    }

    /// A job of a task begins or ends: devices open and close with it.
    pub(crate) fn job_of_devices(&mut self, now: u64, task: usize, begins: bool) {
        if let Some(devices) = &mut self.devices {
            devices.job(now, self.scenario, task, begins, &mut self.laws);
        }
    }

    /// Copies that have ended, and devices that open, close and come back. Whether any request has ended.
    pub(crate) fn advance_devices(&mut self, now: u64) -> bool {
        self.run_devices(now);
        let mut any = false;
        while let Some(ended) = self.end_of_copy() {
            self.end_copy(now, ended);
            any = true;
        }
        any
    }

    /// Does what devices are due to do.
    pub(crate) fn run_devices(&mut self, now: u64) {
        if let Some(devices) = &mut self.devices {
            devices.advance(now, &mut self.laws);
        }
    }

    /// The next copy that has ended.
    pub(crate) fn end_of_copy(&mut self) -> Option<Ended> {
        self.devices.as_mut()?.take_ended()
    }

    pub(crate) fn end_copy(&mut self, now: u64, ended: Ended) {
        match ended {
            Ended::Done(ticket) => self.complete(now, ticket, false),
            Ended::Read(ticket) => self.read(now, ticket),
        }
    }

    /// The next device that has been opened or closed.
    pub(crate) fn change_of_device(&mut self) -> Option<(usize, DeviceChange)> {
        self.devices.as_mut()?.take_change()
    }

    /// When a request, or whatever devices do, ends next.
    pub(crate) fn next_end(&self) -> Option<u64> {
        let device = self.devices.as_ref().and_then(|devices| devices.next_event());
        self.store.next_end().into_iter().chain(device).min()
    }

    pub(super) fn check_devices(&mut self, now: u64) {
        if let Some(devices) = &self.devices {
            let physical = &self.physical;
            devices.check(now, |(region, page)| physical.is_resident(region, page), &mut self.laws);
        }
    }
}
