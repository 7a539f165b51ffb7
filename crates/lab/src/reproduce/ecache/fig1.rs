//! Figure 1: what it takes to get 70 MiB for a device.
//!
//! This machine has no memory that only moves: migration is shown by what it does at least, a copy of each page into
//! one that was nobody's (an emulation). Pages that must be written first are real dirty pages of a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use freehold_ecache::PAGE_SIZE;
use freehold_linux::PageRange;
use freehold_linux::clock;
use freehold_linux::memory::{Chunk, Window};
use freehold_scenario::SplitMix64;
use freehold_scenario::results::ReproduceRow;
use rustix::fs::Advice;

use super::row;
use crate::devices::{self, Served};
use crate::reproduce::app::{Bound, Sample};
use crate::reproduce::{Experiment, Kind, Laboratory};
use freehold_command::exit_status::Failure;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "ecache-fig1",
    about: "70 MiB for a device: migrated (emulated by copies), discarded, written back first, handed over",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

const MEBIBYTES: u32 = 70;
const PAGES: usize = MEBIBYTES as usize * 256;
/// Of each, the median counts.
const TIMES: usize = 11;
/// The paper's, in microseconds: clean pages migrated, discarded, and what its scheme takes.
const MIGRATED: f64 = 600_000.0;
const DISCARDED: f64 = 300_000.0;
const HANDED_OVER: f64 = 10_600.0;
/// Pages of the file that are dirty, and what the paper takes with so many, in microseconds.
struct Dirty {
    what: &'static str,
    pages: usize,
    is_random: bool,
    paper: f64,
}

const WRITTEN: [Dirty; 2] = [
    Dirty {
        what: "discarded, 512 KiB written first, in order",
        pages: 128,
        is_random: false,
        paper: 1e6,
    },
    Dirty {
        what: "discarded, 2 MiB written first, anywhere",
        pages: 512,
        is_random: true,
        paper: 22e6,
    },
];

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let served = Served::start(devices::cache(&[("mfc", MEBIBYTES)], true)?)?;
    let [mut copied, mut handed, mut discarded, mut few, mut many] = [const { Vec::new() }; 5];
    // In turns: the machine's other work is everybody's.
    for _ in 0..TIMES {
        copied.push(copy()?);
        handed.push(hand_over(&served)?);
        discarded.push(discard(None)?);
        few.push(discard(Some(&WRITTEN[0]))?);
        many.push(discard(Some(&WRITTEN[1]))?);
    }
    let (copied, discarded, few) = (median(copied), median(discarded), median(few));
    let one = |value: f64| Sample::new(vec![value]);
    let line = |what: &str, paper, ours, bound| row(what.to_owned(), "us", Some(paper), &one(ours), bound);
    let [in_order, anywhere] = WRITTEN;
    Ok(vec![
        line("migrated, by copies", MIGRATED, copied, Bound::Shown),
        line("discarded, clean pages of a file", DISCARDED, discarded, Bound::Shown),
        line(in_order.what, in_order.paper, few, Bound::Shown),
        line(anywhere.what, anywhere.paper, median(many), Bound::AtLeast(few)),
        line(
            "handed over by the victim cache",
            HANDED_OVER,
            median(handed),
            Bound::AtMost(copied / 10.0),
        ),
    ])
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn since(begin: clock::MonotonicTime) -> f64 {
    (clock::now().as_nanos() - begin.as_nanos()) as f64 / 1e3
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("the experiment cannot run here: {error}"))
}

fn copy() -> Result<f64, Failure> {
    let memory = || {
        let window = Window::reserve(PAGES).map_err(refused)?;
        let chunk = Chunk::create(c"freehold-lab", PAGES, false).map_err(refused)?;
        window.place(0, &chunk).map_err(refused)?;
        Ok::<_, Failure>((window, chunk))
    };
    let ((from, _old), (to, _new)) = (memory()?, memory()?);
    from.populate(PageRange::new(0, PAGES)).map_err(refused)?;
    let (begin, mut page) = (clock::now(), [0; PAGE_SIZE]);
    for number in 0..PAGES {
        from.read(number, &mut page).map_err(refused)?;
        to.write(number, &page).map_err(refused)?;
    }
    Ok(since(begin))
}

fn hand_over(served: &Served) -> Result<f64, Failure> {
    devices::fill(&served.cache, MEBIBYTES * 256)?;
    let begin = clock::now();
    let device = served.open("mfc")?;
    let took = since(begin);
    if device.opening().discarded != MEBIBYTES * 256 {
        return Err(Failure::Run(format!("the device got {:?}", device.opening())));
    }
    served.close(device)?;
    Ok(took)
}

/// Lets the kernel drop 70 MiB of a file, of which some pages are dirty.
fn discard(dirty: Option<&Dirty>) -> Result<f64, Failure> {
    let file = Temporary::new()?;
    file.write(0..PAGES)?;
    file.file.sync_all().map_err(refused)?;
    let mut random = SplitMix64::new(1);
    for number in 0..dirty.map_or(0, |dirty| dirty.pages) {
        let is_random = dirty.is_some_and(|dirty| dirty.is_random);
        let place = if is_random {
            random.below(MEBIBYTES * 256) as usize
        } else {
            number
        };
        file.write(place..place + 1)?;
    }
    let begin = clock::now();
    if dirty.is_some() {
        file.file.sync_data().map_err(refused)?;
    }
    rustix::fs::fadvise(&file.file, 0, None, Advice::DontNeed).map_err(refused)?;
    Ok(since(begin))
}

/// A file that goes in the end.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("freehold-lab-fig1-{}", std::process::id()));
        let file = File::create_new(&path).map_err(refused)?;
        Ok(Self { path, file })
    }

    fn write(&self, pages: std::ops::Range<usize>) -> Result<(), Failure> {
        let page = [3; PAGE_SIZE];
        for number in pages {
            self.file
                .write_all_at(&page, (number * PAGE_SIZE) as u64)
                .map_err(refused)?;
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
