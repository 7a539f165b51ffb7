//! `freehold top`: a server's reservations, tasks and shared objects as they change. It survives a server that goes.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use freehold_client::Observer;
use freehold_report::status::{ReservationStatus, StatusDocument, TaskStatus};
use freehold_scenario::results::{Align, TextTable};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use crate::connect::{self, Where};
use crate::status;
use crate::thrashing::{self, Thrashing};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

const LEFT: Align = Align::Left;
const RIGHT: Align = Align::Right;
/// Frames that a bar's character stands for: a bar has this many characters.
const BAR: u64 = 20;

/// Options of `freehold top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Where,
    /// Print one frame as text and end
    #[arg(long)]
    once: bool,
    /// Time between frames
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let time = freehold_scenario::parse_time(text)?.get();
    if time < 50_000_000 {
        return Err("at least 50ms are needed between frames".to_owned());
    }
    Ok(Duration::from_nanos(time))
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.once {
        let observer = arguments.server.observe("freehold top")?;
        let first = look(&observer)?;
        output::print(&frame(&first, None).join("\n"))?;
        return Ok(Status::Done);
    }
    if !std::io::stdout().is_terminal() {
        let text = "standard output is not a terminal: use --once, or `freehold status`";
        return Err(Failure::Input(text.to_owned()));
    }
    // So that a wrong socket is an error and not an empty screen.
    let observer = arguments.server.observe("freehold top")?;
    let mut terminal = ratatui::try_init().map_err(|error| Failure::Run(format!("the terminal: {error}")))?;
    let outcome = watch(arguments, Some(observer), &mut terminal);
    ratatui::restore();
    outcome
}

/// One picture and when it was taken.
#[derive(Debug)]
struct Seen {
    at: Instant,
    status: StatusDocument,
}

fn look(observer: &Observer) -> Result<Seen, Failure> {
    let status = connect::status(observer)?;
    let at = Instant::now();
    Ok(Seen { at, status })
}

