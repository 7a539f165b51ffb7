//! Counting frame by frame: `/proc/PID/pagemap` says which frame each page has, `/proc/kpagecount` how often a frame is
//! mapped, by whom ever.

use super::area::Area;
use super::{Counts, Process, ProcessError};
use crate::PAGE_SIZE;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// KPF_ZERO_PAGE
const ZERO_PAGE: u64 = 1 << 24;
/// Bytes of one entry in each of the files.
const ENTRY: u64 = 8;
/// Entries read at a time.
const BATCH: usize = 8192;
/// Mappings that have nothing, as far as the kernel's sums know, are looked through for zero pages up to this size.
const SMALL: u64 = 1 << 20;

/// Why frames cannot be counted.
pub(super) enum Hindrance {
    /// The process cannot be looked at, by any way.
    Process(ProcessError),
    /// Rights are missing.
    Rights(String),
}

impl From<ProcessError> for Hindrance {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

/// One page of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mapped {
    frame: u64,
    /// Executable mappings first: such a frame is code.
    data: bool,
    area: usize,
}

/// What each area has.
pub(super) fn count(process: &Process, areas: &[Area], aside: &[Process]) -> Result<Vec<Counts>, Hindrance> {
    let mut frames = Frames::open()?;
    let mapped = pages(process, areas, |area| {
        area.counts().resident() > 0 || area.pages() <= SMALL
    })?;
    let own = distinct(&mapped);
    let aside = others(aside, &own)?;
    let mut counts: Vec<Counts> = areas.iter().map(only_swapped).collect();
    for group in mapped.chunk_by(|one, next| one.frame == next.frame) {
        let Some(first) = group.first() else { continue };
        let (Some(area), Some(counts)) = (areas.get(first.area), counts.get_mut(first.area)) else {
            continue;
        };
        let uses = frames.uses(first.frame, &own)?;
        if uses == 0 {
            // No frame of anybody: the zero page, a device's memory, or unmapped since.
            counts.zero += if frames.is_zero_page(first.frame)? {
                group.len() as u64
            } else {
                0
            };
            continue;
        }
        let known = group.len() as u64 + occurrences(&aside, first.frame);
        let kind = if uses > known {
            &mut counts.shared
        } else {
            &mut counts.private
        };
        kind.add(area.executable, 1);
        counts.registered += u64::from(area.registered);
    }
    Ok(counts)
}

/// The kernel's sum tells real swap from other entries that are not present.
fn only_swapped(area: &Area) -> Counts {
    Counts {
        swapped: area.counts().swapped,
        ..Counts::default()
    }
}

/// How often processes that do not count as sharers map frames of `own`.
fn others(aside: &[Process], own: &[u64]) -> Result<Vec<Mapped>, Hindrance> {
    let mut all = Vec::new();
    for process in aside {
        let areas = process.areas()?;
        let mut mapped = pages(process, &areas, |area| area.counts().shared.total() > 0)?;
        mapped.retain(|page| own.binary_search(&page.frame).is_ok());
        all.append(&mut mapped);
    }
    all.sort_unstable();
    Ok(all)
}

fn occurrences(sorted: &[Mapped], frame: u64) -> u64 {
    let from = sorted.partition_point(|page| page.frame < frame);
    let upto = sorted.partition_point(|page| page.frame <= frame);
    (upto - from) as u64
}

/// Every present page of the areas that are `wanted`, in the order of frames.
fn pages(process: &Process, areas: &[Area], wanted: impl Fn(&Area) -> bool) -> Result<Vec<Mapped>, Hindrance> {
    let file = process.open_file("pagemap")?;
    let mut mapped = Vec::new();
    for (position, area) in areas.iter().enumerate().filter(|(_, area)| wanted(area)) {
        let first = area.start / PAGE_SIZE as u64;
        let read = entries(&file, first, area.pages(), |entry| {
            if entry & PRESENT != 0 {
                mapped.push(Mapped {
                    frame: entry & FRAME,
                    data: !area.executable,
                    area: position,
                });
            }
        });
        read.map_err(|error| process.explain("pagemap", &error))?;
    }
    if mapped.iter().any(|page| page.frame == 0) {
        return Err(Hindrance::Rights(
            "frame numbers in /proc/PID/pagemap are shown to CAP_SYS_ADMIN only".to_owned(),
        ));
    }
    mapped.sort_unstable();
    Ok(mapped)
}

fn distinct(sorted: &[Mapped]) -> Vec<u64> {
    let mut frames: Vec<u64> = sorted.iter().map(|page| page.frame).collect();
    frames.dedup();
    frames
}

/// Reads `count` entries from the one numbered `first` on; fewer where the file ends.
fn entries(file: &File, first: u64, count: u64, mut each: impl FnMut(u64)) -> std::io::Result<()> {
    let mut buffer = vec![0_u8; BATCH * 8];
    let (mut at, end) = (first, first.saturating_add(count));
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(BATCH).min(BATCH);
        let Some(place) = buffer.get_mut(..wanted * 8) else {
            break;
        };
        let read = match file.read_at(place, at.saturating_mul(ENTRY)) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let (whole, _) = place.get(..read).unwrap_or_default().as_chunks::<8>();
        if whole.is_empty() {
            break;
        }
        for entry in whole {
            each(u64::from_ne_bytes(*entry));
        }
        at += whole.len() as u64;
    }
    Ok(())
}

/// What the kernel says of frames.
struct Frames {
    uses: File,
    flags: File,
    /// Frames from `first` on whose uses have been read.
    first: u64,
    read: Vec<u64>,
}

impl Frames {
    fn open() -> Result<Self, Hindrance> {
        let open =
            |path: &str| File::open(path).map_err(|error| Hindrance::Rights(format!("{path} cannot be read: {error}")));
        Ok(Self {
            uses: open("/proc/kpagecount")?,
            flags: open("/proc/kpageflags")?,
            first: 0,
            read: Vec::new(),
        })
    }

    /// How often `frame` is mapped. Asked for in ascending order, of frames in `own`.
    fn uses(&mut self, frame: u64, own: &[u64]) -> Result<u64, Hindrance> {
        let found = |frames: &Self| {
            let place = usize::try_from(frame.checked_sub(frames.first)?).ok()?;
            frames.read.get(place).copied()
        };
        if let Some(uses) = found(self) {
            return Ok(uses);
        }
        let from = own.partition_point(|other| *other < frame);
        let run = own.get(from..).unwrap_or_default();
        let last = run
            .iter()
            .take(BATCH)
            .take_while(|other| **other - frame < BATCH as u64)
            .last();
        let count = last.map_or(1, |last| last - frame + 1);
        self.first = frame;
        self.read.clear();
        let read = &mut self.read;
        entries(&self.uses, frame, count, |uses| read.push(uses))
            .map_err(|error| rights("/proc/kpagecount", &error))?;
        Ok(found(self).unwrap_or(0))
    }

    fn is_zero_page(&self, frame: u64) -> Result<bool, Hindrance> {
        let mut flags = 0;
        entries(&self.flags, frame, 1, |read| flags = read).map_err(|error| rights("/proc/kpageflags", &error))?;
        Ok(flags & ZERO_PAGE != 0)
    }
}

fn rights(path: &str, error: &std::io::Error) -> Hindrance {
    Hindrance::Rights(format!("{path} cannot be read: {error}"))
}
