//! The store that the settings name.

use crate::engine::transfers::completion_queue::CompletionQueue;
use crate::settings::{Settings, StoreMedium};
use freehold_core::units::{Duration, FrameCount};
use freehold_store::{
    CompressedConfig, CompressedStore, FileConfig, FileStore, MemoryStore, SetupError, Store, StoreConfig,
};
use std::sync::Arc;

pub(super) fn make(settings: &Settings, completions: &Arc<CompletionQueue>) -> Result<Box<dyn Store>, SetupError> {
    let slots = settings.pages.get();
    Ok(match &settings.store {
        StoreMedium::Memory { latency, parallel } => Box::new(MemoryStore::new(StoreConfig {
            slots,
            latency: Duration::new(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)),
            parallel: *parallel,
        })?),
        StoreMedium::Compressed { bytes } => {
            let frames = u32::try_from(bytes.div_ceil(crate::PAGE)).unwrap_or(u32::MAX);
            let capacity = (frames > 0).then(|| FrameCount::new(frames));
            Box::new(CompressedStore::new(CompressedConfig { slots, capacity })?)
        }
        StoreMedium::File { directory, parallel } => {
            let config = FileConfig {
                parallel: *parallel,
                priority: Some(settings.priority),
                ..FileConfig::new(slots, directory.clone())
            };
            let completions = Arc::clone(completions);
            Box::new(FileStore::new(&config, completions)?)
        }
    })
}