fn watch(
    arguments: &Arguments,
    mut observer: Option<Observer>,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<Status, Failure> {
    let mut before: Option<Seen> = None;
    loop {
        if observer.is_none() {
            observer = arguments.server.observe("freehold top").ok();
        }
        let lines = match observer.as_ref().map(look) {
            Some(Ok(seen)) => {
                let lines = frame(&seen, before.as_ref());
                before = Some(seen);
                lines
            }
            Some(Err(error)) => {
                // It is looked for again; what was there says nothing about what comes.
                (observer, before) = (None, None);
                vec![format!("{error}"), "looking for a server again (q quits)".to_owned()]
            }
            None => vec!["no memory server answers; looking again (q quits)".to_owned()],
        };
        let drawn = terminal.draw(|area| area.render_widget(Paragraph::new(styled(lines)), area.area()));
        drawn.map_err(|error| Failure::Run(format!("the terminal: {error}")))?;
        if quits(arguments.interval)? {
            return Ok(Status::Done);
        }
    }
}

/// Waits for the next frame; whether the user has had enough.
fn quits(interval: Duration) -> Result<bool, Failure> {
    let terminal = |error| Failure::Run(format!("the terminal: {error}"));
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !event::poll(left).map_err(terminal)? {
            return Ok(false);
        }
        match event::read().map_err(terminal)? {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
}

/// Titles stand out: they are the lines that begin without a blank and end with a colon.
fn styled(lines: Vec<String>) -> Text<'static> {
    let style = |line: String| {
        let title = line.ends_with(':');
        let style = if title {
            Style::new().add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        Line::styled(line, style)
    };
    lines.into_iter().map(style).collect::<Vec<Line<'_>>>().into()
}

/// One frame, line by line.
fn frame(seen: &Seen, before: Option<&Seen>) -> Vec<String> {
    let status = &seen.status;
    let memory = &status.memory;
    let mut lines = vec![
        format!(
            "freehold {} · process {} · up {} · {} clients · {} at {}",
            status.server.version,
            status.server.pid,
            output::human_time(status.server.uptime_ns),
            status.clients.len(),
            status.store.kind,
            status.server.socket
        ),
        format!(
            "pool [{}] {} of {} frames used, {} reserved, {} free · store: {} read back, {} written",
            bar(&[(memory.used, '#')], memory.pool),
            memory.used,
            memory.pool,
            memory.committed,
            memory.free,
            status.store.reads,
            status.store.writes
        ),
    ];
    let tables = [
        (
            "reservations (# active, + inactive, L locked, . free):",
            reservations(&status.reservations),
        ),
        ("pinned page pools (pages):", status::pools(&status.pinned_pools)),
        ("tasks (a second):", tasks(seen, before)),
        ("who shares what (owned/listed):", shared(status)),
    ];
    for (title, table) in tables.into_iter().chain(crate::component::shown::tables()) {
        if !table.is_empty() {
            lines.push(String::new());
            lines.push(title.to_owned());
            lines.extend(table.to_string().lines().map(str::to_owned));
        }
    }
    if let Some(before) = before {
        let passed = seen.at.saturating_duration_since(before.at);
        let thrashing = thrashing::between(&before.status, status, passed);
        lines.extend(thrashing.iter().map(Thrashing::sentence));
    }
    lines.push(String::new());
    lines
}

/// Amounts as characters of a bar for `whole`.
fn bar(parts: &[(u64, char)], whole: u64) -> String {
    let (mut text, mut sum) = (String::new(), 0_u64);
    for (amount, character) in parts {
        sum = sum.saturating_add(*amount);
        let end = sum.min(whole).saturating_mul(BAR).checked_div(whole).unwrap_or(0);
        while (text.chars().count() as u64) < end {
            text.push(*character);
        }
    }
    while (text.chars().count() as u64) < BAR {
        text.push(' ');
    }
    text
}

fn reservations(rows: &[ReservationStatus]) -> TextTable {
    let names = [
        "frames",
        "active",
        "inactive",
        "locked",
        "free",
        "conserved",
        "borrowed",
    ];
    let mut columns = vec![("name", LEFT), ("type", LEFT), ("", LEFT)];
    columns.extend(names.map(|name| (name, RIGHT)));
    let mut table = TextTable::new(&columns);
    for row in rows {
        let lists = &row.lists;
        let parts = [
            (lists.active, '#'),
            (lists.inactive, '+'),
            (lists.locked, 'L'),
            (lists.free, '.'),
        ];
        let bar = format!("[{}]", bar(&parts, lists.capacity.saturating_add(lists.borrowed)));
        let mut cells = vec![row.name.clone(), row.kind.clone(), bar];
        let numbers = [lists.capacity, lists.active, lists.inactive, lists.locked];
        cells.extend(numbers.map(|number| number.to_string()));
        let numbers = [lists.free, row.frames.conserved, lists.borrowed];
        cells.extend(numbers.map(|number| number.to_string()));
        table.row(cells);
    }
    table
}

/// Counts of a task that become rates.
fn counts(task: &TaskStatus) -> [u64; 4] {
    let faults = [
        task.soft_faults,
        task.zero_fills,
        task.swap_ins,
        task.file_reads,
        task.write_faults,
    ];
    [faults.iter().sum(), task.swap_ins, task.evictions, task.misses]
}

fn tasks(seen: &Seen, before: Option<&Seen>) -> TextTable {
    let mut columns = vec![("task", LEFT), ("pid", RIGHT), ("reservation", LEFT)];
    columns.extend(["faults/s", "swap-ins/s", "evictions/s", "misses", "swap-ins"].map(|name| (name, RIGHT)));
    let mut table = TextTable::new(&columns);
    let mut earlier = BTreeMap::new();
    for client in before.iter().flat_map(|before| &before.status.clients) {
        for (place, task) in client.tasks.iter().enumerate() {
            earlier.insert((client.client, client.pid, place), counts(task));
        }
    }
    let passed = before.map(|before| seen.at.saturating_duration_since(before.at));
    for client in &seen.status.clients {
        for (place, task) in client.tasks.iter().enumerate() {
            let now = counts(task);
            let then = earlier.get(&(client.client, client.pid, place));
            let rate = |which: usize| match (then, passed) {
                (Some(then), Some(passed)) => per_second(now[which].saturating_sub(then[which]), passed),
                _ => "-".to_owned(),
            };
            table.row([
                task.name.clone(),
                client.pid.to_string(),
                status::home(task),
                rate(0),
                rate(1),
                rate(2),
                task.misses.to_string(),
                task.swap_ins.to_string(),
            ]);
        }
    }
    table
}

fn per_second(count: u64, passed: Duration) -> String {
    let nanoseconds = passed.as_nanos().max(1);
    let rate = u128::from(count).saturating_mul(1_000_000_000) / nanoseconds;
    rate.to_string()
}

fn shared(status: &StatusDocument) -> TextTable {
    let columns = [
        ("object", LEFT),
        ("sharing", LEFT),
        ("pages", RIGHT),
        ("resident", RIGHT),
    ];
    let mut table = TextTable::new(&[&columns[..], &[("mapped by", LEFT), ("owned/listed", LEFT)]].concat());
    for row in status::present(&status.objects) {
        table.row([
            row.name.clone(),
            row.sharing.clone(),
            row.pages.to_string(),
            row.resident.to_string(),
            status::mappers(row),
            status::shares(row),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_parts() {
        assert_eq!(bar(&[(10, '#'), (5, '+')], 20), "##########+++++     ");
        assert_eq!(bar(&[(99, '#')], 20), "####################");
        assert_eq!(bar(&[(1, '#')], 0), "                    ");
    }

    #[test]
    fn rates_are_a_second() {
        assert_eq!(per_second(10, Duration::from_millis(500)), "20");
        assert_eq!(per_second(10, Duration::ZERO), "10000000000");
    }
}
