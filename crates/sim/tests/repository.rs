//! The scenarios of the repository run, and break no law.

use std::path::Path;

use freehold_scenario::Scenario;
use freehold_sim::{Options, simulate};

#[test]
fn scenarios_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut run = 0;
    for folder in ["scenarios", "experiments"] {
        let Ok(files) = std::fs::read_dir(root.join(folder)) else {
            continue;
        };
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        {
            let Ok(scenario) = Scenario::load(file, &[] as &[&str]) else {
                // Not every file there is a scenario of this engine.
                continue;
            };
            let outcome = simulate(&scenario, &Options::default());
            let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(outcome.laws_hold(), "{}: {:#?}", file.display(), outcome.result.laws);
            run += 1;
        }
    }
    println!("{run} scenarios");
}
