//! `freehold cache replay`.

use freehold_core::units::{ByteLen, FrameCount};
use freehold_core::victim_cache::Placement;
use freehold_scenario::{DeviceFile, parse_size};
use freehold_sim::replay::{Choice, Columns, Deletes, Format, ReplayError, Setup, replay};
use std::path::PathBuf;
use std::time::Instant;

use super::document::{Asked, Document};
use super::input;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

/// Options of `freehold cache replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace, compressed with zstd or not
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// How the trace is written
    #[arg(long, value_enum, default_value_t = TraceFormat::Freehold)]
    format: TraceFormat,
    /// Of libcachesim-csv: which columns mean what, such as time=1,object=2,size=3,header; nothing is guessed
    #[arg(long, value_name = "LIST", value_parser = Columns::parse)]
    columns: Option<Columns>,
    /// Of oracle-general: each object is one page, whatever its size
    #[arg(long)]
    ignore_size: bool,
    /// The page cache in front
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    page_cache: ByteLen,
    /// The victim cache behind it; 0B: none
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: ByteLen,
    /// Devices whose memory the victim cache is, for rows that open and close them
    #[arg(long, value_name = "FILE")]
    devices: Option<PathBuf>,
    /// Which place an opened device gets
    #[arg(long, value_enum, default_value_t = PolicyName::Lru)]
    policy: PolicyName,
    /// Which places are possible: those that strand nobody, or those of the paper
    #[arg(long, value_enum, default_value_t = PlacementName::Safe)]
    placement: PlacementName,
    /// Of the policy random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What rows of kind D are: evictions of the recorded machine, which mean nothing here, or pages gone for good
    #[arg(long, value_enum, default_value_t = DeletesMean::Evictions)]
    deletes: DeletesMean,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TraceFormat {
    Freehold,
    LibcachesimCsv,
    OracleGeneral,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PolicyName {
    Lru,
    LruExact,
    Count,
    Random,
    Static,
    Optimal,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PlacementName {
    Safe,
    Paper,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DeletesMean {
    Evictions,
    Flush,
}

impl Arguments {
    fn format(&self) -> Result<(Format, &'static str), Failure> {
        let columns = || Failure::Input("--format libcachesim-csv needs --columns, such as object=2,time=1".to_owned());
        match self.format {
            TraceFormat::Freehold => Ok((Format::Freehold, "freehold")),
            TraceFormat::LibcachesimCsv => {
                let columns = self.columns.ok_or_else(columns)?;
                Ok((Format::LibCacheSimCsv(columns), "libcachesim-csv"))
            }
            TraceFormat::OracleGeneral => {
                let one_page = self.ignore_size;
                Ok((Format::OracleGeneral { one_page }, "oracle-general"))
            }
        }
    }

    fn policy(&self) -> (Choice, &'static str) {
        match self.policy {
            PolicyName::Lru => (Choice::Lru, "lru"),
            PolicyName::LruExact => (Choice::LruExact, "lru-exact"),
            PolicyName::Count => (Choice::Count, "count"),
            PolicyName::Random => (Choice::Random, "random"),
            PolicyName::Static => (Choice::Static, "static"),
            PolicyName::Optimal => (Choice::Optimal, "optimal"),
        }
    }

    fn placement(&self) -> (Placement, &'static str) {
        match self.placement {
            PlacementName::Safe => (Placement::Safe, "safe"),
            PlacementName::Paper => (Placement::Paper, "paper"),
        }
    }
}

/// Whole frames of a size.
fn frames(option: &str, size: ByteLen) -> Result<FrameCount, Failure> {
    let pages = size.to_pages().filter(|pages| pages.to_bytes() == size);
    let pages =
        pages.ok_or_else(|| Failure::Input(format!("{option}: must be whole pages of 4KiB, at most 16 TiB")))?;
    Ok(pages.to_frames())
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let (format, format_name) = arguments.format()?;
    let (choice, policy) = arguments.policy();
    let (placement, placement_name) = arguments.placement();
    let load = |path: &PathBuf| DeviceFile::load(path).map_err(|error| Failure::Input(error.to_string()));
    let file = arguments.devices.as_ref().map(load).transpose()?;
    let devices = file.map_or(Vec::new(), |file| file.devices);
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    let setup = Setup {
        page_cache: frames("--page-cache", arguments.page_cache)?,
        cache: frames("--cache", arguments.cache)?,
        devices: devices.into_iter().map(|device| (device.name, device.size)).collect(),
        choice,
        placement,
        seed: arguments.seed,
        deletes: match arguments.deletes {
            DeletesMean::Evictions => Deletes::Evictions,
            DeletesMean::Flush => Deletes::Flush,
        },
    };
    let trace = input::trace(&arguments.trace, &format, &names)?;
    let origin = Instant::now();
    let mut clock = || u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let replayed = replay(&trace, &setup, &mut clock).map_err(|error| match error {
        ReplayError::Setup(message) => Failure::Input(message),
        device @ ReplayError::Device { .. } => Failure::Input(format!("{}: {device}", arguments.trace.display())),
    })?;
    let asked = Asked {
        trace: arguments.trace.display().to_string(),
        format: format_name,
        policy,
        placement: placement_name,
        seed: arguments.seed,
        page_cache_frames: setup.page_cache.get(),
        cache_frames: setup.cache.get(),
    };
    let document = Document::new(asked, &names, replayed);
    if arguments.json {
        output::print_json(&document)?;
    } else {
        output::print(&document.to_text())?;
    }
    Ok(Status::Done)
}
