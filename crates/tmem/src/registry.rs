//! The pools that this process knows, by component: names of buffers are looked up here.

use crate::id::BufferId;
use crate::pool::{Pool, Reader};
use std::sync::OnceLock;

/// Components whose pools a process can know: 1 to this number.
pub const MOST_COMPONENTS: u16 = 255;

/// A pool, as this process may use it.
#[derive(Debug)]
pub enum Known {
    /// To take, release and read.
    Own(Pool),
    /// To read.
    Reader(Reader),
}

static POOLS: [OnceLock<Known>; MOST_COMPONENTS as usize + 1] =
    [const { OnceLock::new() }; MOST_COMPONENTS as usize + 1];
static OWN: OnceLock<&'static Pool> = OnceLock::new();

/// A pool cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Its component is above [`MOST_COMPONENTS`].
    #[error("a component has a number from 1 to {MOST_COMPONENTS}")]
    Component,
    /// The component has one, or the process has one of its own, for as long as it runs.
    #[error("there is a pool of that component already")]
    Taken,
}

/// Registers a pool for as long as the process runs. The first that it may take from is its own.
///
/// # Errors
/// See [`RegisterError`].
pub fn register(pool: Known) -> Result<&'static Known, RegisterError> {
    let component = match &pool {
        Known::Own(pool) => pool.settings().component,
        Known::Reader(reader) => reader.settings().component,
    };
    let place = POOLS.get(usize::from(component)).ok_or(RegisterError::Component)?;
    place.set(pool).map_err(|_| RegisterError::Taken)?;
    let known = place.get().ok_or(RegisterError::Taken)?;
    if let Known::Own(pool) = known {
        // A second own pool is found by name, and taken from through its `Pool`.
        let _ = OWN.set(pool);
    }
    Ok(known)
}

/// The pool that this process takes from.
#[must_use]
pub fn own() -> Option<&'static Pool> {
    OWN.get().copied()
}

/// Where the buffer of this name is; see [`Pool::find`].
#[must_use]
pub fn find(id: BufferId, length: usize) -> Option<*const u8> {
    match POOLS.get(usize::from(id.component()))?.get()? {
        Known::Own(pool) => pool.find(id, length),
        Known::Reader(reader) => reader.find(id, length),
    }
}
