//! What is refused before anything is set up.

use std::sync::atomic::AtomicBool;

use freehold_live::{LiveError, Options, Server, ServerError, run, run_on_server};
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

/// A server's file regions are for reading only: a write would end the process.
#[test]
fn writes_to_a_file_are_refused_where_a_trace_makes_them_too() {
    let folder = std::env::temp_dir().join(format!("freehold-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the trace");
    let (trace, nowhere) = (folder.join("accesses.txt"), Server::At(folder.join("nowhere")));
    std::fs::write(&trace, "0\n1 w\n2\n").expect("the trace is written");
    let traced = format!("pattern = \"trace\"\nfile = {trace:?}");
    let plain = "pattern = \"sequential\"\namount = \"16KiB\"\nwrite = true".to_owned();
    for access in [traced, plain] {
        let text = format!(
            "name = \"writes\"\nduration = \"10ms\"\nmemory.pool = \"1MiB\"\n\
             [[region]]\nname = \"image\"\nkind = \"file\"\nsize = \"16KiB\"\n\
             [[task]]\nname = \"writer\"\nclass = \"best-effort\"\nperiod = \"10ms\"\n\
             [[task.access]]\nregion = \"image\"\n{access}\n"
        );
        let scenario = Scenario::parse(&text, "writes").unwrap_or_else(|error| panic!("{error}"));
        let error =
            run_on_server(&scenario, &nowhere, &Options::default(), &AtomicBool::new(false)).expect_err("it writes");
        assert!(
            matches!(error, LiveError::Server(ServerError::WritesFile { .. })),
            "{access}: {error}"
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}
