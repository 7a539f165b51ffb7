//! The recordings.

use std::collections::BTreeMap;
use std::io::Read;

use freehold_sim::replay::{Event, Format, Pages, read_trace};

use freehold_command::exit_status::Failure;

/// What `experiments/ecache/record.sh` made.
const RECORDED: &[u8] = include_bytes!("../../../../../experiments/ecache/programs.csv.zst");

/// A program: which pages one launch of it uses, in order.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) app: String,
    pub(super) uses: Vec<Pages>,
}

impl Program {
    /// Distinct pages.
    pub(super) fn pages(&self) -> u64 {
        let mut pages: Vec<(u64, u32)> = self.uses.iter().flat_map(each).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len() as u64
    }
}

fn each(pages: &Pages) -> impl Iterator<Item = (u64, u32)> + use<> {
    let (file, first, count) = (pages.file, pages.first.get(), pages.count);
    (first..first.saturating_add(count)).map(move |page| (file, page))
}

/// All programs, in order of their applications' names.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn all() -> Result<Vec<Program>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Input(format!("experiments/ecache/programs.csv.zst: {error}"));
    let mut text = String::new();
    let mut decoder = zstd::Decoder::new(RECORDED).map_err(|error| wrong(&error))?;
    decoder.read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let rows = read_trace(text.as_bytes(), &Format::Freehold, &[]).map_err(|error| wrong(&error))?;
    let mut programs: BTreeMap<&str, Vec<Pages>> = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for row in rows {
        let place = usize::try_from(row.number).unwrap_or(0).saturating_sub(1);
        let app = lines.get(place).and_then(|line| line.split(',').nth(1));
        if let (Some(app), Event::Access(pages)) = (app, row.event) {
            programs.entry(app).or_default().push(pages);
        }
    }
    let programs = programs.into_iter().map(|(app, uses)| Program {
        app: app.to_owned(),
        uses,
    });
    Ok(programs.collect())
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn there_are_29_programs_that_share_some_pages() {
        let programs = all().unwrap();
        assert_eq!(programs.len(), 29);
        assert!(
            programs.iter().all(|program| program.pages() > 256),
            "a program is a MiB at least"
        );
        let uses = |program: &super::Program, file| program.uses.iter().any(|pages| pages.file == file);
        let users = |file| programs.iter().filter(|program| uses(program, file)).count();
        let most = programs[0].uses.iter().map(|pages| users(pages.file)).max();
        assert!(most > Some(20), "the C library is used by nearly all, not by {most:?}");
    }
}
