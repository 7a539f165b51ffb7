//! What Freehold says of itself. Each row is declared here, once.
//!
//! A *row* is what is said of one thing: a reservation, a task, a pinned page pool, a page. Documents, metrics,
//! recordings and pictures are made of rows. The server fills them from its engine, the simulator and the live engine
//! from their own; whoever reads a document gets the same types back from [`read`]. Nobody else parses one.
//!
//! Counts are pages or frames of 4 KiB; times are nanoseconds in fields that end in `_ns`. New fields may be added;
//! those there are keep their meaning and their order.
//!
//! ```
//! use freehold_core::units::{FrameCount, PageCount};
//! use freehold_core::view::ReservationView;
//! use freehold_report::reservation::ReservationLists;
//! let (capacity, active) = (FrameCount::new(8), PageCount::new(3));
//! let view = ReservationView { capacity, active, ..ReservationView::default() };
//! let lists = ReservationLists::from(&view);
//! let shown = ReservationLists::FIELDS.iter().map(|field| (field.name, (field.read)(&lists)));
//! assert_eq!(shown.take(2).collect::<Vec<_>>(), [("capacity", 8), ("active", 3)]);
//! ```
#![forbid(unsafe_code)]

pub mod advice;
pub mod explanation;
pub mod laws;
pub mod metrics;
pub mod pinning;
pub mod recorded;
pub mod reservation;
pub mod row;
pub mod sharing;
pub mod status;
pub mod transient;
pub mod what_if;

/// A text is of another release, or no document of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ReadError(#[from] serde_json::Error);

/// A document from its text.
///
/// # Errors
/// [`ReadError`].
pub fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    Ok(serde_json::from_str(text)?)
}
