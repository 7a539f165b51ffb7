//! The charts, a module each.

pub(crate) mod areas;
pub(crate) mod delays;
pub(crate) mod histogram;
mod states;
pub(crate) mod timeline;
pub(crate) mod traffic;
