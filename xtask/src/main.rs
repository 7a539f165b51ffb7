//! `cargo run -p xtask -- tidy` checks the rules of the code base; `times LOG` says how long the test binaries took of
//! which `cargo test` printed LOG.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["times", log] => times(log),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | times LOG");
            ExitCode::from(2)
        }
    }
}

fn times(log: &str) -> ExitCode {
    match std::fs::read(log) {
        Ok(bytes) => {
            let all = xtask::times::took(&String::from_utf8_lossy(&bytes));
            print!("{}", xtask::times::page(&all));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("times: {log}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
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
