//! Starting the program, passing signals on, ending as it ended.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::channel;

use freehold_client::{Observer, Options};
use freehold_linux::ThreadId;
use freehold_linux::child::Ignored;
use freehold_linux::sched::pin;
use freehold_protocol::{SOCKET_VARIABLE, TICKET_VARIABLE};
use signal_hook::consts::{SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin, Sent};

use super::{Arguments, Sharing};
use freehold_command::exec::jobs::{Accounting, Report, Subject};
use freehold_command::exec::pinned::Pinned;
use freehold_command::exec::setting::Setting;
use freehold_command::exec::{deadline, program};
use freehold_command::exit_status::{Failure, Status};

/// Signals that reach the program through this command.
const PASSED: [i32; 9] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
];

/// How the program ended.
#[derive(Debug)]
pub(super) struct Ended(ExitStatus);

impl Ended {
    /// Ends this process the same way.
    pub(super) fn leave(&self) -> Status {
        if let Some(signal) = self.0.signal() {
            // A program that was killed leaves its core file, if any; this command leaves none.
            let _ = freehold_linux::process::forbid_core_file();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            let _ = signal_hook::low_level::raise(signal);
            std::process::exit(128 + signal);
        }
        std::process::exit(self.0.code().unwrap_or(1))
    }
}

/// Runs the program to its end.
pub(super) fn run(
    arguments: &Arguments,
    command: &program::Command,
    setting: Option<(&Setting, &Path)>,
) -> Result<Ended, Failure> {
    let run = |error: std::io::Error| Failure::Run(format!("cannot pass signals on: {error}"));
    let watched = PASSED.iter().copied().chain([SIGCHLD]);
    // Before the program is there: a signal that comes early is passed on late, not lost.
    let mut signals = SignalsInfo::<WithOrigin>::new(watched).map_err(run)?;
    if let Some(cpu) = arguments.cpu {
        pin(ThreadId::current(), cpu).map_err(|error| Failure::Input(format!("--cpu {cpu}: {error}")))?;
    }
    let report = arguments.report_jobs.as_deref().map(Report::create).transpose()?;
    let mut child = start(arguments, command, setting)?;
    let prepared = class(arguments, &child).and_then(|()| account(arguments, &child, setting, report));
    let accounting = match prepared {
        Ok(accounting) => accounting,
        Err(failure) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failure);
        }
    };
    let ended = std::thread::scope(|scope| {
        let (_end, ended) = channel();
        // Only then may what was to be managed run unmanaged, and hold what others could use.
        if let Some((setting, _)) = setting.filter(|_| arguments.keep_going) {
            scope.spawn(move || setting.release_if_unused(&ended));
        }
        wait(&mut child, &mut signals)
    });
    if let Some(accounting) = accounting {
        accounting.end();
    }
    ended.map_err(|error| Failure::Run(format!("cannot wait for the program: {error}")))
}

/// Begins to write the main thread's jobs down, where that was asked for.
fn account(
    arguments: &Arguments,
    child: &Child,
    setting: Option<(&Setting, &Path)>,
    report: Option<Report>,
) -> Result<Option<Accounting>, Failure> {
    let (Some(period), Some(budget)) = (arguments.period, arguments.budget) else {
        return Ok(None);
    };
    let pool = setting.and_then(|(setting, _)| setting.pool());
    if report.is_none() && pool.is_none() {
        return Ok(None);
    }
    let server = setting.map(|(setting, _)| {
        let mut options = Options::named("freehold exec: jobs");
        options.socket = Some(setting.socket().to_owned());
        Observer::connect(&options)
    });
    let server = server.transpose().map_err(|error| Failure::Run(error.to_string()))?;
    let thread = main_thread(child)?;
    let subject = Subject {
        thread,
        period,
        budget,
        server,
        pinned: pool.map(|pool| Pinned::new(pool, thread, (period, budget), arguments.class)),
    };
    Accounting::start(subject, report).map(Some)
}

/// Has the main thread of a periodic program scheduled as was asked for.
fn class(arguments: &Arguments, child: &Child) -> Result<(), Failure> {
    match (arguments.period, arguments.budget) {
        (Some(period), Some(budget)) => deadline::give(main_thread(child)?, period, budget, arguments.class),
        _ => Ok(()),
    }
}

fn main_thread(child: &Child) -> Result<ThreadId, Failure> {
    let thread = i32::try_from(child.id()).ok().and_then(ThreadId::from_raw);
    thread.ok_or_else(|| Failure::Run("the program has no process number".to_owned()))
}

fn start(
    arguments: &Arguments,
    command: &program::Command,
    setting: Option<(&Setting, &Path)>,
) -> Result<Child, Failure> {
    let mut process = Command::new(command.path());
    process.arg0(command.given()).args(command.arguments());
    process.env_remove(TICKET_VARIABLE);
    if let Some((setting, agent)) = setting {
        process.env("LD_PRELOAD", preload(agent));
        process.env(SOCKET_VARIABLE, setting.socket());
        if let Some(ticket) = setting.ticket() {
            process.env(TICKET_VARIABLE, ticket.to_text());
        }
        process.env("FREEHOLD_URGENCY", arguments.urgency.to_string());
        process.env("FREEHOLD_LOCK", arguments.lock.join(":"));
        let sharing = if arguments.sharing == Sharing::None {
            "none"
        } else {
            "spc"
        };
        process.env("FREEHOLD_SHARING", sharing);
        // Whether a program is the first, which is refused where it cannot be managed, the agent sees by its parent.
        process.env("FREEHOLD_STARTER", std::process::id().to_string());
        process.env("FREEHOLD_FILTERS", freehold_linux::process::call_filters().to_string());
        if arguments.keep_going {
            process.env("FREEHOLD_KEEP_GOING", "1");
        } else {
            process.env_remove("FREEHOLD_KEEP_GOING");
        }
    }
    // This command has handlers of its own for some, and the runtime takes SIGPIPE.
    Ignored::at_start().pass_on(&mut process);
    process.spawn().map_err(|error| program::not_started(command, &error))
}

/// The agent before what is preloaded already.
fn preload(agent: &Path) -> OsString {
    let mut list = agent.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

fn wait(child: &mut Child, signals: &mut SignalsInfo<WithOrigin>) -> std::io::Result<Ended> {
    if let Some(status) = child.try_wait()? {
        return Ok(Ended(status));
    }
    for origin in signals.forever() {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended(status));
        }
        if origin.signal != SIGCHLD && !is_from_terminal(&origin) {
            let _ = freehold_linux::process::send_signal(child.id(), origin.signal);
        }
    }
    child.wait().map(Ended)
}

/// The terminal's signals reach the whole foreground group, the program too.
fn is_from_terminal(origin: &Origin) -> bool {
    !matches!(origin.cause, Cause::Sent(Sent::User | Sent::Queue | Sent::TKill))
}
