//! The workloads of Tables 2 to 7: how often each application is launched, and which devices it opens.

use freehold_core::units::FrameCount;
use freehold_scenario::SplitMix64;
use freehold_sim::replay::{Event, Row};

use super::programs::Program;
use freehold_command::exit_status::Failure;

/// Launches of a workload.
const LAUNCHES: usize = 400;

/// The devices of Table 2 as the paper's section 4 merges them, in MiB: 90 together.
pub(super) const DEVICES: [(&str, u32); 4] = [("mfc0", 34), ("mfc1", 36), ("fimc", 12), ("jpeg", 8)];

/// The workloads.
pub(super) const WORKLOADS: [&str; 6] = ["L", "N", "H", "LM", "NM", "HM"];
/// Those in which half of the launches open devices.
pub(super) const MULTIMEDIA: [&str; 3] = ["LM", "NM", "HM"];

/// Table 7: an application's part of each workload, in per cent.
const PARTS: [(&str, [f64; 6]); 29] = [
    ("Alarm", [7.5, 4.8, 1.5, 1.0, 3.0, 0.8]),
    ("Angrybird", [2.3, 0.8, 3.5, 1.8, 0.3, 1.5]),
    ("Browser", [9.5, 3.0, 9.0, 3.3, 1.5, 6.0]),
    ("Calendar", [6.3, 5.5, 0.8, 4.0, 1.3, 0.8]),
    ("Call", [23.8, 16.8, 0.8, 10.3, 6.3, 1.3]),
    ("Camera", [3.8, 3.3, 0.5, 52.0, 28.3, 16.3]),
    ("Maps", [4.8, 4.8, 4.0, 2.8, 2.8, 2.3]),
    ("Picture", [2.8, 1.8, 3.0, 2.8, 1.8, 2.5]),
    ("Setting", [3.3, 3.3, 2.5, 3.0, 3.0, 0.8]),
    ("SMS", [20.3, 12.0, 0.5, 9.0, 7.3, 1.3]),
    ("GooglePlay", [7.5, 7.5, 6.0, 5.3, 5.3, 2.5]),
    ("Weather", [7.5, 5.0, 5.8, 4.3, 3.5, 2.0]),
    ("Alchemy", [0.0, 0.8, 6.0, 0.0, 0.5, 1.0]),
    ("Dragracing", [0.0, 0.8, 3.8, 0.0, 1.0, 2.3]),
    ("Facebook", [0.0, 3.3, 3.0, 0.0, 1.0, 1.8]),
    ("GMail", [0.0, 15.3, 2.3, 0.0, 5.8, 0.8]),
    ("Movies", [0.0, 1.5, 2.3, 0.0, 24.8, 16.5]),
    ("Twitter", [0.0, 3.3, 4.8, 0.0, 0.8, 1.5]),
    ("Adobe", [0.0, 0.0, 1.5, 0.0, 0.0, 1.0]),
    ("AstridTask", [0.0, 0.0, 1.5, 0.0, 0.0, 1.3]),
    ("AvdTKiller", [0.0, 0.0, 2.5, 0.0, 0.0, 1.3]),
    ("CNN", [0.0, 0.0, 6.3, 0.0, 0.0, 2.8]),
    ("ESPN", [0.0, 0.0, 4.8, 0.0, 0.0, 2.0]),
    ("GasBuddy", [0.0, 0.0, 7.0, 0.0, 0.0, 4.5]),
    ("Skymap", [0.0, 0.0, 5.0, 0.0, 0.0, 2.0]),
    ("HopStop", [0.0, 0.0, 1.8, 0.0, 0.0, 2.5]),
    ("iTriage", [0.0, 0.0, 3.0, 0.0, 0.0, 1.0]),
    ("KakaoTalk", [0.0, 0.0, 4.3, 0.0, 0.0, 2.5]),
    ("YouTube", [0.0, 0.0, 2.5, 0.0, 0.0, 17.8]),
];

/// Which devices an application opens, by their places: a film its two, a camera that takes pictures its own and the
/// encoder.
pub(super) fn devices_of(app: &str) -> &'static [usize] {
    match app {
        "Movies" | "YouTube" => &[0, 1],
        "Camera" => &[2, 3],
        _ => &[],
    }
}

/// The caches of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) name: &'static str,
    pub(super) page_cache: FrameCount,
    pub(super) devices: Vec<(String, FrameCount)>,
}

