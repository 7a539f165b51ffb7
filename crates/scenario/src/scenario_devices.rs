//! `[[device]]` of a scenario: memory set aside for devices, and when they open.

use crate::document::keys;
use crate::document::section::Section;
use crate::error::Fault;
use crate::model::{Task, TaskIndex};
use crate::quantity::format_size;
use crate::resolve::checks::{Lookup, pages, refuse, span};
use crate::spec::ScenarioSpec;
use freehold_core::units::{ByteLen, Duration, FrameCount, Instant};
use freehold_core::victim_cache::MOST_DEVICES;

/// The most memory of one device: 64 GiB.
const MOST_PAGES: u32 = 1 << 24;
/// The most opens of one device.
const MOST_OPENS: usize = 1 << 16;

/// `[[device]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its name, unique among devices.
    pub name: String,
    /// What it opens at most; a multiple of 4 KiB.
    pub size: ByteLen,
    /// Its client may see what is cached in its memory, and keeps none of it after it closes.
    pub trusted: bool,
    /// The task whose jobs open it and close it when they end; `None` where `opens` says when.
    pub task: Option<String>,
    /// What the jobs of `task` open; `None` is all.
    pub used: Option<ByteLen>,
    /// `[[device.open]]`, in order of time; only without `task`.
    pub opens: Vec<OpenSpec>,
}

/// `[[device.open]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpec {
    /// When it opens.
    pub at: Duration,
    /// For how long; not zero.
    pub hold: Duration,
    /// What it opens; `None` is all.
    pub used: Option<ByteLen>,
}

/// A device whose memory is cache while it is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioDevice {
    /// Its name.
    pub name: String,
    /// What it opens at most.
    pub size: FrameCount,
    /// Its client may see what is cached in its memory, and keeps none of it after it closes.
    pub trusted: bool,
    /// The task whose jobs open it, and what they open.
    pub task: Option<(TaskIndex, FrameCount)>,
    /// In order of time, none before the one before it has closed.
    pub opens: Vec<DeviceOpen>,
}

/// One time that a device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOpen {
    /// From when.
    pub at: Instant,
    /// Until when.
    pub until: Instant,
    /// With how much; at most its size.
    pub used: FrameCount,
}

/// Reads one table.
pub(crate) fn read(section: &Section<'_>) -> Result<DeviceSpec, Fault> {
    let open = |section: &Section<'_>| {
        Ok(OpenSpec {
            at: section.required("at", section.time("at")?)?,
            hold: section.required("hold", section.time("hold")?)?,
            used: section.size("use")?,
        })
    };
    let opens = section.tables("open", keys::DEVICE_OPEN)?;
    Ok(DeviceSpec {
        name: section.required("name", section.text("name")?)?,
        size: section.required("size", section.size("size")?)?,
        trusted: section.flag("trusted")?.unwrap_or(false),
        task: section.text("task")?,
        used: section.size("use")?,
        opens: opens.iter().map(open).collect::<Result<_, _>>()?,
    })
}

/// Checks them all. `pool` is what there is for them and for reservations.
pub(crate) fn resolve(spec: &ScenarioSpec, pool: FrameCount, tasks: &[Task]) -> Result<Vec<ScenarioDevice>, Fault> {
    if spec.devices.len() > MOST_DEVICES {
        let message = format!("has {} entries: at most {MOST_DEVICES}", spec.devices.len());
        return refuse("device", message);
    }
    Lookup::new("device", spec.devices.iter().map(|device| device.name.as_str()))?;
    let names = Lookup::new("task", spec.tasks.iter().map(|task| task.name.as_str()))?;
    let mut devices: Vec<ScenarioDevice> = Vec::new();
    let mut left = pool;
    for (position, device) in spec.devices.iter().enumerate() {
        let path = format!("device.{position}");
        let resolved = one(&path, device, &names, tasks)?;
        let Some(rest) = left.get().checked_sub(resolved.size.get()).filter(|rest| *rest > 0) else {
            let (size, left) = (format_size(device.size), format_size(left.to_bytes()));
            let message = format!("is {size}: of the pool {left} are left, and some must stay for tasks");
            return Err(Fault::new(format!("{path}.size"), message).with("memory.pool"));
        };
        left = FrameCount::new(rest);
        devices.push(resolved);
    }
    Ok(devices)
}

fn one(path: &str, spec: &DeviceSpec, names: &Lookup<'_>, tasks: &[Task]) -> Result<ScenarioDevice, Fault> {
    let size = pages(&format!("{path}.size"), spec.size, MOST_PAGES)?.to_frames();
    let used = |path: &str, used: Option<ByteLen>| match used {
        None => Ok(size),
        Some(used) => pages(path, used, size.get()).map(|pages| pages.to_frames()),
    };
    let task = match &spec.task {
        Some(_) if !spec.opens.is_empty() => {
            let message = "the jobs of a task open it, and so does `open`: leave one of them out";
            return refuse(format!("{path}.task"), message);
        }
        Some(name) => {
            let found = names.find(&format!("{path}.task"), name)?;
            if tasks.get(usize::from(found)).is_some_and(|task| task.period.is_none()) {
                let message = format!("`{name}` has no period: the jobs of a periodic task open a device");
                return refuse(format!("{path}.task"), message);
            }
            Some((TaskIndex::new(found), used(&format!("{path}.use"), spec.used)?))
        }
        None if spec.used.is_some() => {
            return refuse(format!("{path}.use"), "goes with `task`: write it into [[device.open]]");
        }
        None => None,
    };
    if spec.opens.len() > MOST_OPENS {
        return refuse(format!("{path}.open"), format!("has more than {MOST_OPENS} entries"));
    }
    let mut opens: Vec<DeviceOpen> = Vec::with_capacity(spec.opens.len());
    for (position, open) in spec.opens.iter().enumerate() {
        let path = format!("{path}.open.{position}");
        span(&format!("{path}.at"), open.at)?;
        span(&format!("{path}.hold"), open.hold)?;
        if open.hold.is_zero() {
            return refuse(format!("{path}.hold"), "is zero: a device is open for some time");
        }
        let at = Instant::new(open.at.get());
        if opens.last().is_some_and(|last| at < last.until) {
            return refuse(
                format!("{path}.at"),
                "is before the device has closed: it opens once at a time",
            );
        }
        opens.push(DeviceOpen {
            at,
            until: Instant::new(open.at.get().saturating_add(open.hold.get())),
            used: used(&format!("{path}.use"), open.used)?,
        });
    }
    Ok(ScenarioDevice {
        name: spec.name.clone(),
        size,
        trusted: spec.trusted,
        task,
        opens,
    })
}
