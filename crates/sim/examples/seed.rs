//! Prints a random scenario: `cargo run -p freehold-sim --example seed -- SEED [everything]`

use freehold_sim::{Mix, random_scenario};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mix = if arguments.next().is_some() {
        Mix::everything()
    } else {
        Mix::default()
    };
    println!("{}", random_scenario(seed, mix).spec().to_toml());
}
