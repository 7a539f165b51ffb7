//! A loop that touches no memory.

use std::hint;

/// Some microseconds of it.
pub(super) fn round() {
    for turn in 0..1000_u32 {
        hint::black_box(turn);
        hint::spin_loop();
    }
}
