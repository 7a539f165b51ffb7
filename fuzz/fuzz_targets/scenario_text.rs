//! Any text as a scenario file: it is a scenario or is refused, without a panic; what it is can be written down and
//! read again.
#![no_main]

use freehold_scenario::Scenario;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A trace is a file of its own, wherever the text says: what is under test here is the text.
    if text.contains("trace") {
        return;
    }
    match Scenario::parse(text, "fuzz.toml") {
        Ok(scenario) => {
            let written = scenario.to_toml();
            let again = Scenario::parse(&written, "written.toml").map(|again| again.to_toml());
            assert_eq!(again.as_ref().ok(), Some(&written), "{again:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
