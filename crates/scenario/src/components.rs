//! `[transient]`, `[[component]]` and `[[task.call]]`: threads that call from component to component and wait for units
//! of small caches (paper 004).

use crate::document::keys;
use crate::document::section::Section;
use crate::error::Fault;
use crate::model::{Class, Task};
use crate::quantity::format_size;
use crate::resolve::checks::{Lookup, pages, refuse, span};
use crate::spec::{ScenarioSpec, TaskSpec};
use freehold_core::transient::{MOST_COMPONENTS, MOST_THREADS, Policy};
use freehold_core::units::{ByteLen, Duration, FrameCount};

/// Kinds of units: stacks and buffers.
pub const KINDS: [&str; 2] = ["stack", "cbuf"];
/// The most pages of a unit, as in a composition.
const MOST_UNIT: u32 = 4096;
/// The most units of a kind, as in a composition.
const MOST_UNITS: u32 = 1024;
/// How far chances may be from 1 together: rounding.
const ROUNDING: f64 = 1e-6;

/// The policies by name.
pub const POLICIES: [(&str, Policy); 7] = [
    ("tmem", Policy::Tardiness),
    ("min", Policy::Minimum),
    ("max", Policy::Maximum),
    ("static", Policy::Static),
    ("fair", Policy::Fair),
    ("greedy", Policy::Greedy),
    ("demand", Policy::Demand),
];

/// `[transient]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientSpec {
    /// Of all units together.
    pub limit: ByteLen,
    /// Who gets units.
    pub policy: Policy,
    /// From one run of the policy to the next.
    pub period: Duration,
    /// Whether who holds a unit runs with the priority of who waits for it.
    pub inheritance: bool,
}

/// `[[component]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentSpec {
    /// Its name, unique among components.
    pub name: String,
    /// Its stacks, then its buffers.
    pub kinds: [UnitsSpec; 2],
    /// `[[component.call]]`: whom it calls, with what probability.
    pub calls: Vec<(String, Option<f64>)>,
}

/// Units of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitsSpec {
    /// Of one.
    pub size: ByteLen,
    /// Units that are always there.
    pub minimum: u32,
    /// Units that it may have.
    pub most: u32,
}

impl Default for UnitsSpec {
    fn default() -> Self {
        Self {
            size: ByteLen::new(4096),
            minimum: 1,
            most: 32,
        }
    }
}

/// Everything of transient memory, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Transient {
    /// Frames of all units; not below the minima.
    pub limit: FrameCount,
    /// Who gets units.
    pub policy: Policy,
    /// From one run of the policy to the next; not zero.
    pub period: Duration,
    /// Whether who holds a unit runs with the priority of who waits for it.
    pub inheritance: bool,
    /// Calls lead from none back to itself.
    pub components: Vec<Component>,
    /// For each task the components of which each of its jobs enters one.
    pub entries: Vec<Vec<usize>>,
}

/// A component.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Unique among components.
    pub name: String,
    /// Its stacks, then its buffers.
    pub kinds: [Units; 2],
    /// Whom it calls, with what probability; together 1, or nobody.
    pub calls: Vec<(usize, f64)>,
}

/// Units of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Of one; not zero.
    pub frames: FrameCount,
    /// Units that are always there, at least one.
    pub minimum: u32,
    /// Units that it may have, at least the minimum.
    pub most: u32,
}

/// Reads `[transient]`.
pub(crate) fn read_transient(section: &Section<'_>) -> Result<TransientSpec, Fault> {
    Ok(TransientSpec {
        limit: section.required("limit", section.size("limit")?)?,
        policy: section.choice("policy", &POLICIES)?.unwrap_or(Policy::Tardiness),
        period: section.time("period")?.unwrap_or(Duration::from_millis(250)),
        inheritance: section.flag("inheritance")?.unwrap_or(true),
    })
}

