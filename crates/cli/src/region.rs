//! `freehold region`: physically contiguous memory for devices, from the kernel's pool of huge pages.

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_ecache::prepare::{self, Done, PrepareError};
use freehold_scenario::parse_size;
use serde_json::json;

/// Options of `freehold region`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Cut pages of 1 GiB into huge pages that lie behind one another, for a server or mount that starts next
    Prepare(PrepareArguments),
    /// Give back what was prepared
    Release(ReleaseArguments),
}

#[derive(Debug, clap::Args)]
struct PrepareArguments {
    /// How much memory; rounded up to whole GiB
    #[arg(value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    size: u64,
    /// Print the commands that do it, and do nothing
    #[arg(long)]
    print: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ReleaseArguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Action::Prepare(arguments) if arguments.print => {
            output::print(&(prepare::commands(arguments.size).join("\n") + "\n"))?;
            Ok(Status::Done)
        }
        Action::Prepare(arguments) => say(prepare::prepare(arguments.size), arguments.json),
        Action::Release(arguments) => say(prepare::release(), arguments.json),
    }
}

fn say(done: Result<Done, PrepareError>, as_json: bool) -> Result<Status, Failure> {
    let done = done.map_err(|error| Failure::Run(error.to_string()))?;
    if as_json {
        let document = json!({"huge_pages": done.pages, "free": done.free, "commands": done.commands});
        output::print_json(&document)?;
    } else {
        let lines = done.commands.join("\n");
        let text = format!("{lines}\n{} huge pages, {} of them free\n", done.pages, done.free);
        output::print(&text)?;
    }
    Ok(Status::Done)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map(|size| size.get())
}
