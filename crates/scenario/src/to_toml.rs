//! A scenario back as TOML text.

use crate::components::{ComponentSpec, KINDS, POLICIES, TransientSpec};
use crate::model::{Costs, Faults, Pattern, RegionKind, ReservationKind, Scenario, Sharing};
use crate::pinning::{AppSpec, Preset};
use crate::quantity::{format_size, format_time};
use crate::scenario_devices::DeviceSpec;
use crate::spec::{AccessSpec, ClassSpec, MemorySpec, RegionSpec, ReservationSpec, ScenarioSpec, TaskSpec};
use freehold_core::units::Duration;
use std::fmt::{Display, Write};

impl Scenario {
    /// The scenario as a file that reads back as the same scenario. Overrides are part of it; comments are lost.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.spec().to_toml()
    }
}

impl ScenarioSpec {
    /// The scenario as a file. What reads back is equal, if it is legal; a trace is written as its file's name.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = Text::default();
        out.key("name", quoted(&self.name));
        out.key("duration", time(self.duration));
        out.key("seed", self.seed);
        out.memory(&self.memory);
        out.head("[machine]");
        out.key("cpus", self.cpus);
        out.costs(&self.costs);
        if let Some(faults) = &self.faults {
            out.faults(faults);
        }
        self.regions.iter().for_each(|region| out.region(region));
        self.reservations
            .iter()
            .for_each(|reservation| out.reservation(reservation));
        self.tasks.iter().for_each(|task| out.task(task));
        self.devices.iter().for_each(|device| out.device(device));
        self.transient.iter().for_each(|transient| out.transient(transient));
        self.components.iter().for_each(|component| out.component(component));
        out.0
    }
}

