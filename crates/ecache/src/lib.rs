//! Memory that is set aside for devices and caches clean file pages while they are closed (paper 003): the decisions
//! of [`freehold_core::victim_cache`] on real pages.
//!
//! A [`Cache`] owns a region of memory, cut into chunks, each a memory object of its own. Fronts put pages that they
//! evict and get them back; [`Cache::open`] hands a device the chunks that its frames are in, and nothing else. What a
//! device had comes back when nobody else has it any more, as the kernel says.
//!
//! ```
//! use freehold_ecache::{Cache, FileId, Key, PageIndex};
//! use freehold_scenario::DeviceFile;
//!
//! let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"camera\"\nsize = \"64KiB\"\n";
//! let cache = Cache::new(&DeviceFile::parse(text, "devices.toml")?)?;
//! let key = Key { file: FileId::new(7), page: PageIndex::new(0) };
//! assert!(cache.put(key, &[1; 4096]).is_ok());
//! let opened = cache.open("camera", 0, Default::default())?;
//! assert_eq!((opened.grant.used, opened.grant.discarded), (16, 1));
//! assert!(!cache.get(key, &mut [0; 4096]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Absences
//! - Nothing here knows files: whose pages they are and when they change, the front says.
//! - No descriptor of a chunk is ever used for two openings of an untrusted device.
#![forbid(unsafe_code)]

mod adjacent;
mod at_once;
mod cache;
mod contiguity;
mod cuts;
mod device;
mod error;
mod hand_over;
mod huge_pages;
pub mod prepare;
mod puts;
pub mod record;
mod region;
mod retire;
mod returns;
pub mod serve;
mod status;

pub use cache::{Cache, Key};
pub use contiguity::{Contiguity, Layout};
pub use device::Client;
pub use error::{CacheError, OpenError};
pub use freehold_core::units::PageIndex;
pub use freehold_core::victim_cache::FileId;
pub use freehold_core::victim_cache::error::PutError;
pub use hand_over::{Grant, Opened, Took};
pub use puts::Puts;
pub use status::{DeviceRow, DeviceState, RegionUses, Times, VictimCacheRow};

/// Bytes of a page.
pub const PAGE_SIZE: usize = freehold_linux::PAGE_SIZE;
