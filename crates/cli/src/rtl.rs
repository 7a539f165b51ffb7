//! `freehold rtl`: programs for RTLinux.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use freehold_rtl::compile;
use freehold_rtl::control::Insert;
use freehold_rtl::directory::Directory;
use freehold_rtl::list::{self, ModuleView};
use freehold_rtl::load::{self, Place, RtlError, Space};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output::{human_time, print, print_json};
use freehold_command::process::own_executable;

/// What `rtl` is to do.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a program for RTLinux: the C compiler with our headers in front, as sources of the time need it
    Cc(Cc),
    /// Write the headers, and rtl.mk for makefiles of the time, into a directory
    Headers {
        /// Made if it is not there
        directory: PathBuf,
    },
    /// Load a program and call its init_module
    Insmod(Insmod),
    /// Call a program's cleanup_module and take it out
    Rmmod {
        /// As lsmod shows it
        name: String,
        /// Kill a separate task that does not end
        #[arg(long)]
        force: bool,
    },
    /// List loaded programs, their threads, FIFOs and shared memory
    Lsmod(Listing),
    /// List threads
    Ps(Listing),
    /// List FIFOs
    Fifos(Listing),
    /// Print what a program printed with rtl_printf and printk
    Dmesg {
        /// As lsmod shows it
        name: String,
    },
    /// Be the time-sharing side: serve FIFOs as files, hold the programs of shared space, until SIGTERM
    Host,
    /// Have the host serve FIFOs as rtf0 to rtf63 in a directory
    Mount {
        /// Made if it is not there
        directory: PathBuf,
        /// Also as /dev/rtf0 to /dev/rtf63
        #[arg(long)]
        dev: bool,
    },
}

#[derive(Debug, Args)]
struct Cc {
    /// As the C compiler takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Listing {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpaceName {
    /// In the host's process, with which it dies
    Shared,
    /// In a process of its own
    Separate,
}

#[derive(Debug, Args)]
struct Insmod {
    /// An object of `freehold rtl cc`, or a shared object
    object: PathBuf,
    /// A value for a MODULE_PARM
    #[arg(value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,
    /// Where it runs
    #[arg(long, value_enum)]
    space: SpaceName,
    /// Interrupt line N comes when FILE becomes readable: an eventfd, a pipe, /dev/uioN
    #[arg(long, value_name = "N=FILE", value_parser = numbered)]
    irq: Vec<(u32, PathBuf)>,
    /// Writes to port N are logged in FILE, with the time
    #[arg(long, value_name = "N=FILE", value_parser = numbered)]
    port: Vec<(u32, PathBuf)>,
    /// A separate task gets a memory server of its own with a reservation of so much: see `freehold exec`
    #[arg(long, value_name = "SIZE")]
    reserve: Option<String>,
    /// The memory of a separate task is left to the kernel: to see what that costs
    #[arg(long)]
    pageable: bool,
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn numbered(text: &str) -> Result<(u32, PathBuf), String> {
    let (number, file) = text.split_once('=').ok_or("expected N=FILE")?;
    let parsed = match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    let number = parsed.map_err(|error| format!("{number}: {error}"))?;
    Ok((number, file.into()))
}

fn failure(error: RtlError) -> Failure {
    if error.is_input() {
        Failure::Input(error.to_string())
    } else {
        Failure::Run(error.to_string())
    }
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or the host or the program's own functions failed.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Command::Cc(cc) => match compile::compile(&cc.arguments) {
            Ok(0) => Ok(Status::Done),
            Ok(_) => Ok(Status::Usage),
            Err(error) => Err(Failure::Run(error.to_string())),
        },
        Command::Headers { directory } => compile::write_headers(directory)
            .map(|()| Status::Done)
            .map_err(|error| Failure::Run(format!("{}: {error}", directory.display()))),
        Command::Insmod(insmod) => insert(insmod),
        Command::Rmmod { name, force } => load::remove(&directory()?, name, *force)
            .map(|()| Status::Done)
            .map_err(failure),
        Command::Lsmod(listing) => show(listing, describe_modules),
        Command::Ps(listing) => show(listing, describe_threads),
        Command::Fifos(listing) => show(listing, describe_fifos),
        Command::Dmesg { name } => {
            let log = directory()?.log(name);
            let text = std::fs::read(&log).map_err(|error| Failure::Input(format!("{}: {error}", log.display())))?;
            print(&String::from_utf8_lossy(&text)).map(|()| Status::Done)
        }
        Command::Host => {
            let runner = load::runner().map_err(failure)?;
            // It replaces this process: the host has nothing of the command in its memory, which is locked.
            let error = std::process::Command::new(&runner).arg("host").exec();
            Err(Failure::Run(format!("{}: {error}", runner.display())))
        }
        Command::Mount { directory, dev } => load::mount(&self::directory()?, directory, *dev)
            .map(|()| Status::Done)
            .map_err(failure),
    }
}

