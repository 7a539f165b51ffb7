//! Nodes of one run, apart from whatever else on the machine uses iceoryx2.

use std::path::PathBuf;

use iceoryx2::prelude::*;

use crate::Outcome;

/// The node of one process.
pub(crate) type OwnNode = Node<ipc::Service>;

/// A node of the run that has this name. It leaves signals to the process.
pub(crate) fn node(run: &str) -> Outcome<OwnNode> {
    let mut config = Config::default();
    config.global.prefix = FileName::new(prefix(run).as_bytes())?;
    let root = folder(run);
    let root = root.to_str().ok_or("the temporary directory has no name in UTF-8")?;
    config.global.set_root_path(&root.try_into()?);
    Ok(NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create()?)
}

/// A run of this process. What iceoryx2 leaves of it goes in the end.
pub(crate) struct Run(pub(crate) String);

impl Run {
    pub(crate) fn new() -> Self {
        Self(std::process::id().to_string())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(folder(&self.0));
        let shared = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        for object in shared {
            if object.file_name().to_string_lossy().starts_with(&prefix(&self.0)) {
                let _ = std::fs::remove_file(object.path());
            }
        }
    }
}

fn prefix(run: &str) -> String {
    format!("freehold_{run}_")
}

fn folder(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("freehold-iceoryx2-{run}"))
}
