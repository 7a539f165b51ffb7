//! Sizing the reservation of an unmodified program.

use std::ffi::OsString;
use std::time::Duration;

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output::{self, human_pages, human_time};
use freehold_command::signals;
use freehold_command::size::program::{CommandAnswer, LEAST, Trial, smallest};
use freehold_core::units::PAGE_SIZE;
use freehold_scenario::{parse_size, parse_time};

/// 1 MiB.
const STEP: u32 = 256;
/// Options for sizing a program.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TrialArguments {
    /// Command: the largest size tried, in which the program must find room for everything
    #[arg(long, value_name = "SIZE", default_value = "128MiB", requires = "command")]
    from: String,
    /// Command: how long the program is given to start
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "command")]
    startup: String,
    /// Command: how long it is watched then
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "command")]
    watch: String,
    /// Command: how many pages more than in the largest size may be brought in meanwhile
    #[arg(long, value_name = "PAGES", default_value_t = 0, requires = "command")]
    allow: u64,
    /// A program and its arguments, run under the memory server in each size
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the subcommand for a program.
pub(super) fn run(arguments: &TrialArguments, step: Option<u32>, json: bool) -> Result<Status, Failure> {
    let trial = trial(arguments, step)?;
    let stop = signals::catch()?;
    let answer = smallest(&trial, &stop)?;
    if json {
        output::print_json(&answer)?;
    } else {
        output::print(&page(&answer))?;
    }
    Ok(if answer.pages.is_some() {
        Status::Done
    } else {
        Status::Failed
    })
}

fn trial(arguments: &TrialArguments, step: Option<u32>) -> Result<Trial, Failure> {
    let from = parse_size(&arguments.from).map_err(|message| Failure::Input(format!("--from: {message}")))?;
    let from = u32::try_from(from.get() / PAGE_SIZE).unwrap_or(u32::MAX);
    if from < LEAST {
        let least = human_pages(LEAST.into());
        return Err(Failure::Input(format!("--from: a program needs {least} at the least")));
    }
    let time = |option: &str, text: &str| {
        let time = parse_time(text).map_err(|message| Failure::Input(format!("{option}: {message}")))?;
        Ok::<Duration, Failure>(Duration::from_nanos(time.get()))
    };
    Ok(Trial {
        command: arguments.command.clone(),
        from,
        step: step.unwrap_or(STEP),
        startup: time("--startup", &arguments.startup)?,
        watch: time("--watch", &arguments.watch)?,
        allow: arguments.allow,
    })
}

fn page(answer: &CommandAnswer) -> String {
    let (startup, watch) = (human_time(answer.startup_ns), human_time(answer.watch_ns));
    let from = human_pages(answer.from_pages.into());
    let Some(pages) = answer.pages else {
        return format!("no size up to {from} is enough\n");
    };
    let mut text = format!(
        "smallest reservation of {}: {}\n",
        answer.command.join(" "),
        human_pages(pages.into())
    );
    text.push_str(&format!(
        "  pages brought in during {watch} after {startup}: {}; in {from}: {} ({} sizes tried)\n",
        answer.brought, answer.brought_from, answer.tried
    ));
    text.push_str(&match (answer.failing_pages, answer.brought_failing) {
        (Some(failing), Some(brought)) => format!("  in {}: {brought}\n", human_pages(failing.into())),
        _ => "  no smaller size could be tried\n".to_owned(),
    });
    text
}
