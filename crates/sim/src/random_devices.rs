//! Random scenarios with devices, for tests of engines against each other.

use freehold_scenario::{Scenario, SplitMix64};

/// Files that are read by tasks with a reservation, which may lock pages, and without, and devices that open at times
/// and with jobs, all of their memory and parts.
///
/// # Panics
/// Never: what is drawn is a scenario.
#[must_use]
pub fn device_scenario(seed: u64) -> Scenario {
    let mut random = SplitMix64::new(seed);
    let mut draw = |from: u32, past: u32| from + random.below(past - from);
    let mut text = format!(
        "name = \"devices\"\nseed = {seed}\nduration = \"400ms\"\nmemory.pool = \"4MiB\"\n\
         [[reservation]]\nname = \"r\"\nsize = \"{}KiB\"\n",
        4 * draw(24, 60)
    );
    let locked = draw(0, 13);
    if locked > 0 {
        text += &format!(
            "[[reservation.lock]]\nregion = \"read\"\nsize = \"{}KiB\"\n",
            4 * locked
        );
    }
    for file in ["read", "other"] {
        let pages = draw(60, 120);
        text += &format!(
            "[[region]]\nname = \"{file}\"\nkind = \"file\"\nsize = \"{}KiB\"\n",
            4 * pages
        );
    }
    for (task, file, reservation) in [("a", "read", "reservation = \"r\"\n"), ("b", "other", "")] {
        let pattern = ["sequential", "random", "zipf"][draw(0, 3) as usize];
        text += &format!(
            "[[task]]\nname = \"{task}\"\n{reservation}period = \"{}ms\"\n[[task.access]]\nregion = \"{file}\"\n\
             pattern = \"{pattern}\"\n",
            draw(15, 40)
        );
    }
    for (place, trusted) in [("x", false), ("y", true), ("z", false)] {
        // Parts are multiples of what all sizes are multiples of.
        let size = if place == "z" { 8 } else { 8 * draw(1, 8) };
        text += &format!(
            "[[device]]\nname = \"{place}\"\nsize = \"{}KiB\"\ntrusted = {trusted}\n",
            4 * size
        );
        if place == "z" {
            text += "task = \"b\"\n";
            continue;
        }
        let mut at = draw(1, 40);
        while at < 380 {
            let (hold, used) = (draw(1, 50), 4 * 8 * draw(1, size / 8 + 1));
            text += &format!("[[device.open]]\nat = \"{at}ms\"\nhold = \"{hold}ms\"\nuse = \"{used}KiB\"\n");
            at += hold + draw(1, 60);
        }
    }
    Scenario::parse(&text, "devices.toml").unwrap_or_else(|error| panic!("{error}: {text}"))
}
