//! The C ABI of the memory server's library, `libfreehold`. Its header, `include/freehold.h`, is made from this crate.
//!
//! # Rules that hold in every function
//! - Pointers are checked: null, alignment, and for objects a tag that is gone once the object has been ended.
//! - No panic crosses: it becomes `FREEHOLD_BUG`.
//! - Structures that may grow begin with their size (the module `sized`).
//! - The reason of the last failure in a thread is kept for it (`freehold_error`).
//!
//! # Safety
//! Of all functions: pointers that are not null point to what their types say, strings end with a zero byte, and
//! objects are not used after or while they are ended. What of that can be checked is checked.
#![allow(non_camel_case_types, reason = "types are called as in C")]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

pub mod connection;
pub mod device;
pub mod error;
mod handle;
pub mod mapping;
pub mod periodic;
pub mod region;
pub mod reservation;
mod sized;
pub mod task;
mod text;
