//! Why there is no cache, and why a device is not opened.

use freehold_core::victim_cache::error as core;
use freehold_linux::Errno;
use freehold_linux::memory::MemfdError;

/// Why there is no cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// A size does not suit huge pages.
    #[error("device memory on huge pages takes devices whose sizes are multiples of 2MiB: change them, or `backing`")]
    Sizes,
    /// There are not enough huge pages.
    #[error(
        "{wanted} huge pages are needed, {free} are free: `freehold region prepare`, \
         or `echo {wanted} > /proc/sys/vm/nr_hugepages`, or `backing = \"small\"`"
    )]
    HugePages {
        /// How many are needed.
        wanted: u32,
        /// How many are free.
        free: u64,
    },
    /// The devices do not fit.
    #[error("the devices: {0}")]
    Devices(#[from] core::SpecError),
    /// A memory object could not be made.
    #[error("device memory could not be made: {0}")]
    Memory(#[from] MemfdError),
    /// The kernel's refusal.
    #[error("device memory could not be mapped: {0}")]
    System(#[from] Errno),
    /// No thread.
    #[error("the thread that takes device memory back could not be started: {0}")]
    Thread(String),
}

/// Why a device is not opened, or not given more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such device.
    #[error("there is no device `{0}`")]
    Unknown(String),
    /// Somebody has it.
    #[error("the device `{name}` is in use by process {pid}")]
    InUse {
        /// The device.
        name: String,
        /// Who has it.
        pid: u32,
    },
    /// It was closed, and its memory is not free.
    #[error(
        "the device `{name}` was closed, but {held} of its {chunks} memory objects are still open, mapped or pinned \
         by what process {pid} left behind: end that"
    )]
    Held {
        /// The device.
        name: String,
        /// Memory objects that are not back.
        held: usize,
        /// Of how many.
        chunks: usize,
        /// Who had it.
        pid: u32,
    },
    /// The core's refusal.
    #[error(transparent)]
    Refused(#[from] core::OpenError),
    /// The kernel's refusal; the device is closed again.
    #[error("the device's memory could not be handed over: {0}")]
    System(#[from] Errno),
}