fn insert(insmod: &Insmod) -> Result<Status, Failure> {
    let space = match insmod.space {
        SpaceName::Shared => Space::Shared,
        SpaceName::Separate => Space::Separate,
    };
    if insmod.pageable && (space == Space::Shared || insmod.reserve.is_some()) {
        return Err(Failure::Input(
            "--pageable: for a program of --space separate without --reserve".to_owned(),
        ));
    }
    let mut place = Place::from(space);
    if let Some(size) = &insmod.reserve {
        if space == Space::Shared {
            return Err(Failure::Input(
                "--reserve: a program of shared space has the host's memory; use --space separate".to_owned(),
            ));
        }
        let own = own_executable()?;
        place.launcher = vec![own.into(), "exec".into(), "--reserve".into(), size.into(), "--".into()];
    }
    let insert = Insert {
        parameters: insmod.parameters.clone(),
        lines: insmod.irq.clone(),
        ports: insmod.port.clone(),
        pageable: insmod.pageable,
        ..Insert::default()
    };
    load::insert(&directory()?, &insmod.object, &place, insert)
        .map(|()| Status::Done)
        .map_err(failure)
}

fn directory() -> Result<Directory, Failure> {
    Directory::open().map_err(|error| Failure::Run(format!("no directory of modules: {error}")))
}

fn show(listing: &Listing, describe: fn(&ModuleView) -> String) -> Result<Status, Failure> {
    let modules = list::modules(&directory()?);
    if listing.json {
        print_json(&modules)?;
    } else {
        print(&modules.iter().map(describe).collect::<String>())?;
    }
    Ok(Status::Done)
}

fn describe_modules(module: &ModuleView) -> String {
    let fifos: Vec<String> = module.fifos.iter().map(|fifo| format!("rtf{}", fifo.number)).collect();
    let memory: Vec<&str> = module.mbuffs.iter().map(|memory| memory.name.as_str()).collect();
    let (name, space, process) = (&module.name, module.space, module.pid);
    let threads = module.threads.len();
    let held = fifos.join(" ") + if memory.is_empty() { "" } else { " " } + &memory.join(" ");
    format!("{name:<20} {space:<8} {process:>7} {threads:>3} threads  {held}\n")
}

fn describe_threads(module: &ModuleView) -> String {
    let line = |thread: &freehold_rtl::status::ThreadView| {
        let period = if thread.period_ns == 0 {
            "-".to_owned()
        } else {
            human_time(thread.period_ns)
        };
        format!(
            "{:<20} {:>7} cpu {:<3} priority {:<7} period {period:<9} {} periods, {} missed\n",
            module.name, thread.thread, thread.cpu, thread.priority, thread.periods, thread.missed
        )
    };
    module.threads.iter().map(line).collect()
}

fn describe_fifos(module: &ModuleView) -> String {
    let line = |fifo: &freehold_rtl::fifo::FifoView| {
        format!(
            "rtf{:<3} {:<20} {:>8} of {:>8} B, {} puts, {} refused, {} corrupt claims\n",
            fifo.number, module.name, fifo.used, fifo.size, fifo.puts, fifo.refused, fifo.corrupt_claims
        )
    };
    module.fifos.iter().map(line).collect()
}
