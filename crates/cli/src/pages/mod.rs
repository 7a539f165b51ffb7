//! `freehold pages`: private and shared pages of living processes, the paper's Table I.

mod document;

use freehold_linux::resident::{self, Process, ProcessError, Resident};
use freehold_scenario::results::{Align, TextTable};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

pub(crate) use document::{ObjectPages, PagesDocument, ProcessPages};

/// Options of `freehold pages`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Process ids
    #[arg(required = true, value_name = "PID")]
    pids: Vec<u32>,
    /// A process whose mappings do not make a page shared: a pager that maps what it serves
    #[arg(long, value_name = "PID")]
    aside: Vec<u32>,
    /// Show each file and each kind of memory of every process too
    #[arg(long)]
    objects: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "\
Pages of 4 KiB that are in memory: code / data. Code is what executable mappings have. Shared pages are mapped by \
another process too.";

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let mut document = PagesDocument::default();
    let aside = arguments.aside.iter().map(|pid| Process::open(*pid));
    let aside = aside
        .collect::<Result<Vec<Process>, ProcessError>>()
        .map_err(|error| Failure::Input(format!("--aside: {error}")))?;
    for pid in &arguments.pids {
        match look_at(*pid, &aside) {
            Ok((name, resident)) => document.add(*pid, name, &resident, arguments.objects),
            Err(error) => document.refuse(*pid, &error),
        }
    }
    for refused in &document.refused {
        output::note(&format!("freehold: {}", refused.reason));
    }
    if arguments.json {
        output::print_json(&document)?;
    } else if !document.processes.is_empty() {
        output::print(&page(&document))?;
    }
    Ok(match document.refused.as_slice() {
        [] => Status::Done,
        _ => Status::Failed,
    })
}

/// The name and the pages of a process.
///
/// # Errors
/// See [`ProcessError`].
pub(crate) fn look_at(pid: u32, aside: &[Process]) -> Result<(String, Resident), ProcessError> {
    let process = Process::open(pid)?;
    let resident = resident::count(&process, aside)?;
    Ok((process.name()?, resident))
}

fn page(document: &PagesDocument) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = TextTable::new(&[
        ("pid", right),
        ("name", left),
        ("private", right),
        ("code/data", left),
        ("shared", right),
        ("code/data", left),
        ("total", right),
        ("shared/total %", right),
        ("with a pager", right),
        ("swapped", right),
    ]);
    for process in &document.processes {
        let ProcessPages { private, shared, .. } = process;
        let pair = |pages: &document::Kinds| format!("{}/{}", pages.code, pages.data);
        table.row([
            process.pid.to_string(),
            process.name.clone(),
            private.total.to_string(),
            pair(private),
            shared.total.to_string(),
            pair(shared),
            process.total.to_string(),
            format!("{:.1}", process.shared_percent),
            process.registered.to_string(),
            process.swapped.to_string(),
        ]);
    }
    let objects: String = document.processes.iter().map(objects).collect();
    format!("{table}{objects}\n{AFTER}\n{}\n", document.how())
}

fn objects(process: &ProcessPages) -> String {
    if process.objects.is_empty() {
        return String::new();
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut table = TextTable::new(&[("object", left), ("private", right), ("shared", right), ("code", right)]);
    for object in &process.objects {
        let ObjectPages { name, private, shared } = object;
        let code = private.code + shared.code;
        table.row([
            name.clone(),
            private.total.to_string(),
            shared.total.to_string(),
            code.to_string(),
        ]);
    }
    format!("\nprocess {} ({}):\n{table}", process.pid, process.name)
}