/// Reads one `[[component]]`.
pub(crate) fn read(section: &Section<'_>) -> Result<ComponentSpec, Fault> {
    let units = |kind: &str| {
        let mut units = UnitsSpec::default();
        if let Some(section) = section.table(kind, keys::UNITS)? {
            units.size = section.size("size")?.unwrap_or(units.size);
            units.minimum = section.small("minimum")?.unwrap_or(units.minimum);
            units.most = section.small("most")?.unwrap_or(units.most);
        }
        Ok(units)
    };
    let call = |section: &Section<'_>| {
        let to = section.required("to", section.text("to")?)?;
        Ok((to, section.number("chance")?))
    };
    Ok(ComponentSpec {
        name: section.required("name", section.text("name")?)?,
        kinds: [units(KINDS[0])?, units(KINDS[1])?],
        calls: section
            .tables("call", keys::COMPONENT_CALL)?
            .iter()
            .map(call)
            .collect::<Result<_, _>>()?,
    })
}

/// Checks them all; `None` where there are no components. `pool` is what there is for all memory.
pub(crate) fn resolve(spec: &ScenarioSpec, pool: FrameCount, tasks: &[Task]) -> Result<Option<Transient>, Fault> {
    let (Some(written), false) = (&spec.transient, spec.components.is_empty()) else {
        return without(spec);
    };
    alone(spec)?;
    let names = Lookup::new(
        "component",
        spec.components.iter().map(|component| component.name.as_str()),
    )?;
    let all = spec.components.iter().enumerate();
    let components: Vec<Component> = all
        .map(|(position, component)| one(position, component, &names))
        .collect::<Result<_, _>>()?;
    no_circle(&components)?;
    let limit = pages("transient.limit", written.limit, pool.get())?.to_frames();
    let kinds = components.iter().flat_map(|component| component.kinds);
    let minima = kinds.fold(0_u32, |sum, units| {
        sum.saturating_add(units.minimum.saturating_mul(units.frames.get()))
    });
    if minima > limit.get() {
        let needed = format_size(FrameCount::new(minima).to_bytes());
        return refuse(
            "transient.limit",
            format!("is less than the minima, which take {needed}"),
        );
    }
    span("transient.period", written.period)?;
    if written.period.is_zero() {
        return refuse(
            "transient.period",
            "is zero: say how often units move, such as \"250ms\"",
        );
    }
    let entries = spec.tasks.iter().zip(tasks).enumerate();
    Ok(Some(Transient {
        limit,
        policy: written.policy,
        period: written.period,
        inheritance: written.inheritance,
        entries: entries
            .map(|(position, (task, resolved))| entry(position, task, resolved, &names))
            .collect::<Result<_, _>>()?,
        components,
    }))
}

/// Nothing of transient memory: then no part of it stands alone.
fn without(spec: &ScenarioSpec) -> Result<Option<Transient>, Fault> {
    if spec.transient.is_some() {
        return refuse(
            "transient",
            "is for components, and there are none: add [[component]], or remove it",
        );
    }
    if !spec.components.is_empty() {
        return refuse(
            "component",
            "needs [transient], which says how much memory their units have",
        );
    }
    match spec.tasks.iter().position(|task| !task.calls.is_empty()) {
        Some(task) => refuse(format!("task.{task}.call"), "calls a component, and there are none"),
        None => Ok(None),
    }
}

/// Calls and pages are not simulated beside each other: either would be without the other's CPU time.
fn alone(spec: &ScenarioSpec) -> Result<(), Fault> {
    let others = [
        ("region", spec.regions.is_empty()),
        ("reservation", spec.reservations.is_empty()),
        ("device", spec.devices.is_empty()),
    ];
    if let Some((what, _)) = others.iter().find(|(_, empty)| !empty) {
        let message = format!("a scenario has components, or {what}s: they run in scenarios of their own");
        return Err(Fault::new(*what, message).with("component"));
    }
    if spec.cpus != 1 {
        return refuse("machine.cpus", "components run on one CPU: write 1, or leave it out");
    }
    let (components, tasks) = (spec.components.len(), spec.tasks.len());
    if components * KINDS.len() > MOST_COMPONENTS || tasks > MOST_THREADS {
        let most = MOST_COMPONENTS / KINDS.len();
        let message = format!("there are {components}, and {tasks} tasks: at most {most}, and {MOST_THREADS} tasks");
        return refuse("component", message);
    }
    Ok(())
}

