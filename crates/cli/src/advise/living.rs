//! Advice for living processes: the memory server samples what they reference.

use std::path::Path;
use std::time::Duration;

use freehold_client::{Observer, Options};
use freehold_report::advice::{AdviceDocument, RegionAdvice};
use freehold_report::sharing::Sharing;
use freehold_scenario::parse_time;
use freehold_scenario::results::{Align, TextTable};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_command::progress::Progress;
use freehold_command::sampling::sampled;
use freehold_command::signals;

/// Options for living processes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SampleArguments {
    /// Processes: the period in which references are counted; each referenced page costs its process a fault in each
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    period: String,
    /// Processes: how long is sampled
    #[arg(long, value_name = "TIME", default_value = "10s")]
    during: String,
    /// Processes: the memory server's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

/// The process ids that the arguments are; none where one is not a number, or is the name of a file.
pub(super) fn process_ids(words: &[std::path::PathBuf]) -> Option<Vec<u64>> {
    let number = |word: &std::path::PathBuf| {
        if Path::exists(word) {
            None
        } else {
            word.to_str()?.parse().ok()
        }
    };
    words.iter().map(number).collect()
}

/// Runs the subcommand for processes.
pub(super) fn run(pids: &[u64], arguments: &SampleArguments, json: bool) -> Result<Status, Failure> {
    let time = |option: &str, text: &str| {
        let time = parse_time(text).map_err(|message| Failure::Input(format!("{option}: {message}")))?;
        Ok::<Duration, Failure>(Duration::from_nanos(time.get()))
    };
    let (period, during) = (
        time("--period", &arguments.period)?,
        time("--during", &arguments.during)?,
    );
    if period > during || period.is_zero() {
        return Err(Failure::Input(
            "--period: shorter than --during, and longer than nothing".to_owned(),
        ));
    }
    let mut options = Options::named("freehold advise");
    options.socket.clone_from(&arguments.socket);
    let observer = Observer::connect(&options).map_err(|error| Failure::Run(error.to_string()))?;
    let stop = signals::catch()?;
    let document = {
        let _progress = Progress::start("sampling", Some(during));
        sampled(&observer, pids, period, during, &stop)?
    };
    if json {
        // As every document of a server is printed: keys in alphabetic order.
        let document = serde_json::to_value(&document).map_err(|error| Failure::Run(error.to_string()))?;
        output::print_json(&document)?;
    } else {
        output::print(&page(&document))?;
    }
    Ok(Status::Done)
}

fn page(document: &AdviceDocument) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = TextTable::new(&[
        ("shared object", left),
        ("Max(S)", right),
        ("Avg(S)", right),
        ("n", right),
        ("Max < n*Avg", left),
        ("choice", left),
        ("frames conserved", right),
        ("frames locked", right),
    ]);
    let mut regions: Vec<&RegionAdvice> = document.regions.iter().collect();
    regions.sort_by_key(|region| std::cmp::Reverse(region.max));
    let used = |region: &&&RegionAdvice| region.max != 0;
    let unused = regions.len() - regions.iter().filter(used).count();
    for region in regions.iter().filter(used) {
        table.row([
            region.name.clone(),
            region.max.to_string(),
            format!("{:.1}", region.avg),
            region.n.to_string(),
            if region.max_below_n_avg { "yes" } else { "no" }.to_owned(),
            region.choice.map_or("-", Sharing::name).to_owned(),
            region.frames_spc.to_string(),
            region.frames_spel.to_string(),
        ]);
    }
    let missing = match (regions.is_empty(), unused) {
        (true, _) => "These processes share no object.\n".to_owned(),
        (false, 0) => String::new(),
        (false, unused) => format!("and {unused} objects that none of them touched\n"),
    };
    format!("{table}{missing}Pages of 4 KiB: Max touched at all, Avg in a period, by each of n reservations.\n")
}

#[cfg(test)]
mod tests {
    use super::process_ids;
    use std::path::PathBuf;

    #[test]
    fn numbers_are_processes_unless_a_file_is_called_so() {
        let words = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(process_ids(&words(&["12", "7"])), Some(vec![12, 7]));
        assert_eq!(process_ids(&words(&["12", "a.toml"])), None);
        assert_eq!(process_ids(&words(&["/"])), None);
    }
}
