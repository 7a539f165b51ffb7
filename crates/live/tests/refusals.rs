//! What is refused before anything is set up.

use std::sync::atomic::AtomicBool;

use freehold_live::{LiveError, run};
use freehold_scenario::Scenario;

#[test]
fn a_pool_larger_than_the_memory_is_refused_and_says_what_limits_it() {
    let text = r#"
name = "huge"
duration = "10ms"
memory.pool = "256GiB"
[[task]]
name = "idle"
class = "best-effort"
period = "10ms"
compute = "1us"
"#;
    let scenario = Scenario::parse(text, "huge").expect("the largest pool that a scenario may have");
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("the kernel's account of its memory");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total: u64 = line
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("MemTotal in kB");
    if total >= 256 << 20 {
        eprintln!("skipped: this machine has memory for the largest pool");
        return;
    }
    let error = run(&scenario, &AtomicBool::new(false)).expect_err("more than there is");
    assert!(matches!(error, LiveError::Memory { pool: 0x4_0000, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("memory.pool is 262144 MiB"), "{text}");
    assert!(text.contains("make the pool smaller"), "{text}");
}
