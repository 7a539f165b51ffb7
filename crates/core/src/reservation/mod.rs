//! Reservations: whether one may be made, and where its frames come from.

mod admission;
mod debt;
mod firm;
pub(super) mod loans;
mod reclaim_for_admission;
