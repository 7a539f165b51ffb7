//! The store that the settings name.

use crate::engine::ends::Ends;
use crate::settings::{Backing, Settings};
use freehold_core::units::{Duration, FrameCount};
use freehold_store::{
    CompressedConfig, CompressedStore, FileConfig, FileStore, MemoryStore, SetupError, Store, StoreConfig,
};
use std::sync::Arc;

pub(super) fn make(settings: &Settings, ends: &Arc<Ends>) -> Result<Box<dyn Store>, SetupError> {
    let slots = settings.pages.get();
    Ok(match &settings.store {
        Backing::Memory { latency, parallel } => Box::new(MemoryStore::new(StoreConfig {
            slots,
            latency: Duration::new(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)),
            parallel: *parallel,
        })?),
        Backing::Compressed { bytes } => {
            let frames = u32::try_from(bytes.div_ceil(crate::PAGE)).unwrap_or(u32::MAX);
            let capacity = (frames > 0).then(|| FrameCount::new(frames));
            Box::new(CompressedStore::new(CompressedConfig { slots, capacity })?)
        }
        Backing::File { directory, parallel } => {
            let config = FileConfig {
                parallel: *parallel,
                priority: Some(settings.priority),
                ..FileConfig::new(slots, directory.clone())
            };
            let ends = Arc::clone(ends);
            Box::new(FileStore::new(&config, ends)?)
        }
    })
}
