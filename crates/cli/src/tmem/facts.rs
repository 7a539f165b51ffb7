//! The numbers that a plan is made from: a JSON document.

use freehold_core::transient::{ComponentFacts, Estimates};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the policy is told.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    pub(super) free: u32,
    pub(super) components: Vec<Component>,
    pub(super) threads: Vec<Thread>,
    #[serde(default)]
    pub(super) remembered: Vec<Remembered>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Component {
    pub(super) name: String,
    allocated: u32,
    requested: u32,
    minimum: u32,
    #[serde(default)]
    suspended: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) tardiness_ns: i64,
    #[serde(default)]
    blocked_ns: BTreeMap<String, u64>,
}

/// An impact of an earlier run.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remembered {
    pub(super) thread: String,
    pub(super) component: String,
    pub(super) impact_ns: u64,
}

impl Facts {
    /// The components as the policy takes them.
    pub(super) fn components(&self) -> Vec<ComponentFacts> {
        let components = self.components.iter().map(|component| ComponentFacts {
            allocated: component.allocated,
            requested: component.requested,
            minimum: component.minimum,
            suspended: component.suspended,
            ..ComponentFacts::default()
        });
        components.collect()
    }

    /// The estimates that these facts give.
    ///
    /// # Errors
    /// A name that stands twice or nowhere, or too many of something.
    pub(super) fn estimates(&self) -> Result<Estimates, String> {
        let components = names("component", self.components.iter().map(|component| &component.name))?;
        let threads = names("thread", self.threads.iter().map(|thread| &thread.name))?;
        let mut estimates = Estimates::new(components.len(), threads.len()).map_err(|error| error.to_string())?;
        let mut blocked = vec![0; components.len() * threads.len()];
        for (at, thread) in self.threads.iter().enumerate() {
            for (component, time) in &thread.blocked_ns {
                let place = find("component", &components, component)?;
                blocked[at * components.len() + place] = *time;
            }
        }
        for impact in &self.remembered {
            let thread = find("thread", &threads, &impact.thread)?;
            let component = find("component", &components, &impact.component)?;
            estimates.remember(thread, component, impact.impact_ns);
        }
        let shape = estimates.take_up(&self.components(), &blocked);
        shape.map_err(|error| error.to_string())?;
        Ok(estimates)
    }
}

fn names<'a>(what: &str, all: impl Iterator<Item = &'a String>) -> Result<Vec<&'a str>, String> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if names.contains(&name.as_str()) {
            return Err(format!("{what} `{}` stands twice", name.escape_debug()));
        }
        names.push(name);
    }
    Ok(names)
}

fn find(what: &str, names: &[&str], name: &str) -> Result<usize, String> {
    let place = names.iter().position(|known| *known == name);
    place.ok_or_else(|| format!("there is no {what} `{}`", name.escape_debug()))
}
