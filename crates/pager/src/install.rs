//! One SIGBUS handler for all pagers of the process: threads find their own pager.

use freehold_linux::fault::{InstallError, Installed, install};
use std::sync::{Arc, Mutex, PoisonError, Weak};

static CURRENT: Mutex<Weak<Installed>> = Mutex::new(Weak::new());

/// How often to wait for a handler that another thread is removing right now.
const ATTEMPTS: u32 = 1000;

/// The handler of this process's faults, installed now or before. It is removed with the last holder. Accesses of
/// [`freehold_linux::fault::access`] to pages that cannot be had end with an error as long, whoever pages.
///
/// # Errors
/// See [`InstallError`].
pub fn share_handler() -> Result<Arc<Installed>, InstallError> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut attempt = 0;
    loop {
        if let Some(installed) = current.upgrade() {
            return Ok(installed);
        }
        match install(crate::handler::hook) {
            Ok(installed) => {
                let installed = Arc::new(installed);
                *current = Arc::downgrade(&installed);
                return Ok(installed);
            }
            Err(InstallError::Taken) if attempt < ATTEMPTS => {
                attempt += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
    }
}
