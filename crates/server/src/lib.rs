//! The memory server: reservations for several processes at once.
//!
//! The server holds the policy core, everything it knows about pages, and its clients' userfaultfds. [`Engine`] is one
//! state machine behind one lock ([`Shared`]); every step of it is short and waits for nobody: not for a store, not for
//! a client, not for a socket. *Pager threads* bring it faults and answers, the control thread brings it requests.
#![forbid(unsafe_code)]

mod backing;
mod closing;
mod control;
mod devices;
pub mod document;
mod engine;
mod error;
pub mod log;
mod quota;
pub mod serve;
mod settings;
mod share;
mod shared;
mod stalls;
mod timeout;
mod times;
mod user_threads;
mod victims;
mod view;

/// Bytes of a page.
const PAGE: u64 = freehold_linux::PAGE_SIZE as u64;

pub use backing::BackingView;
pub use control::Limits;
pub use engine::{
    ClientId, ClientRole, Engine, Handover, MapKey, MapRequest, Membership, NewClient, Notice, ObjectKey, Opened,
    RegionRequest, Snapshot, SourceFile, Standing, TaskKey,
};
pub use error::EngineError;
pub use quota::{Quotas, Rights};
pub use settings::{Reaction, RecordingRoom, Settings, StoreMedium, Tables, Unresponsive};
pub use shared::{EngineGuard, Pagers, Shared};
pub use view::{
    ClientView, EngineView, JudgedJob, MapperView, MemberView, ObjectView, OrdersView, PinnedPoolRow, ReservationRow,
    ShareView, TaskView,
};
