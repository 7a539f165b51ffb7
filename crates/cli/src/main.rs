//! The `freehold` command: runs scenarios, sizes reservations, repeats the paper's experiments, and says what a machine
//! can do. One module for each subcommand. See `freehold help`.

mod advise;
mod bench;
mod cache;
mod compare;
mod component;
mod connect;
mod device;
mod doctor;
mod exec;
mod explain;
mod latency;
mod mount;
mod mount_status;
mod pages;
mod pictures;
mod region;
mod reproduce;
mod rtl;
mod run;
mod serve;
mod serve_run;
mod size;
mod status;
mod thrashing;
mod tmem;
mod top;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;

use freehold_command::exit_status::{self, Failure, Status};
use freehold_command::{leftovers, output};

const AFTER_HELP: &str = "\
Exit status: 0 done; 1 the run failed (for `run`: stopped before its end; for `reproduce`: a claim does not hold; for \
`doctor`: live runs are not possible; for `explain --what-if`: it would be refused); 2 usage or input error; 3 a law \
was broken. `exec` ends as its program does, or with 125 where it fails itself, 126 where the program cannot be run \
and 127 where there is none.";

/// Memory reservations for real-time tasks on stock Linux.
#[derive(Debug, Parser)]
#[command(name = "freehold", version, about, after_help = AFTER_HELP)]
struct Arguments<C: Subcommand = Command> {
    #[command(subcommand)]
    command: C,
}

/// `exec` and nothing else: it runs before every program, and telling clap of all the others takes longer than the rest
/// of what it does, and much stack.
#[derive(Debug, Subcommand)]
enum Exec {
    #[command(about = exec::ABOUT)]
    Exec(exec::Arguments),
}

/// `serve` and nothing else, as `exec` starts it.
#[derive(Debug, Subcommand)]
enum Serve {
    #[command(about = serve::ABOUT)]
    Serve(serve::Arguments),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios and say who missed deadlines and why
    Run(run::Arguments),
    /// Find the smallest reservation that keeps every deadline
    Size(size::Arguments),
    /// Say whether to conserve or to lock each shared region, and what each costs in frames
    Advise(advise::Arguments),
    /// Repeat the paper's experiments, its figures beside ours
    Reproduce(reproduce::Arguments),
    /// Count private and shared pages of living processes
    Pages(pages::Arguments),
    #[command(about = exec::ABOUT)]
    Exec(exec::Arguments),
    /// Say which rights and kernel features live runs need, and how to get those that are missing
    Doctor(doctor::Arguments),
    #[command(about = serve::ABOUT)]
    Serve(serve::Arguments),
    /// Show a server's reservations, clients and shared objects
    Status(status::Arguments),
    /// Watch a server's reservations, tasks and shared objects
    Top(top::Arguments),
    /// Say what a process, an address, a reservation or a region can count on, and why
    Explain(explain::Arguments),
    /// Say what a cache of file pages in device-reserved memory would save
    Cache(cache::Arguments),
    /// Serve the files of a directory elsewhere, from a page cache of a given size
    Mount(mount::Arguments),
    /// Run components that call each other with inherited priority, and share stacks and buffers
    Component(component::Arguments),
    /// Open a device whose memory caches file pages while it is closed
    Device(device::Arguments),
    /// Prepare physically contiguous memory for devices, or give it back
    Region(region::Arguments),
    /// Plan how units of transient memory ought to lie
    Tmem(tmem::Arguments),
    /// Measure how late a real-time thread wakes up, beside what loads and in whose address space
    Latency(latency::Arguments),
    /// Run programs written for RTLinux, beside the time-sharing side or in address spaces of their own
    Rtl(rtl::Arguments),
    /// Measure a mechanism beside its floor
    Bench(bench::Arguments),
    /// The load of `latency`, in a process of its own
    #[command(hide = true, name = freehold_latency::load::SUBCOMMAND)]
    LatencyLoad(latency::LoadArguments),
    /// The memory server of one run
    #[command(hide = true)]
    ServeRun(serve_run::Arguments),
    /// Undoes what a command leaves that is killed
    #[command(hide = true)]
    CleanUp(leftovers::Arguments),
    #[command(flatten)]
    Laboratory(freehold_lab::Helper),
}

fn main() -> ExitCode {
    // Whoever makes a memory object that is larger than files may be (`ulimit -f`) is told, and says so. What cannot be
    // caught ends the command, as before; programs that it begins do not have the handler.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let outcome = match &parse() {
        Command::Run(arguments) => run::run(arguments),
        Command::Size(arguments) => size::run(arguments),
        Command::Advise(arguments) => advise::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Pages(arguments) => pages::run(arguments),
        Command::Exec(arguments) => exec::run(arguments).map_err(Failure::of_exec),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Cache(arguments) => cache::run(arguments),
        Command::Mount(arguments) => mount::run(arguments),
        Command::Component(arguments) => component::run(arguments),
        Command::Device(arguments) => device::run(arguments),
        Command::Region(arguments) => region::run(arguments),
        Command::Tmem(arguments) => tmem::run(arguments),
        Command::Latency(arguments) => latency::run(arguments),
        Command::LatencyLoad(arguments) => latency::serve_load(arguments),
        Command::Rtl(arguments) => rtl::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::ServeRun(arguments) => serve_run::run(arguments),
        Command::CleanUp(arguments) => leftovers::clean_up(arguments),
        Command::Laboratory(helper) => helper.perform(),
    };
    outcome.unwrap_or_else(report).into()
}

fn parse() -> Command {
    let first = std::env::args_os().nth(1);
    match first.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("exec") => {
            let parsed = Arguments::try_parse();
            let Exec::Exec(arguments) = parsed.unwrap_or_else(|error| explain_usage(&error)).command;
            Command::Exec(arguments)
        }
        Some("serve") => {
            let Serve::Serve(arguments) = Arguments::parse().command;
            Command::Serve(arguments)
        }
        _ => Arguments::parse().command,
    }
}

/// Prints help, or what is wrong with the arguments of `exec`, and ends.
fn explain_usage(error: &clap::Error) -> ! {
    // Where it cannot be printed nobody is there to be told.
    let _ = error.print();
    let failed = i32::from(exit_status::EXEC_FAILED);
    std::process::exit(if error.use_stderr() { failed } else { 0 })
}

fn report(failure: Failure) -> Status {
    output::note(&format!("freehold: {failure}"));
    failure.status()
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Command, Exec, Serve};
    use clap::{Parser, Subcommand};

    fn said<C: Subcommand>(words: &[&str]) -> String {
        let parsed = Arguments::<C>::try_parse_from(words);
        parsed.map_or_else(|error| error.to_string(), |_| "understood".to_owned())
    }

    #[test]
    fn a_command_by_itself_says_what_it_says_among_the_others() {
        for words in [
            "freehold exec",
            "freehold exec --help",
            "freehold exec -h",
            "freehold exec --reserve 5 parsecs -- true",
            "freehold exec --resrve 5MiB true",
            "freehold exec --type firm true",
            "freehold exec --reserve 5MiB --period 3ms -- true --help",
            "freehold exec true --reserve 5MiB",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(said::<Exec>(&words), said::<Command>(&words));
        }
        for words in [
            "freehold serve --help",
            "freehold serve --pol 5MiB",
            "freehold serve --pool 5MiB",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(said::<Serve>(&words), said::<Command>(&words));
        }
    }
}