/// Lines of TOML in the making. Writing to a `String` cannot fail, so results of `write!` are dropped.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, head: &str) {
        let _ = writeln!(self.0, "\n{head}");
    }

    fn key(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn key_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.key(key, value);
        }
    }

    fn memory(&mut self, memory: &MemorySpec) {
        self.head("[memory]");
        self.key("pool", quoted(&format_size(memory.pool)));
        let capacity = memory
            .capacity
            .map(|size| format!(", capacity = {}", quoted(&format_size(size))));
        let directory = memory.directory.as_deref().map(quoted);
        let directory = directory.map(|directory| format!(", directory = {directory}"));
        let wait = memory.wait.map(|wait| format!(", wait = {}", quoted(wait.name())));
        let (store, latency, parallel) = (quoted(memory.store.name()), time(memory.latency), memory.parallel);
        let latency = format!("{latency}{}", wait.unwrap_or_default());
        let read_ahead = (memory.read_ahead > 1).then(|| format!(", read_ahead = {}", memory.read_ahead));
        let capacity = format!("{}{}", read_ahead.unwrap_or_default(), capacity.unwrap_or_default());
        let directory = directory.unwrap_or_default();
        self.key(
            "swap",
            format!("{{ store = {store}, latency = {latency}, parallel = {parallel}{capacity}{directory} }}"),
        );
    }

    fn costs(&mut self, costs: &Costs) {
        self.head("[costs]");
        self.key("access", time(costs.access));
        self.key("soft_fault", time(costs.soft_fault));
        self.key("zero_fill", time(costs.zero_fill));
        self.key("swap_in", time(costs.swap_in));
        self.key("eviction", time(costs.eviction));
    }

    fn faults(&mut self, faults: &Faults) {
        self.head("[faults]");
        self.key_if("seed", faults.seed);
        self.key("late", float(faults.late));
        self.key("late_by", time(faults.late_by));
        self.key("fail", float(faults.fail));
        self.key("reorder", faults.reorder);
    }

    fn region(&mut self, region: &RegionSpec) {
        self.head("[[region]]");
        self.key("name", quoted(&region.name));
        let kind = match region.kind {
            RegionKind::Shared => "shared",
            RegionKind::Private => "private",
            RegionKind::File => "file",
        };
        self.key("kind", quoted(kind));
        self.key_if("size", region.size.map(|size| quoted(&format_size(size))));
        self.key("sharing", quoted(region.sharing.name()));
        self.key_if("copy_of", region.copy_of.as_deref().map(quoted));
    }

    fn reservation(&mut self, reservation: &ReservationSpec) {
        self.head("[[reservation]]");
        self.key("name", quoted(&reservation.name));
        self.key("size", quoted(&format_size(reservation.size)));
        let kind = match reservation.kind {
            ReservationKind::Hard => "hard",
            ReservationKind::Firm => "firm",
        };
        self.key("type", quoted(kind));
        if !reservation.sharing.is_empty() {
            let entry = |(region, how): &(String, Sharing)| format!("{} = {}", quoted(region), quoted(how.name()));
            let entries: Vec<String> = reservation.sharing.iter().map(entry).collect();
            self.key("sharing", format!("{{ {} }}", entries.join(", ")));
        }
        for lock in &reservation.locks {
            self.head("[[reservation.lock]]");
            self.key("region", quoted(&lock.region));
            self.key("offset", quoted(&format_size(lock.offset)));
            self.key("size", quoted(&format_size(lock.size)));
        }
    }

    fn task(&mut self, task: &TaskSpec) {
        self.head("[[task]]");
        self.key("name", quoted(&task.name));
        self.key_if("reservation", task.reservation.as_deref().map(quoted));
        self.key_if("pinning", task.pinning.map(|pinning| quoted(pinning.name())));
        let (class, priority) = match task.class {
            None => (None, None),
            Some(ClassSpec::Deadline) => (Some("deadline"), None),
            Some(ClassSpec::Fifo(priority)) => (Some("fifo"), priority),
            Some(ClassSpec::BestEffort) => (Some("best-effort"), None),
        };
        self.key_if("class", class.map(quoted));
        self.key_if("priority", priority);
        self.key_if("period", task.period.map(time));
        self.key_if("budget", task.budget.map(time));
        self.key_if("deadline", task.deadline.map(time));
        self.key("start", time(task.start));
        self.key_if("stop", task.stop.map(time));
        self.key("phase", time(task.phase));
        self.key_if("cpus", task.cpus.as_ref().map(|cpus| format!("{cpus:?}")));
        self.key("compute", time(task.compute));
        if let Some(app) = &task.app {
            self.app(app);
        }
        task.accesses.iter().for_each(|access| self.access(access));
        for component in &task.calls {
            self.head("[[task.call]]");
            self.key("component", quoted(component));
        }
    }

    fn device(&mut self, device: &DeviceSpec) {
        self.head("[[device]]");
        self.key("name", quoted(&device.name));
        self.key("size", quoted(&format_size(device.size)));
        self.key("trusted", device.trusted);
        self.key_if("task", device.task.as_deref().map(quoted));
        self.key_if("use", device.used.map(|used| quoted(&format_size(used))));
        for open in &device.opens {
            self.head("[[device.open]]");
            self.key("at", time(open.at));
            self.key("hold", time(open.hold));
            self.key_if("use", open.used.map(|used| quoted(&format_size(used))));
        }
    }

    fn transient(&mut self, transient: &TransientSpec) {
        self.head("[transient]");
        self.key("limit", quoted(&format_size(transient.limit)));
        let named = POLICIES.iter().find(|(_, policy)| *policy == transient.policy);
        self.key_if("policy", named.map(|(name, _)| quoted(name)));
        self.key("period", time(transient.period));
        self.key("inheritance", transient.inheritance);
    }

    fn component(&mut self, component: &ComponentSpec) {
        self.head("[[component]]");
        self.key("name", quoted(&component.name));
        for (kind, units) in KINDS.iter().zip(&component.kinds) {
            let size = quoted(&format_size(units.size));
            let (minimum, most) = (units.minimum, units.most);
            self.key(kind, format!("{{ size = {size}, minimum = {minimum}, most = {most} }}"));
        }
        for (to, chance) in &component.calls {
            self.head("[[component.call]]");
            self.key("to", quoted(to));
            self.key_if("chance", chance.map(float));
        }
    }

    fn app(&mut self, app: &AppSpec) {
        self.head("[task.app]");
        self.key("preset", quoted(app.preset.name()));
        self.key("lambda", float(app.lambda));
        if app.preset == Preset::Freehold {
            return;
        }
        self.key("capacity", quoted(&format_size(app.capacity)));
        self.key("alpha", float(app.alpha));
        self.key("beta", float(app.beta));
        self.key("gamma", app.gamma);
        self.key("unpinned", quoted(app.unpinned.name()));
        self.key("memory-share", app.memory_share);
        self.key("steady", app.steady);
        self.key("restore", app.restore);
    }

    fn access(&mut self, access: &AccessSpec) {
        self.head("[[task.access]]");
        self.key("region", quoted(&access.region));
        match &access.pattern {
            Pattern::Sequential => self.key("pattern", quoted("sequential")),
            Pattern::Random => self.key("pattern", quoted("random")),
            Pattern::Zipf { exponent } => {
                self.key("pattern", quoted("zipf"));
                self.key("exponent", float(*exponent));
            }
            Pattern::Window { size, shift, every } => {
                self.key("pattern", quoted("window"));
                self.key("size", quoted(&format_size(*size)));
                self.key("shift", quoted(&format_size(*shift)));
                self.key("every", every);
            }
            Pattern::Trace { file, .. } => {
                self.key("pattern", quoted("trace"));
                self.key("file", quoted(file));
            }
        }
        self.key_if("amount", access.amount.map(|amount| quoted(&format_size(amount))));
        self.key("write", access.write);
    }
}

fn time(time: Duration) -> String {
    quoted(&format_time(time))
}

/// A float as TOML writes it: always with a point.
fn float(number: f64) -> String {
    toml::Value::Float(number).to_string()
}

/// A string as TOML writes it on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
