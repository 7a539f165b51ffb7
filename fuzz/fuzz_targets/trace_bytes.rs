//! Any bytes as a trace of file pages, in each format: refused, or replayed with every page counted.
#![no_main]

#[path = "../../crates/sim/tests/common/trace_bytes.rs"]
mod trace_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace_bytes::run(bytes);
});
