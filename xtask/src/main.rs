//! `cargo run -p xtask -- tidy`: checks the rules of the code base.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        eprintln!("usage: cargo run -p xtask -- tidy");
        return ExitCode::from(2);
    }
    match xtask::tidy(&xtask::workspace_root()) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("tidy: {} findings", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}