fn one(position: usize, spec: &ComponentSpec, names: &Lookup<'_>) -> Result<Component, Fault> {
    let path = format!("component.{position}");
    let mut kinds = [Units {
        frames: FrameCount::ZERO,
        minimum: 0,
        most: 0,
    }; 2];
    for ((kind, written), units) in KINDS.iter().zip(&spec.kinds).zip(&mut kinds) {
        let path = format!("{path}.{kind}");
        if !(1..=MOST_UNITS).contains(&written.most) || !(1..=written.most).contains(&written.minimum) {
            let message = format!("has a `minimum` from 1 to `most`, which is at most {MOST_UNITS}");
            return Err(Fault::new(format!("{path}.minimum"), message).with(format!("{path}.most")));
        }
        *units = Units {
            frames: pages(&format!("{path}.size"), written.size, MOST_UNIT)?.to_frames(),
            minimum: written.minimum,
            most: written.most,
        };
    }
    Ok(Component {
        name: spec.name.clone(),
        kinds,
        calls: calls(&path, spec, names)?,
    })
}

/// Chances that stand must be 1 together; where none does, they are alike.
fn calls(path: &str, spec: &ComponentSpec, names: &Lookup<'_>) -> Result<Vec<(usize, f64)>, Fault> {
    #[allow(clippy::cast_precision_loss, reason = "at most 48 components")]
    let alike = 1.0 / spec.calls.len() as f64;
    let stated = spec.calls.iter().filter(|(_, chance)| chance.is_some()).count();
    let mut calls = Vec::with_capacity(spec.calls.len());
    for (number, (to, chance)) in spec.calls.iter().enumerate() {
        let path = format!("{path}.call.{number}");
        let callee = usize::from(names.find(&format!("{path}.to"), to)?);
        let chance = chance.unwrap_or(alike);
        if stated != 0 && stated != spec.calls.len() || !(0.0..=1.0).contains(&chance) || chance <= 0.0 {
            let message = "is above 0, at most 1, and stands at all calls of a component or at none";
            return refuse(format!("{path}.chance"), message);
        }
        if calls.iter().any(|(other, _)| *other == callee) {
            return refuse(format!("{path}.to"), format!("`{to}` stands twice: add the chances"));
        }
        calls.push((callee, chance));
    }
    let sum: f64 = calls.iter().map(|(_, chance)| chance).sum();
    if !calls.is_empty() && (sum - 1.0).abs() > ROUNDING {
        return refuse(format!("{path}.call"), format!("the chances are {sum} together: 1"));
    }
    Ok(calls)
}

/// A thread that calls in a circle could wait for itself.
fn no_circle(components: &[Component]) -> Result<(), Fault> {
    let mut done = vec![false; components.len()];
    let ready = |done: &[bool], at: usize| !done[at] && components[at].calls.iter().all(|(to, _)| done[*to]);
    while let Some(next) = (0..components.len()).find(|at| ready(&done, *at)) {
        done[next] = true;
    }
    match done.iter().position(|done| !done) {
        Some(at) => refuse(
            format!("component.{at}.call"),
            "leads back to a component that calls it: a call could wait for itself",
        ),
        None => Ok(()),
    }
}

/// What a task calls.
fn entry(position: usize, task: &TaskSpec, resolved: &Task, names: &Lookup<'_>) -> Result<Vec<usize>, Fault> {
    let path = |key: &str| format!("task.{position}.{key}");
    if task.calls.is_empty() {
        return refuse(path("call"), "is missing: beside components, each task calls one");
    }
    if !task.accesses.is_empty() {
        return refuse(
            path("access"),
            "a task calls components or touches regions: remove one of them",
        );
    }
    if task.pinning.is_some() || resolved.class == Class::Deadline {
        return refuse(
            path("class"),
            "a task that calls has class \"fifo\" or \"best-effort\", and no pinning",
        );
    }
    if task.period.is_none() || task.compute.is_zero() {
        return refuse(
            path("period"),
            "a task that calls has a `period`, and `compute`: CPU time of its jobs",
        );
    }
    let find = |(number, name): (usize, &String)| names.find(&path(&format!("call.{number}.component")), name);
    let found = task.calls.iter().enumerate().map(find);
    found.map(|found| found.map(usize::from)).collect()
}
