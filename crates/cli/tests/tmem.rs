//! `freehold tmem plan` as its user calls it.

use std::path::PathBuf;
use std::process::{Command, Output};

const FACTS: &str = r#"{"free": 1,
 "components": [{"name": "A", "allocated": 2, "requested": 4, "minimum": 1},
                {"name": "B", "allocated": 1, "requested": 3, "minimum": 1},
                {"name": "C", "allocated": 3, "requested": 1, "minimum": 1}],
 "threads": [{"name": "t1", "tardiness_ns": 5000, "blocked_ns": {"A": 4000, "B": 1000}},
             {"name": "t2", "tardiness_ns": 2600, "blocked_ns": {"B": 3000}}],
 "remembered": [{"thread": "t2", "component": "C", "impact_ns": 800}]}"#;

fn plan(name: &str, text: &str, more: &[&str]) -> Output {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, text).expect("a file for the test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["tmem", "plan"]).arg(file).args(more);
    command.output().expect("the command starts")
}

#[test]
fn a_plan_says_what_each_component_ought_to_have() {
    let output = plan("plan.json", FACTS, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["desired"], serde_json::json!({"A": 4, "B": 2, "C": 1}));
    assert_eq!(plan["predicted_ns"], serde_json::json!({"t1": 500, "t2": 1100}));
    assert_eq!(plan["moves"][0], serde_json::json!({"from": null, "to": "A"}));
    let remembered = plan["remembered"].as_array().unwrap();
    assert!(remembered.contains(&serde_json::json!({"thread": "t2", "component": "C", "impact_ns": 400})));
}

#[test]
fn what_is_wrong_with_the_numbers_is_said() {
    for (wrong, right, expected) in [
        ("\"B\": 3000", "\"X\": 3000", "there is no component `X`"),
        ("\"name\": \"B\"", "\"name\": \"A\"", "component `A` stands twice"),
        ("\"minimum\": 1}", "\"minimum\": -1}", "line 2"),
        ("\"free\"", "\"fre\"", "unknown field `fre`"),
        ("\"thread\": \"t2\"", "\"thread\": \"t3\"", "there is no thread `t3`"),
    ] {
        let output = plan("wrong.json", &FACTS.replacen(wrong, right, 1), &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("wrong.json") && said.contains(expected), "{said}");
    }
}
