//! `freehold status`: everything that a server knows of its reservations, clients and shared objects.

use freehold_client::{Question, default_socket};
use freehold_report::pinning::PinnedPoolStatus;
use freehold_report::status::{
    ClientStatus, MemberStatus, ObjectStatus, ReservationStatus, StatusDocument, TaskStatus, UnmanagedStatus,
};
use freehold_scenario::results::{Align, TextTable};

use crate::connect::{self, Where};
use crate::mount_status;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

const LEFT: Align = Align::Left;
const RIGHT: Align = Align::Right;

/// Options of `freehold status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Where,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let observer = match arguments.server.observe("freehold status") {
        Ok(observer) => observer,
        Err(failure) => {
            // A mount answers at such a socket too, to questions about devices only.
            let socket = arguments.server.socket.clone().unwrap_or_else(default_socket);
            return mount_status::show(&socket, arguments.json).unwrap_or(Err(failure));
        }
    };
    let text = connect::ask(&observer, Question::Status, "")?;
    if arguments.json {
        connect::print_document(&text)?;
    } else {
        output::print(&page(&connect::read(&text)?))?;
    }
    Ok(Status::Done)
}

/// The document for people.
fn page(status: &StatusDocument) -> String {
    let mut parts = vec![head(status)];
    for (title, table) in [
        ("reservations (frames)", reservations(&status.reservations)),
        ("pinned page pools (pages)", pools(&status.pinned_pools)),
        ("clients (pages)", clients(&status.clients)),
        ("tasks", tasks(&status.clients)),
        ("programs that run unmanaged", strangers(&status.unmanaged)),
        ("shared objects (pages)", objects(&status.objects)),
    ] {
        if !table.is_empty() {
            parts.push(format!("{title}\n{table}"));
        }
    }
    parts.extend(absent(&status.objects));
    let components = crate::component::shown::tables();
    parts.extend(components.iter().map(|(title, table)| format!("{title}\n{table}")));
    parts.push(foot(status));
    parts.join("\n")
}

/// Objects worth a line: of which something is in memory, those with most of it first, and regions.
pub(crate) fn present(rows: &[ObjectStatus]) -> Vec<&ObjectStatus> {
    let mut present: Vec<&ObjectStatus> = rows.iter().filter(|row| is_present(row)).collect();
    present.sort_by_key(|row| std::cmp::Reverse(row.resident));
    present
}

fn is_present(row: &ObjectStatus) -> bool {
    row.resident > 0 || row.kind != "file"
}

/// How many others there are.
pub(crate) fn absent(rows: &[ObjectStatus]) -> Option<String> {
    let absent = rows.iter().filter(|row| !is_present(row)).count();
    (absent > 0).then(|| format!("and {absent} files of which nothing is in memory\n"))
}

fn head(status: &StatusDocument) -> String {
    let (server, memory) = (&status.server, &status.memory);
    let mut text = format!(
        "freehold {} at {}, process {}, up {}\n\
         pool {} frames: {} reserved, {} used (at most {}), {} free, {} resident\n",
        server.version,
        server.socket,
        server.pid,
        output::human_time(server.uptime_ns),
        memory.pool,
        memory.committed,
        memory.used,
        memory.peak,
        memory.free,
        memory.resident_measured
    );
    if status.partial {
        text.push_str("only what is your own is shown\n");
    }
    for shortfall in &server.shortfalls {
        text.push_str(&format!("without: {shortfall}\n"));
    }
    text
}

fn foot(status: &StatusDocument) -> String {
    let (store, orders, steps) = (&status.store, &status.orders, &status.steps_ns);
    format!(
        "store {} ({}): {} read back, {} written, {} failed\norders: {} sent, {} under way, {} pages held by the \
         kernel, {} clients stopped\nsteps of the server: {}, p50 {}, p99 {}, longest {}\n",
        store.kind,
        store.backend,
        store.reads,
        store.writes,
        store.failed_reads + store.failed_writes,
        orders.sent,
        orders.outstanding,
        orders.busy,
        orders.stopped,
        steps.count,
        output::human_time(steps.p50),
        output::human_time(steps.p99),
        output::human_time(steps.max),
    )
}

fn reservations(rows: &[ReservationStatus]) -> TextTable {
    let names = [
        "capacity",
        "active",
        "inactive",
        "locked",
        "free",
        "owned",
        "conserved",
        "borrowed",
        "held",
    ];
    let mut columns = vec![("reservation", LEFT), ("type", LEFT)];
    columns.extend(names.map(|name| (name, RIGHT)));
    columns.push(("tasks", LEFT));
    let mut table = TextTable::new(&columns);
    for row in rows {
        let mut cells = vec![row.name.clone(), row.kind.clone()];
        let (lists, frames) = (&row.lists, &row.frames);
        let numbers = [lists.capacity, lists.active, lists.inactive, lists.locked, lists.free];
        cells.extend(numbers.map(|number| number.to_string()));
        let numbers = [frames.owned, frames.conserved, lists.borrowed, frames.held];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(members(&row.members));
        table.row(cells);
    }
    table
}

