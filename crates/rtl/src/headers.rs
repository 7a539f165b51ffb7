//! The headers that modules are compiled with.

include!(concat!(env!("OUT_DIR"), "/headers.rs"));
