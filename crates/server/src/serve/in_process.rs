//! A server in the process of its only client, which has its engine wait for its word: for runs in lockstep.
//!
//! The client has its pages as from any other server, by messages and the kernel's faults. What a run in lockstep needs
//! beyond that is no business of clients: it is called here, on the engine.

use super::{Options, ServeError, begin, socket};
use crate::control::{self, Ends, Registry};
use crate::engine::{ObjectKey, Standing, TaskKey};
use crate::shared::{EngineGuard, Pagers};
use freehold_core::fact::Request;
use freehold_core::units::PageIndex;
use freehold_linux::thread::{self, Thread};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// The server; dropping it ends it, and gives back all that it had.
#[derive(Debug)]
pub struct InProcess {
    registry: Arc<Registry>,
    /// Until it ends.
    pagers: Option<Pagers>,
    control: Option<Thread<io::Result<()>>>,
    stop: OwnedFd,
}

impl InProcess {
    /// Starts it, with a socket for the client. Nothing of the process changes: neither are its priorities raised, nor
    /// is its memory locked.
    ///
    /// # Errors
    /// See [`ServeError`]; nothing has begun then.
    pub fn start(options: &Options) -> Result<Self, ServeError> {
        let place = socket::SocketPlace::new(&options.socket)?;
        let (registry, pagers) = begin(options, Vec::new(), None)?;
        let listener = place.listen(options.mode)?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let (own, told) = (Arc::clone(&registry), stop.try_clone()?);
        let control = thread::spawn("freehold-control", move || {
            let ends = Ends {
                stop: &told,
                owner: None,
            };
            control::run(&own, listener, ends, || place.remove())
        })?;
        Ok(Self {
            registry,
            pagers: Some(pagers),
            control: Some(control),
            stop,
        })
    }

    /// What was pictured of the engine is shown no more: documents say what there is now.
    pub fn spoil_pictures(&self) {
        self.registry.snapshots.spoil();
    }

    /// The engine. Whoever drives it sees what he has done.
    fn engine(&self) -> EngineGuard<'_> {
        self.spoil_pictures();
        self.registry.shared.engine()
    }

    /// From now on transfers and threads wait for a word, or no longer.
    pub fn hold(&self, held: bool) {
        self.engine().hold(held);
    }

    /// The task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<TaskKey> {
        self.engine().task_called(name)
    }

    /// The region or file of this name.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<ObjectKey> {
        self.engine().object_called(name)
    }

    /// How a task's thread stands, and how many orders no agent has carried out.
    #[must_use]
    pub fn standing(&self, task: TaskKey) -> (Standing, u32) {
        self.engine().standing(task)
    }

    /// Orders that no agent has carried out.
    #[must_use]
    pub fn orders(&self) -> u32 {
        self.engine().orders()
    }

    /// Lets the thread of a task go on whose fault is over; false where it does not wait for that.
    #[must_use]
    pub fn let_go(&self, task: TaskKey) -> bool {
        self.engine().let_go(task)
    }

    /// Ends a transfer of a page; false where none such is held, or the device is still at it.
    #[must_use]
    pub fn end_transfer(&self, object: ObjectKey, page: PageIndex, request: Request) -> bool {
        self.engine().end_transfer(object, page, request)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // Full after 2^64 writes, and then it can be read already.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.stop, &1_u64.to_ne_bytes()));
        if let Some(control) = self.control.take() {
            // Whatever ended it has ended it.
            let _ = control.join();
        }
        // Only now, when nobody talks to the client any more.
        drop(self.pagers.take());
    }
}
