//! Random calls of threads that are ended, suspended and woken anywhere. `FREEHOLD_SEED` repeats one, `FREEHOLD_SOAK`
//! takes a hundred of them.

mod common;

use common::{SPACES, World, eventually_within};
use freehold_rtl::load;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn seeds() -> Vec<u32> {
    if let Some(seed) = std::env::var("FREEHOLD_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return vec![seed];
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = if std::env::var_os("FREEHOLD_SOAK").is_some() {
        100
    } else {
        2
    };
    (0..count).map(|more| now.subsec_nanos() % 1_000_000 + more).collect()
}

#[test]
fn threads_that_end_anywhere_hold_nothing_and_stop_nobody() {
    let Some(mut world) = World::new("storm") else { return };
    world.start_host();
    for seed in seeds() {
        for (number, space) in SPACES.into_iter().enumerate() {
            println!("FREEHOLD_SEED={seed} in {space:?}");
            let name = format!("storm_{seed}_{number}");
            let object = world.compile("storm.c", &name);
            world
                .insert(&object, space, &[("seed", &seed.to_string())])
                .expect("it loads");
            let ended = || world.printed(&name).ends_with("right\n") || world.printed(&name).ends_with("wrong\n");
            eventually_within(Duration::from_secs(120), "the end of all rounds", ended);
            assert_eq!(world.printed(&name), "right\n");
            load::remove(&world.directory, &name, false).expect("every thread ends");
        }
    }
}
