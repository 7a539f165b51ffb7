//! The rules of the code base, as an ordinary test.

use serde_json::json;

#[test]
fn the_code_base_keeps_its_rules() {
    let findings = xtask::tidy(&xtask::workspace_root()).expect("the workspace can be read");
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{} findings:\n{}", shown.len(), shown.join("\n"));
}

fn world(name: &str, dependency: &str, kind: serde_json::Value) -> serde_json::Value {
    json!({"packages": [
        {"name": name, "dependencies": [{"name": dependency, "kind": kind}]},
        {"name": "freehold-scenario", "dependencies": []},
        {"name": "freehold-linux", "dependencies": []},
    ]})
}

#[test]
fn outward_arrows_are_found() {
    for (from, to) in [
        ("freehold-core", "libc"),
        ("freehold-core", "freehold-scenario"),
        ("freehold-pager", "freehold-scenario"),
        ("freehold-rt", "freehold-scenario"),
        ("freehold-store", "freehold-scenario"),
        ("freehold-sim", "freehold-linux"),
        ("freehold-unknown", "libc"),
    ] {
        let findings = xtask::check_arrows(&world(from, to, json!(null)));
        assert_eq!(findings.len(), 1, "{from} -> {to}: {findings:?}");
        assert_eq!(findings[0].place, from);
    }
}

#[test]
fn inward_and_test_arrows_are_not() {
    assert!(xtask::check_arrows(&world("freehold-sim", "freehold-scenario", json!(null))).is_empty());
    assert!(xtask::check_arrows(&world("freehold-core", "proptest", json!("dev"))).is_empty());
}
