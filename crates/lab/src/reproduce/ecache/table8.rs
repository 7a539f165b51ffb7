//! Table 8: a page out of the victim cache beside one read from the disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use freehold_ecache::PAGE_SIZE;
use freehold_linux::clock;
use freehold_scenario::SplitMix64;
use freehold_scenario::results::ReproduceRow;
use rustix::fs::{Mode, OFlags};

use super::row;
use crate::devices::{self, key};
use crate::reproduce::app::{Bound, Sample};
use crate::reproduce::{Experiment, Kind, Laboratory};
use freehold_command::exit_status::Failure;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "ecache-table8",
    about: "a page got from the victim cache, and read from the disk under the folder for temporary files",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

const MEBIBYTES: u32 = 64;
const PAGES: u32 = MEBIBYTES * 256;
/// Pages read of each.
const READS: u32 = 2_000;
/// The paper's, in milliseconds.
const PAPER: (f64, f64) = (1.51, 0.07);
/// How many times as fast the cache is claimed to be: that depends on the disk, and ours are faster than flash was.
const TIMES: f64 = 4.0;

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let file = OnDisk::new(PAGES)?;
    let cache = devices::cache(&[("device", MEBIBYTES)], true)?;
    devices::fill(&cache, PAGES)?;
    let (mut disk, mut memory) = (Vec::new(), Vec::new());
    let mut random = SplitMix64::new(1);
    let mut page = Box::new(Aligned([0; PAGE_SIZE]));
    for _ in 0..READS {
        let number = random.below(PAGES);
        disk.push(timed(|| file.read(number, &mut page.0))?);
        // What was got before is a miss now.
        let here = cache.has(key(number));
        let got = timed(|| Ok(cache.get(key(number), &mut page.0)))?;
        if here && page.0[..4] != number.to_le_bytes() {
            return Err(Failure::Run(format!("page {number} is not what was put")));
        }
        if here {
            memory.push(got);
        }
    }
    let (disk, memory) = (median(&mut disk), median(&mut memory));
    let one = |value: f64| Sample::new(vec![value]);
    Ok(vec![
        row(
            "read from the disk, median".into(),
            "us",
            Some(PAPER.0 * 1e3),
            &one(disk),
            Bound::Shown,
        ),
        row(
            "got from the victim cache, median".into(),
            "us",
            Some(PAPER.1 * 1e3),
            &one(memory),
            Bound::Shown,
        ),
        row(
            "how many times as fast".into(),
            "",
            Some(PAPER.0 / PAPER.1),
            &one(disk / memory),
            Bound::AtLeast(TIMES),
        ),
    ])
}

/// In microseconds.
#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn timed<R>(what: impl FnOnce() -> Result<R, Failure>) -> Result<f64, Failure> {
    let begin = clock::now();
    what()?;
    Ok((clock::now().as_nanos() - begin.as_nanos()) as f64 / 1e3)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// For reads past the kernel's page cache.
#[repr(align(4096))]
struct Aligned([u8; PAGE_SIZE]);

/// A file on the disk, read past the kernel's page cache; it goes in the end.
struct OnDisk {
    path: PathBuf,
    file: File,
}

impl OnDisk {
    fn new(pages: u32) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("freehold-lab-table8-{}", std::process::id()));
        let wrong = |error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
        let made = File::create_new(&path).and_then(|mut file| {
            let mebibyte = vec![7; 1 << 20];
            (0..pages.div_ceil(256)).try_for_each(|_| file.write_all(&mebibyte))?;
            file.sync_all()
        });
        let opened = made.and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            Ok(File::from(rustix::fs::open(&path, flags, Mode::empty())?))
        });
        match opened {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => {
                let failure = wrong(error);
                let _ = std::fs::remove_file(&path);
                Err(failure)
            }
        }
    }

    fn read(&self, page: u32, into: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        let offset = u64::from(page) * PAGE_SIZE as u64;
        match rustix::io::pread(&self.file, into.as_mut_slice(), offset) {
            Ok(PAGE_SIZE) => Ok(()),
            other => Err(Failure::Run(format!("{}: read: {other:?}", self.path.display()))),
        }
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
