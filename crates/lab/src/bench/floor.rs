//! The bare mechanism: each thread serves its own faults with a few system calls and no books.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use freehold_linux::bare::BareRegion;
use freehold_linux::fault::{self, AlternateStack, FaultInfo, Handled, Installed};
use freehold_linux::userfault::{Features, Userfault};

use super::rounds::refused;
use freehold_command::exit_status::Failure;

/// As large as the pager's.
const SIGNAL_STACK: usize = 256 << 10;

/// Serves a fault on a page; false if it cannot.
type Serve = dyn Fn(usize) -> bool;

thread_local! {
    static SERVING: RefCell<Option<(Rc<BareRegion>, Box<Serve>)>> = const { RefCell::new(None) };
}

fn hook(fault: FaultInfo) -> Handled {
    let served = SERVING.try_with(|serving| match &*serving.borrow() {
        Some((region, serve)) => region.page_of(fault.address).is_some_and(serve),
        None => false,
    });
    if served.unwrap_or(false) {
        Handled::Yes
    } else {
        Handled::No
    }
}

/// The process's fault handler is the bare one until this is dropped. No pager may live meanwhile.
#[derive(Debug)]
pub(super) struct Floor {
    userfault: Arc<Userfault>,
    _handler: Installed,
}

impl Floor {
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            userfault: Arc::new(Userfault::open(Features::SELF_PAGING).map_err(refused)?),
            _handler: fault::install(hook).map_err(refused)?,
        })
    }

    /// A region of absent pages for the calling thread; what [`BareRegion::allocate`] gives is locked, as ours is.
    pub(super) fn region(&self, pages: usize) -> Result<Rc<BareRegion>, Failure> {
        BareRegion::new(&self.userfault, pages, true)
            .map(Rc::new)
            .map_err(refused)
    }
}

/// The calling thread's faults are served until this is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    _stack: AlternateStack,
}

impl Serving {
    /// Serves the faults of the calling thread in `region`.
    ///
    /// # Errors
    /// No signal stack.
    pub(super) fn begin(region: &Rc<BareRegion>, serve: impl Fn(usize) -> bool + 'static) -> Result<Self, Failure> {
        let stack = AlternateStack::install(SIGNAL_STACK).map_err(refused)?;
        SERVING.set(Some((Rc::clone(region), Box::new(serve))));
        Ok(Self { _stack: stack })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVING.set(None);
    }
}