impl Sizes {
    /// The paper's: 40 and 90 MiB.
    pub(super) fn paper() -> Self {
        Self::new("40/90 MiB", FrameCount::new(40 * 256), 1.0)
    }

    /// In proportion to the programs: a page cache of the median program's files, and 9/4 of that.
    #[allow(clippy::cast_precision_loss, reason = "some ten thousand pages")]
    pub(super) fn scaled(programs: &[Program]) -> Self {
        let mut pages: Vec<u64> = programs.iter().map(Program::pages).collect();
        pages.sort_unstable();
        let median = pages.get(pages.len() / 2).copied().unwrap_or(1);
        let frames = FrameCount::new(u32::try_from(median).unwrap_or(u32::MAX).max(1));
        Self::new("scaled to the programs", frames, median as f64 / (40.0 * 256.0))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, some ten thousand"
    )]
    fn new(name: &'static str, page_cache: FrameCount, times: f64) -> Self {
        let size = |mebibytes: u32| (f64::from(mebibytes * 256) * times).round().max(1.0) as u32;
        let devices = DEVICES.map(|(device, mebibytes)| (device.to_owned(), FrameCount::new(size(mebibytes))));
        Self {
            name,
            page_cache,
            devices: devices.into(),
        }
    }

    /// The same page cache, alone.
    pub(super) fn without_devices(&self) -> Self {
        Self {
            devices: Vec::new(),
            ..self.clone()
        }
    }

    /// The frames of the victim cache: those of all devices.
    pub(super) fn cache(&self) -> FrameCount {
        FrameCount::new(self.devices.iter().map(|(_, size)| size.get()).sum())
    }
}

/// One run of a workload: 400 launches drawn from Table 7. Each launch begins with a mark, of its program's place among
/// `programs`; devices are opened in the middle of it, as the paper has it, and closed at its end.
///
/// # Errors
/// An application has no program.
pub(super) fn rows(programs: &[Program], workload: usize, seed: u32) -> Result<Vec<Row>, Failure> {
    launches(programs, workload, seed, LAUNCHES)
}

fn launches(programs: &[Program], workload: usize, seed: u32, count: usize) -> Result<Vec<Row>, Failure> {
    let mut random = SplitMix64::stream(seed.into(), workload as u64);
    let whole: f64 = PARTS.iter().map(|(_, parts)| parts[workload]).sum();
    let mut rows = Vec::new();
    let mut push = |event| {
        let number = rows.len() as u64 + 1;
        rows.push(Row {
            number,
            time: None,
            event,
        });
    };
    for _ in 0..count {
        let mut left = random.unit() * whole;
        let drawn = PARTS.iter().find(|(_, parts)| {
            left -= parts[workload];
            left <= 0.0 && parts[workload] > 0.0
        });
        let (app, _) = drawn.unwrap_or(&PARTS[0]);
        let group = programs.iter().position(|program| program.app == *app);
        let group = group.ok_or_else(|| Failure::Input(format!("no program stands for {app}")))?;
        let (first, second) = programs[group].uses.split_at(programs[group].uses.len() / 2);
        push(Event::Mark { group });
        first.iter().for_each(|pages| push(Event::Access(*pages)));
        for device in devices_of(app) {
            push(Event::Open {
                device: *device,
                used: 0,
            });
        }
        second.iter().for_each(|pages| push(Event::Access(*pages)));
        for device in devices_of(app) {
            push(Event::Close { device: *device });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::ecache::programs;

    #[test]
    fn workloads_are_drawn_as_table_7_says() {
        let programs = programs::all().unwrap();
        for (workload, name) in WORKLOADS.iter().enumerate() {
            let rows = launches(&programs, workload, 1, 4000).unwrap();
            assert_eq!(rows, launches(&programs, workload, 1, 4000).unwrap());
            let mut counts = vec![0_u32; programs.len()];
            let (mut opens, mut closes) = (0, 0);
            for row in &rows {
                match row.event {
                    Event::Mark { group } => counts[group] += 1,
                    Event::Open { .. } => opens += 1,
                    Event::Close { .. } => closes += 1,
                    _ => {}
                }
            }
            assert_eq!((opens > 0, opens), (true, closes), "{name}");
            for (app, parts) in PARTS {
                let group = programs.iter().position(|program| program.app == app).unwrap();
                let found = f64::from(counts[group]) / 40.0;
                assert!((found - parts[workload]).abs() < 3.0, "{name}: {app} {found} %");
                assert!(parts[workload] > 0.0 || found == 0.0, "{name}: {app}");
            }
        }
    }
}
