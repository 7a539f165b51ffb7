//! The rules of single values: names, sizes, times; and how paths are shown.

use super::MAX_TIME;
use crate::error::Fault;
use crate::quantity::{format_size, format_time};
use crate::spec::ScenarioSpec;
use freehold_core::units::{ByteLen, Duration, PAGE_SIZE, PageCount};
use std::collections::BTreeMap;

pub(crate) fn refuse<T>(path: impl Into<String>, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(path, message))
}

/// A size in whole pages, from 1 to `most`.
pub(crate) fn pages(path: &str, size: ByteLen, most: u32) -> Result<PageCount, Fault> {
    let pages = whole_pages(path, size)?;
    if pages.is_zero() {
        return refuse(path, "is zero: at least one page, 4KiB");
    }
    if pages.get() > most {
        let most = format_size(PageCount::new(most).to_bytes());
        return refuse(path, format!("is {}: at most {most}", format_size(size)));
    }
    Ok(pages)
}

/// A size in whole pages; zero is allowed.
pub(crate) fn whole_pages(path: &str, size: ByteLen) -> Result<PageCount, Fault> {
    let Some(pages) = size.to_pages() else {
        return refuse(
            path,
            format!("is {}: sizes end at 4294967295 pages (16 TiB)", format_size(size)),
        );
    };
    if !size.get().is_multiple_of(PAGE_SIZE) {
        let up = format_size(pages.to_bytes());
        return refuse(
            path,
            format!("is {}: must be a multiple of 4KiB, such as {up}", format_size(size)),
        );
    }
    Ok(pages)
}

/// A time within [`MAX_TIME`].
pub(crate) fn span(path: &str, time: Duration) -> Result<(), Fault> {
    if time > MAX_TIME {
        return refuse(path, format!("is {}: times end at 10 years", format_time(time)));
    }
    Ok(())
}

/// Checks the names of one kind of entry and finds them again.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    what: &'static str,
    positions: BTreeMap<&'a str, u16>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<Self, Fault> {
        let mut positions = BTreeMap::new();
        for (position, name) in (0_u16..).zip(names) {
            let path = format!("{what}.{position}.name");
            let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | ':');
            if name.is_empty() || name.chars().count() > 64 || !name.chars().all(legal) {
                let rule = "must be 1 to 64 letters, digits, `_`, `-`, `+` or `:`";
                return refuse(path, format!("`{}` {rule}", name.escape_debug()));
            }
            if let Some(first) = positions.insert(name, position) {
                let message = format!(
                    "the name `{name}` is taken by {what} number {}: give it another",
                    first + 1
                );
                return Err(Fault::new(path, message).with(format!("{what}.{first}.name")));
            }
        }
        Ok(Self { what, positions })
    }

    /// The position of `name`, which `path` refers to.
    pub(crate) fn find(&self, path: &str, name: &str) -> Result<u16, Fault> {
        self.positions.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.positions.keys().copied().collect();
            let known = if known.is_empty() {
                "there are none".to_owned()
            } else {
                format!("there is {}", known.join(", "))
            };
            Fault::new(
                path,
                format!("there is no {} named `{}`: {known}", self.what, name.escape_debug()),
            )
        })
    }
}

/// The names of a scenario's entries, to show `task.0.period` as `task.tau1.period`.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entries: BTreeMap<&'static str, Vec<String>>,
}

impl Names {
    pub(crate) fn of(spec: &ScenarioSpec) -> Self {
        let regions = spec.regions.iter().map(|region| region.name.clone()).collect();
        let reservations = spec
            .reservations
            .iter()
            .map(|reservation| reservation.name.clone())
            .collect();
        let tasks = spec.tasks.iter().map(|task| task.name.clone()).collect();
        let devices = spec.devices.iter().map(|device| device.name.clone()).collect();
        let components = spec.components.iter().map(|component| component.name.clone()).collect();
        Self {
            entries: BTreeMap::from([
                ("region", regions),
                ("reservation", reservations),
                ("task", tasks),
                ("device", devices),
                ("component", components),
            ]),
        }
    }

    /// Adds the name of the next entry of `kind`.
    pub(crate) fn push(&mut self, kind: &'static str, name: String) {
        self.entries.entry(kind).or_default().push(name);
    }

    pub(crate) fn key(&self, path: &str) -> String {
        let mut parts: Vec<&str> = path.split('.').collect();
        if let [kind, position, ..] = parts[..]
            && let Some(names) = self.entries.get(kind)
            && let Some(name) = position.parse::<usize>().ok().and_then(|position| names.get(position))
            && !name.is_empty()
        {
            parts[1] = name;
        }
        parts.join(".")
    }
}
