//! Programs in C, compiled against the header and the library, and run.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_c_program_shares_buffers_with_another_process() {
    is_fine("cbuf");
}

#[test]
fn forked_children_take_and_release_as_other_processes_do() {
    is_fine("forked");
}

/// Compiles `tests/c/NAME.c` and runs it.
fn is_fine(name: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = std::env::current_exe().unwrap();
    let libraries = own.parent().unwrap();
    let library = libraries.join("libfreehold_tmem.so");
    assert!(library.is_file(), "{}", library.display());
    let program = std::env::temp_dir().join(format!("freehold-{name}-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-pthread", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join(format!("tests/c/{name}.c")))
        .arg(&library)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let run = Command::new(&program).env("LD_LIBRARY_PATH", libraries).output();
    std::fs::remove_file(&program).unwrap();
    let run = run.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "fine\n",
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
