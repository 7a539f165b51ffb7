//! Any bytes as sessions with a server in this process: connections, packets, descriptors, hang-ups. An honest client
//! is served afterwards, the laws hold, and nothing is left of the sessions.
#![no_main]

#[path = "../../crates/server/tests/common/session_bytes.rs"]
mod session_bytes;

use session_bytes::Target;
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| Target::start().expect("a server, where userfaultfd is allowed"));
    target.play(bytes);
});
