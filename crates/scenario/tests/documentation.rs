//! The documentation has every key, and what is said of each is what is declared.

use freehold_scenario::{Scenario, tables_of_keys};
use std::path::Path;

const BEGIN: &str = "<!-- keys: generated, see crates/scenario/tests/documentation.rs -->\n";
const END: &str = "<!-- end of keys -->\n";

/// With `FREEHOLD_WRITE_DOCUMENTATION` set, the tables are written instead of compared.
#[test]
fn the_tables_of_keys_are_those_that_are_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/scenario.md");
    let page = std::fs::read_to_string(&path).expect("docs/book/src/scenario.md");
    let (before, rest) = page.split_once(BEGIN).expect("where the keys begin");
    let (tables, after) = rest.split_once(END).expect("where the keys end");
    let declared = format!("\n{}", tables_of_keys());
    if std::env::var_os("FREEHOLD_WRITE_DOCUMENTATION").is_some() {
        let page = [before, BEGIN, &declared, END, after].concat();
        std::fs::write(&path, page).expect("docs/book/src/scenario.md is written");
        return;
    }
    assert_eq!(
        tables, declared,
        "docs/book/src/scenario.md: FREEHOLD_WRITE_DOCUMENTATION=1 cargo test -p freehold-scenario --test documentation"
    );
}

/// Scenarios in which every key stands: components stand in one of their own.
const EVERYTHING: [&str; 2] = [include_str!("everything.toml"), include_str!("components.toml")];

#[test]
fn every_key_that_is_read_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let here = |name: &str| folder.join(name).display().to_string();
    let mut all_written = String::new();
    for text in EVERYTHING {
        let read = Scenario::parse(text, &here("everything.toml")).expect("a scenario");
        let written = read.to_toml();
        let again = Scenario::parse(&written, &here("written.toml")).expect("a scenario");
        assert_eq!(again, read);
        all_written.push_str(&written);
    }
    let tables = tables_of_keys();
    let (scenario, _) = tables.split_once("### Device files").expect("device files come last");
    let keys = scenario
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let has = |text: &str, key: &str| {
        let words = text.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c)));
        words.into_iter().any(|word| word == key)
    };
    for key in keys {
        assert!(EVERYTHING.iter().any(|text| has(text, key)), "`{key}` is left out");
        assert!(has(&all_written, key), "`{key}` is read and not written");
    }
}
