//! Freehold's scenario files and results.
//!
//! - [`Scenario`] reads the TOML file that says what memory there is, who reserves it and what tasks touch; every error
//!   names file, line and key and says what to do. Programs build the same through [`ScenarioSpec`].
//! - [`AccessGenerator`] turns a task into the accesses of its jobs, the same for every engine.
//! - [`results`] holds the documents that `run`, `reproduce` and `bench` print, as JSON and as tables.
//! - [`DeviceFile`] reads which devices have memory set aside.
//! - [`recording`] holds what happened when, for pictures and traces.
//!
//! Nothing here reads a clock or draws an unseeded number; only `load` and traces read files.
#![forbid(unsafe_code)]

mod access;
mod admission;
mod components;
mod devices;
mod document;
mod error;
mod model;
mod pinning;
mod pinning_result;
mod quantity;
pub mod recording;
mod resolve;
pub mod results;
mod scenario_devices;
pub mod setup;
mod spec;
mod to_toml;
mod wait;

pub use access::{Access, AccessGenerator, ComputeSpread, Run, SplitMix64};
pub use components::{Component, ComponentSpec, KINDS, POLICIES, Transient, TransientSpec, Units, UnitsSpec};
pub use devices::{Backing, Device, DeviceFile};
pub use document::{Document, read_text, tables_of_keys};
pub use error::{Error, Place, Warning};
pub use model::{
    AccessStep, Class, Costs, Faults, PageRange, Pattern, Region, RegionIndex, RegionKind, RegionUse, Reservation,
    ReservationIndex, ReservationKind, Scenario, Sharing, StoreConfig, StoreKind, Task, TaskIndex, TraceEntry,
};
pub use pinning::{AppSettings, AppSpec, FREEHOLD_RESTORES, MILLION, Pinning, Preset, Unpinned};
pub use pinning_result::Judgements;
pub use quantity::{format_size, format_time, parse_size, parse_time};
pub use resolve::{MAX_CPUS, MAX_ENTRIES, MAX_PAGES, MAX_TIME};
pub use scenario_devices::{DeviceOpen, DeviceSpec, OpenSpec, ScenarioDevice};
pub use setup::order::{Site, set_up};
pub use spec::{AccessSpec, ClassSpec, LockSpec, MemorySpec, RegionSpec, ReservationSpec, ScenarioSpec, TaskSpec};
pub use wait::StoreWait;
