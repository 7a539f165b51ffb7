//! What the subcommands of `freehold` and the laboratory's experiments both stand on: exit statuses and failures,
//! output, progress, signals; scenarios read and run on an engine; servers and programs started and ended; the searches
//! for a size. It knows no subcommand and no experiment.
#![forbid(unsafe_code)]

pub mod ask;
pub mod background;
pub mod engine;
pub mod enough;
pub mod exec;
pub mod exit_status;
pub mod leftovers;
pub mod load;
pub mod options;
pub mod output;
pub mod private_server;
pub mod process;
pub mod progress;
pub mod run_server;
pub mod sampling;
pub mod signals;
pub mod size;
