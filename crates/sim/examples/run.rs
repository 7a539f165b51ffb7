//! Runs scenario files in virtual time and prints their results and how fast that went:
//! `cargo run --release -p freehold-sim --example run -- FILE…`

use std::process::ExitCode;
use std::time::Instant;

use freehold_scenario::Scenario;
use freehold_sim::{Options, simulate};

fn main() -> ExitCode {
    for file in std::env::args().skip(1) {
        if let Err(error) = run(&file) {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Scenario::load(std::path::Path::new(file), &[] as &[&str])?;
    let begun = Instant::now();
    let outcome = simulate(&scenario, &Options::default())?;
    let took = begun.elapsed().as_secs_f64();
    println!("{}", outcome.result.to_text());
    let jobs = scenario.tasks.iter().zip(&outcome.result.tasks);
    let references: u64 = jobs.map(|(task, result)| task.accesses_per_job() * result.jobs).sum();
    eprintln!("{references} references in {took:.2} s");
    Ok(())
}
