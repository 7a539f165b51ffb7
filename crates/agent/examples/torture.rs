//! Runs a command under a memory server that takes its pages away at random: `torture RATE COMMAND…`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rate = arguments.next().and_then(|rate| rate.parse().ok()).expect("a rate");
    let program = arguments.next().expect("a program");
    let torture = support::Torture::start("example", rate, 1);
    let status = torture.command(&program).args(arguments).status().expect("a program");
    eprintln!("{status}; {:?}", torture.counts());
}
