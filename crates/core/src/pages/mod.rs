//! Pages: where the content of each is, and the lists that they are on.

pub(super) mod entry;
pub(super) mod list;
pub(super) mod lists;
pub(super) mod marks;
pub(super) mod object;
pub(super) mod page;
