//! Sessions from random bytes, as the fuzz target `session` plays them. `FREEHOLD_SEED` repeats a run, `FREEHOLD_SOAK`
//! makes it a hundred times as long.

#[path = "common/session_bytes.rs"]
mod session_bytes;

use session_bytes::Target;

#[test]
fn sessions_of_any_bytes_leave_a_server_that_serves() {
    let named = std::env::var("FREEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FREEHOLD_SEED={seed}");
    let Some(target) = Target::start() else {
        return println!("NOT CHECKED: no server can be had here");
    };
    let sessions = if std::env::var_os("FREEHOLD_SOAK").is_some() {
        30_000
    } else {
        300
    };
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    for _ in 0..sessions {
        let length = usize::from(next()) * 4;
        let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
        target.play(&bytes);
    }
}
