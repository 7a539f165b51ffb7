//! Bytes as operations on the core's public interface: nothing panics, every law holds after each.
#![no_main]

#[path = "../../crates/core/tests/common/operations.rs"]
mod operations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| operations::run(bytes));
