//! The experiments of paper 004, transient memory, on its components and task sets (`freehold_sim::component`). The
//! simulator decides; it runs the very policy that moves units of a composition.

pub(super) mod fig6;
pub(super) mod fig7;
pub(super) mod table3;
pub(super) mod table4;
mod wrk;

use freehold_core::transient::Policy;
use freehold_sim::component::{Model, TransientOptions, TransientOutcome, simulate_components};

use freehold_command::exit_status::Failure;

/// Task sets of each experiment.
const SETS: u64 = 10;
const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;
/// How long each runs.
const SECONDS: u64 = 60;

/// A policy, as rows name it, and whether holders inherit.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    policy: Policy,
    inheritance: bool,
}

const fn way(name: &'static str, policy: Policy, inheritance: bool) -> Way {
    Way {
        name,
        policy,
        inheritance,
    }
}

const TMEM: Way = way("tmem", Policy::Tardiness, true);
const GREEDY: Way = way("greedy", Policy::Greedy, true);
/// Not the paper's: what was wanted since the policy's last run, to who has the fewest first.
const DEMAND: Way = way("demand", Policy::Demand, true);
const WAYS: [Way; 12] = [
    way("min", Policy::Minimum, true),
    way("static", Policy::Static, true),
    way("fair", Policy::Fair, true),
    GREEDY,
    DEMAND,
    TMEM,
    way("min w/o PI", Policy::Minimum, false),
    way("static w/o PI", Policy::Static, false),
    way("fair w/o PI", Policy::Fair, false),
    way("greedy w/o PI", Policy::Greedy, false),
    way("tmem w/o PI", Policy::Tardiness, false),
    way("max", Policy::Maximum, true),
];

/// Runs a model with so many units beyond its minima; every law must hold.
fn simulate(model: &Model, way: Way, above: u32, seed: u64) -> Result<TransientOutcome, Failure> {
    let options = TransientOptions {
        limit: model.minima() + above,
        policy: way.policy,
        period: SECOND / 4,
        inheritance: way.inheritance,
        duration: SECONDS * SECOND,
        seed,
        steps: false,
    };
    let outcome = simulate_components(model, options).map_err(|error| Failure::Run(error.to_string()))?;
    match outcome.broken.first() {
        Some(law) => Err(Failure::Law(format!("{}, set {seed}: {law}", way.name))),
        None => Ok(outcome),
    }
}

/// The machine refuses what Table IV needs.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("tmem-table4: {error}"))
}