/// Tasks with their processes.
fn members(rows: &[MemberStatus]) -> String {
    let one = |member: &MemberStatus| format!("{} ({})", member.task, member.pid);
    rows.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Where a task's frames are from: its reservation, or its pinned page pool, or the pool of all.
pub(crate) fn home(task: &TaskStatus) -> String {
    let pinned = || task.pinned_pool.as_ref().map(|name| format!("{name} (pinned)"));
    let home = task.reservation.clone().or_else(pinned);
    home.unwrap_or_else(|| "(pool)".to_owned())
}

/// Pinned page pools.
pub(crate) fn pools(rows: &[PinnedPoolStatus]) -> TextTable {
    let names = [
        "capacity",
        "pinned",
        "peak",
        "budget",
        "swap budget",
        "jobs",
        "late",
        "grown",
        "shrunk",
    ];
    let mut columns = vec![("pool", LEFT), ("pinning", LEFT)];
    columns.extend(names.map(|name| (name, RIGHT)));
    columns.push(("tasks", LEFT));
    let mut table = TextTable::new(&columns);
    for row in rows {
        let mut cells = vec![row.name.clone(), row.policy.clone()];
        cells.extend([row.pages.capacity, row.pages.pinned, row.pages.peak].map(|number| number.to_string()));
        cells.extend([row.budget.budget_ns, row.budget.swap_budget_ns].map(output::human_time));
        let (judged, rules) = (&row.judged, &row.judged.capacity_rules);
        let numbers = [judged.jobs, judged.misses, rules.grown + rules.at_limit, rules.shrunk];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(members(&row.members));
        table.row(cells);
    }
    table
}

fn strangers(rows: &[UnmanagedStatus]) -> TextTable {
    let columns = [
        ("program", LEFT),
        ("begun", RIGHT),
        ("last pid", RIGHT),
        ("begun from", LEFT),
        ("why", LEFT),
    ];
    let mut table = TextTable::new(&columns);
    for row in rows {
        table.row(vec![
            row.program.clone(),
            row.begun.to_string(),
            row.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            row.reservation.clone().unwrap_or_else(|| "the pool".to_owned()),
            row.why.clone(),
        ]);
    }
    table
}

fn clients(rows: &[ClientStatus]) -> TextTable {
    let names = [
        "user",
        "in place",
        "demoted",
        "stored",
        "inherited",
        "faults",
        "strange",
    ];
    let mut columns = vec![("client", LEFT), ("pid", RIGHT), ("role", LEFT)];
    columns.extend(names.map(|name| (name, RIGHT)));
    columns.push(("service p50/p99/max", RIGHT));
    let mut table = TextTable::new(&columns);
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            row.pid.to_string(),
            row.role.clone(),
            row.user.to_string(),
        ];
        let numbers = [
            row.private.resident,
            row.private.slots,
            row.private.stored,
            row.private.inherited,
        ];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.extend([row.faults.to_string(), row.strange_faults.to_string()]);
        let times = [row.service_ns.p50, row.service_ns.p99, row.service_ns.max];
        cells.push(times.map(output::human_time).join(" / "));
        table.row(cells);
    }
    table
}

fn tasks(rows: &[ClientStatus]) -> TextTable {
    let names = [
        "urgency",
        "soft",
        "zero",
        "swap-ins",
        "shared",
        "file",
        "write",
        "evictions",
        "jobs",
        "misses",
    ];
    let mut columns = vec![("task", LEFT), ("pid", RIGHT), ("reservation", LEFT)];
    columns.extend(names.map(|name| (name, RIGHT)));
    let mut table = TextTable::new(&columns);
    for client in rows {
        for row in &client.tasks {
            let mut cells = vec![
                row.name.clone(),
                client.pid.to_string(),
                home(row),
                row.urgency.to_string(),
            ];
            let faults = [
                row.soft_faults,
                row.zero_fills,
                row.swap_ins,
                row.shared_swap_ins,
                row.file_reads,
            ];
            cells.extend(faults.map(|number| number.to_string()));
            let others = [row.write_faults, row.evictions, row.jobs, row.misses];
            cells.extend(others.map(|number| number.to_string()));
            table.row(cells);
        }
    }
    table
}

fn objects(rows: &[ObjectStatus]) -> TextTable {
    let columns = [
        ("object", LEFT),
        ("kind", LEFT),
        ("sharing", LEFT),
        ("pages", RIGHT),
        ("resident", RIGHT),
        ("mapped by", LEFT),
        ("owned", LEFT),
    ];
    let mut table = TextTable::new(&columns);
    for row in present(rows) {
        table.row([
            row.name.clone(),
            row.kind.clone(),
            row.sharing.clone(),
            row.pages.to_string(),
            row.resident.to_string(),
            mappers(row),
            shares(row),
        ]);
    }
    table
}

/// The processes that map an object, each once.
pub(crate) fn mappers(row: &ObjectStatus) -> String {
    let mut pids: Vec<u32> = row.mappers.iter().map(|mapper| mapper.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    pids.join(" ")
}

/// What each reservation owns of an object, and of how much on its lists.
pub(crate) fn shares(row: &ObjectStatus) -> String {
    let share = |share: &freehold_report::status::ShareStatus| {
        let name = share.reservation.as_deref().unwrap_or("(pool)");
        format!("{name} {}/{}", share.owned, share.listed)
    };
    let shares: Vec<String> = row.shares.iter().map(share).collect();
    shares.join(", ")
}
