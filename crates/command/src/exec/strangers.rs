//! What of the program's descendants ran unmanaged: one line at the end, for whoever sits at a terminal. Anywhere else
//! standard error is the program's alone, and may be compared with what it says natively.

use std::io::IsTerminal;
use std::path::Path;

use crate::ask;
use freehold_client::{Observer, Options};
use freehold_report::status::UnmanagedStatus;

use crate::output;

/// Programs that are named.
const NAMED: usize = 6;

/// Says which programs ran unmanaged beside those of `reservation`, of all where the server is this command's own.
pub(super) fn tell(socket: &Path, reservation: Option<&str>, own: bool) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut options = Options::named("freehold exec");
    options.socket = Some(socket.to_owned());
    // A server that has gone has nothing to tell.
    let Ok(observer) = Observer::connect(&options) else {
        return;
    };
    let Ok(status) = ask::status(&observer) else {
        return;
    };
    let is_ours = |row: &&UnmanagedStatus| own || reservation.is_some() && row.reservation.as_deref() == reservation;
    let rows: Vec<&UnmanagedStatus> = status.unmanaged.iter().filter(is_ours).collect();
    if !rows.is_empty() {
        output::note(&line(&rows));
    }
}

fn line(rows: &[&UnmanagedStatus]) -> String {
    let begun: u64 = rows.iter().map(|row| row.begun).sum();
    let mut named: Vec<String> = rows
        .iter()
        .take(NAMED)
        .map(|row| match row.begun {
            1 => format!("{} ({})", row.program, row.why),
            begun => format!("{} ({}, {begun} times)", row.program, row.why),
        })
        .collect();
    if rows.len() > NAMED {
        named.push(format!("{} others", rows.len() - NAMED));
    }
    let programs = if begun == 1 { "program" } else { "programs" };
    format!("freehold: {begun} {programs} ran unmanaged: {}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::line;
    use freehold_report::status::UnmanagedStatus;

    fn row(program: &str, begun: u64) -> UnmanagedStatus {
        UnmanagedStatus {
            program: program.to_owned(),
            why: "linked statically".to_owned(),
            begun,
            pid: None,
            reservation: None,
        }
    }

    #[test]
    fn programs_are_counted_and_only_some_are_named() {
        let one = row("busybox", 1);
        assert_eq!(
            line(&[&one]),
            "freehold: 1 program ran unmanaged: busybox (linked statically)"
        );
        let rows: Vec<_> = (1..=8).map(|number| row("p", number)).collect();
        let all = line(&rows.iter().collect::<Vec<_>>());
        assert!(
            all.starts_with(
                "freehold: 36 programs ran unmanaged: p (linked statically), p (linked statically, 2 times)"
            )
        );
        assert!(all.ends_with("6 times), 2 others"), "{all}");
    }
}
