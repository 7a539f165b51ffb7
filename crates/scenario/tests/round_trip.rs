//! Text to scenario and back; arbitrary text never panics.

mod common;

use freehold_scenario::{Document, Scenario};
use proptest::prelude::*;

/// Pieces that come close to being a scenario.
fn nearly() -> impl Strategy<Value = String> {
    let lines: Vec<String> = common::BASE.lines().map(str::to_owned).collect();
    let piece = prop_oneof![
        8 => proptest::sample::select(lines),
        1 => "[a-z_.]{1,12} = [-0-9a-zA-Z\".{}\\[\\]]{0,12}",
        1 => "\\[\\[(region|task|task.access|reservation|machine|faults)\\]\\]",
        1 => "(size|amount|period|budget|shift|offset) = \"[0-9]{1,22}(B|KiB|GiB|ns|s)\"",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join("\n"))
}

proptest! {
    #[test]
    fn any_text_is_scenario_or_error(text in any::<String>()) {
        let _ = Scenario::parse(&text, "s.toml");
    }

    #[test]
    fn nearly_a_scenario_is_scenario_or_error(text in nearly()) {
        let _ = Scenario::parse(&text, "s.toml");
    }

    #[test]
    fn any_override_is_taken_or_refused(key in "[a-z0-9.]{0,30}", value in any::<String>()) {
        let mut document = Document::parse(common::BASE, "s.toml").unwrap();
        if document.apply_set(&format!("{key}={value}")).is_ok() {
            let _ = document.scenario();
        }
        let _ = document.apply_set(&value);
    }

    #[test]
    fn any_value_of_a_known_key(
        key in proptest::sample::select(vec![
            "task.tau1.period", "task.tau1.budget", "memory.pool", "region.shm.size", "reservation.r1.size",
            "task.tau1.access.0.amount", "duration", "memory.swap.capacity", "costs.access", "machine.cpus", "seed",
        ]),
        number: u64,
        unit in proptest::sample::select(vec!["", "B", "KiB", "GiB", "ns", "us", "s"]),
    ) {
        let mut document = Document::parse(common::BASE, "s.toml").unwrap();
        document.apply_set(&format!("{key}={number}{unit}")).unwrap();
        let _ = document.scenario();
    }

    #[test]
    fn specs_survive_their_text(spec in common::spec()) {
        let Ok(scenario) = Scenario::try_from(spec.clone()) else { return Ok(()) };
        let again = Scenario::parse(&scenario.to_toml(), "s.toml").unwrap();
        prop_assert_eq!(again.spec(), &spec);
        prop_assert_eq!(again, scenario);
    }
}

#[test]
fn most_random_specs_are_legal() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut drawn = || common::spec().new_tree(&mut runner).unwrap().current();
    let legal = (0..100)
        .filter(|_| Scenario::try_from(drawn()).map_err(|e| println!("{e}")).is_ok())
        .count();
    assert!(legal > 60, "{legal}");
}

#[test]
fn deep_nesting_is_an_error() {
    let cases = [
        "a.".repeat(100_000) + "a = 1",
        "a = ".to_owned() + &"[".repeat(100_000),
        "a.".repeat(3_000) + "a = 1",
    ];
    for text in cases {
        assert!(Scenario::parse(&text, "s.toml").is_err());
    }
    let mut document = Document::parse(common::BASE, "s.toml").unwrap();
    let _ = document.apply_set(&format!("seed={}", "[".repeat(100_000)));
    assert!(document.apply_set(&format!("{}=1", "a.".repeat(100_000))).is_err());
}
