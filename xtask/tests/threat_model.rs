//! Every test that the threat model names is there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use xtask::workspace_root;

/// What stands between backticks and has the form `file::test`.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|word| word.split_once(".rs::")).collect()
}

#[test]
fn tests_that_the_threat_model_names_exist() {
    let root = workspace_root();
    let text = std::fs::read_to_string(root.join("docs/book/src/threat-model.md")).unwrap();
    let named = named(&text);
    assert!(named.len() > 20, "{} tests are named", named.len());
    for (file, test) in named {
        let source = std::fs::read_to_string(root.join(format!("{file}.rs")));
        let source = source.unwrap_or_else(|error| panic!("{file}.rs is named, but: {error}"));
        let declared = format!("#[test]\n{}fn {test}()", indent(&source, test));
        assert!(source.contains(&declared), "{file}.rs has no test {test}");
    }
}

/// What stands before a function's declaration.
fn indent<'a>(source: &'a str, name: &str) -> &'a str {
    let declared = format!("fn {name}()");
    let line = source
        .lines()
        .find(|line| line.trim_start() == format!("{declared} {{"));
    line.map_or("", |line| &line[..line.len() - line.trim_start().len()])
}

#[test]
fn no_clock_that_jumps_is_read() {
    for crate_name in [
        "agent", "client", "core", "linux", "pager", "protocol", "server", "store",
    ] {
        let mut folders = vec![workspace_root().join("crates").join(crate_name).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let jumps = source.contains("SystemTime::now") || source.contains("CLOCK_REALTIME");
                    assert!(!jumps, "{} reads a clock that jumps", path.display());
                }
            }
        }
    }
}
