//! From the document to a [`ScenarioSpec`]: every key's own form.

use super::keys::{
    ACCESS, APP, APP_OF_EVERY_PRESET, COSTS, FAULTS, LOCK, MACHINE, MEMORY, REGION, RESERVATION, ROOT,
    SCENARIO_COMPONENT, SCENARIO_DEVICE, SWAP, TASK, TASK_CALL, TRANSIENT,
};
use super::section::Section;
use super::trace::Traces;
use super::tree::{Node, Value};
use crate::components;
use crate::error::Fault;
use crate::model::{Costs, Faults, Pattern, RegionKind, ReservationKind, Sharing, StoreKind};
use crate::pinning::{AppSpec, Pinning, Preset, Unpinned};
use crate::scenario_devices;
use crate::spec::{AccessSpec, ClassSpec, LockSpec, MemorySpec, RegionSpec, ReservationSpec, ScenarioSpec, TaskSpec};
use crate::wait::StoreWait;
use freehold_core::units::Duration;

const SHARING: [Sharing; 4] = [Sharing::None, Sharing::Spc, Sharing::Spel, Sharing::Auto];

/// Reads a whole document. Trace files come from `traces`.
pub(super) fn scenario(table: &[(String, Node)], traces: &Traces<'_>) -> Result<ScenarioSpec, Fault> {
    let root = Section::new(String::new(), table, ROOT)?;
    let name = root.required("name", root.text("name")?)?;
    let duration = root.required("duration", root.time("duration")?)?;
    let memory = root.table("memory", MEMORY)?;
    let memory = memory.ok_or_else(|| root.missing("memory.pool", "\"64MiB\""))?;
    let pool = memory.required("pool", memory.size("pool")?)?;
    let mut spec = ScenarioSpec::new(name, duration, pool);
    spec.seed = root.integer("seed")?.unwrap_or(spec.seed);
    if let Some(swap) = memory.table("swap", SWAP)? {
        store(&swap, &mut spec.memory)?;
    }
    if let Some(machine) = root.table("machine", MACHINE)? {
        spec.cpus = machine.small("cpus")?.unwrap_or(spec.cpus);
    }
    if let Some(section) = root.table("costs", COSTS)? {
        costs(&section, &mut spec.costs)?;
    }
    spec.faults = root
        .table("faults", FAULTS)?
        .map(|section| faults(&section))
        .transpose()?;
    spec.regions = root
        .tables("region", REGION)?
        .iter()
        .map(region)
        .collect::<Result<_, _>>()?;
    spec.reservations = root
        .tables("reservation", RESERVATION)?
        .iter()
        .map(reservation)
        .collect::<Result<_, _>>()?;
    let tasks = root.tables("task", TASK)?;
    spec.tasks = tasks
        .iter()
        .map(|section| task(section, traces))
        .collect::<Result<_, _>>()?;
    spec.devices = root
        .tables("device", SCENARIO_DEVICE)?
        .iter()
        .map(scenario_devices::read)
        .collect::<Result<_, _>>()?;
    spec.transient = root
        .table("transient", TRANSIENT)?
        .map(|section| components::read_transient(&section))
        .transpose()?;
    spec.components = root
        .tables("component", SCENARIO_COMPONENT)?
        .iter()
        .map(components::read)
        .collect::<Result<_, _>>()?;
    Ok(spec)
}

fn store(swap: &Section<'_>, memory: &mut MemorySpec) -> Result<(), Fault> {
    let kinds = [StoreKind::Memory, StoreKind::File, StoreKind::Compressed].map(|kind| (kind.name(), kind));
    memory.store = swap.choice("store", &kinds)?.unwrap_or_default();
    memory.latency = swap.time("latency")?.unwrap_or(memory.store.default_latency());
    let waits = [StoreWait::Sleep, StoreWait::Spin].map(|wait| (wait.name(), wait));
    memory.wait = swap.choice("wait", &waits)?;
    memory.parallel = swap.small("parallel")?.unwrap_or(memory.parallel);
    memory.read_ahead = swap.small("read_ahead")?.unwrap_or(memory.read_ahead);
    memory.capacity = swap.size("capacity")?;
    memory.directory = swap.text("directory")?;
    Ok(())
}

fn costs(section: &Section<'_>, costs: &mut Costs) -> Result<(), Fault> {
    costs.access = section.time("access")?.unwrap_or(costs.access);
    costs.soft_fault = section.time("soft_fault")?.unwrap_or(costs.soft_fault);
    costs.zero_fill = section.time("zero_fill")?.unwrap_or(costs.zero_fill);
    costs.swap_in = section.time("swap_in")?.unwrap_or(costs.swap_in);
    costs.eviction = section.time("eviction")?.unwrap_or(costs.eviction);
    Ok(())
}

fn faults(section: &Section<'_>) -> Result<Faults, Fault> {
    Ok(Faults {
        seed: section.integer("seed")?,
        late: section.number("late")?.unwrap_or(0.0),
        late_by: section.time("late_by")?.unwrap_or(Duration::ZERO),
        fail: section.number("fail")?.unwrap_or(0.0),
        reorder: section.flag("reorder")?.unwrap_or(false),
    })
}

fn region(section: &Section<'_>) -> Result<RegionSpec, Fault> {
    let kinds = [
        ("shared", RegionKind::Shared),
        ("private", RegionKind::Private),
        ("file", RegionKind::File),
    ];
    let words = SHARING.map(|sharing| (sharing.name(), sharing));
    Ok(RegionSpec {
        name: section.required("name", section.text("name")?)?,
        kind: section.choice("kind", &kinds)?.unwrap_or(RegionKind::Shared),
        size: section.size("size")?,
        sharing: section.choice("sharing", &words)?.unwrap_or(Sharing::Spc),
        copy_of: section.text("copy_of")?,
    })
}

fn reservation(section: &Section<'_>) -> Result<ReservationSpec, Fault> {
    let kinds = [("hard", ReservationKind::Hard), ("firm", ReservationKind::Firm)];
    let locks = section.tables("lock", LOCK)?;
    Ok(ReservationSpec {
        name: section.required("name", section.text("name")?)?,
        size: section.required("size", section.size("size")?)?,
        kind: section.choice("type", &kinds)?.unwrap_or(ReservationKind::Hard),
        sharing: overrides(section)?,
        locks: locks.iter().map(lock).collect::<Result<_, _>>()?,
    })
}

/// `sharing = { region = "spel" }`: a plain word here is a common slip, so it gets its own message.
fn overrides(section: &Section<'_>) -> Result<Vec<(String, Sharing)>, Fault> {
    let Ok(entries) = section.entries("sharing") else {
        let message =
            "must be a table of regions, such as `{ shm = \"spel\" }`; a region's default stands in [[region]]";
        return Err(section.fault("sharing", message));
    };
    let path = section.path("sharing");
    let entry = |(region, node): &(String, Node)| {
        let path = format!("{path}.{region}");
        let Value::Text(word) = &node.value else {
            return Err(Fault::new(
                path,
                format!("must be \"none\", \"spc\" or \"spel\", not {}", node.value.kind()),
            ));
        };
        match SHARING.iter().find(|known| known.name() == word) {
            Some(sharing) => Ok((region.clone(), *sharing)),
            None => Err(Fault::new(
                path,
                format!("`{}` is unknown: use \"spc\" or \"spel\"", word.escape_debug()),
            )),
        }
    };
    entries.unwrap_or_default().iter().map(entry).collect()
}

fn lock(section: &Section<'_>) -> Result<LockSpec, Fault> {
    Ok(LockSpec {
        region: section.required("region", section.text("region")?)?,
        offset: section.size("offset")?.unwrap_or_default(),
        size: section.required("size", section.size("size")?)?,
    })
}

fn task(section: &Section<'_>, traces: &Traces<'_>) -> Result<TaskSpec, Fault> {
    let words = Pinning::ALL.map(|pinning| (pinning.name(), pinning));
    let accesses = section.tables("access", ACCESS)?;
    let calls = section.tables("call", TASK_CALL)?;
    Ok(TaskSpec {
        name: section.required("name", section.text("name")?)?,
        reservation: section.text("reservation")?,
        pinning: section.choice("pinning", &words)?,
        app: section.table("app", APP)?.map(|section| app(&section)).transpose()?,
        class: class(section)?,
        period: section.time("period")?,
        budget: section.time("budget")?,
        deadline: section.time("deadline")?,
        start: section.time("start")?.unwrap_or_default(),
        stop: section.time("stop")?,
        phase: section.time("phase")?.unwrap_or_default(),
        cpus: section.integers("cpus")?,
        compute: section.time("compute")?.unwrap_or_default(),
        accesses: accesses
            .iter()
            .map(|access| self::access(access, traces))
            .collect::<Result<_, _>>()?,
        calls: calls
            .iter()
            .map(|call| call.required("component", call.text("component")?))
            .collect::<Result<_, _>>()?,
    })
}

fn app(section: &Section<'_>) -> Result<AppSpec, Fault> {
    let presets = Preset::ALL.map(|preset| (preset.name(), preset));
    let words = [Unpinned::Text, Unpinned::Listing].map(|place| (place.name(), place));
    let preset = section.choice("preset", &presets)?.unwrap_or_default();
    let default = AppSpec {
        preset,
        ..AppSpec::default()
    };
    if preset == Preset::Freehold {
        section.refuse_others(
            APP_OF_EVERY_PRESET,
            "belongs to preset \"paper\": state that, or leave it out",
        )?;
        let lambda = section.number("lambda")?.unwrap_or(default.lambda);
        return Ok(AppSpec { lambda, ..default });
    }
    let restore = section.small("restore")?.unwrap_or(default.restore);
    Ok(AppSpec {
        preset,
        capacity: section.size("capacity")?.unwrap_or(default.capacity),
        alpha: section.number("alpha")?.unwrap_or(default.alpha),
        beta: section.number("beta")?.unwrap_or(default.beta),
        gamma: section.small("gamma")?.unwrap_or(default.gamma),
        lambda: section.number("lambda")?.unwrap_or(default.lambda),
        unpinned: section.choice("unpinned", &words)?.unwrap_or(Unpinned::beside(restore)),
        memory_share: section.flag("memory-share")?.unwrap_or(default.memory_share),
        steady: section.flag("steady")?.unwrap_or(default.steady),
        restore,
    })
}

fn class(section: &Section<'_>) -> Result<Option<ClassSpec>, Fault> {
    let priority = section.small::<u8>("priority")?;
    let words = [
        ("deadline", ClassSpec::Deadline),
        ("fifo", ClassSpec::Fifo(priority)),
        ("best-effort", ClassSpec::BestEffort),
    ];
    let class = section.choice("class", &words)?;
    match (class, priority) {
        (Some(ClassSpec::Deadline | ClassSpec::BestEffort), Some(_)) => {
            Err(section.fault("priority", "belongs to class \"fifo\": remove it, or change the class"))
        }
        (None, Some(priority)) => Ok(Some(ClassSpec::Fifo(Some(priority)))),
        (class, _) => Ok(class),
    }
}

/// The patterns' words, for choosing before their keys are read.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    Sequential,
    Random,
    Zipf,
    Window,
    Trace,
}

fn access(section: &Section<'_>, traces: &Traces<'_>) -> Result<AccessSpec, Fault> {
    let words = [
        ("sequential", Word::Sequential),
        ("random", Word::Random),
        ("zipf", Word::Zipf),
        ("window", Word::Window),
        ("trace", Word::Trace),
    ];
    let word = section.choice("pattern", &words)?.unwrap_or(Word::Sequential);
    let owners = [
        ("exponent", Word::Zipf, "zipf"),
        ("size", Word::Window, "window"),
        ("shift", Word::Window, "window"),
        ("every", Word::Window, "window"),
        ("file", Word::Trace, "trace"),
    ];
    for (key, owner, name) in owners {
        if section.has(key) && owner != word {
            return Err(section.fault(
                key,
                format!("belongs to pattern \"{name}\": remove it, or change the pattern"),
            ));
        }
    }
    Ok(AccessSpec {
        region: section.required("region", section.text("region")?)?,
        pattern: pattern(word, section, traces)?,
        amount: section.size("amount")?,
        write: section.flag("write")?.unwrap_or(false),
    })
}

fn pattern(word: Word, section: &Section<'_>, traces: &Traces<'_>) -> Result<Pattern, Fault> {
    Ok(match word {
        Word::Sequential => Pattern::Sequential,
        Word::Random => Pattern::Random,
        Word::Zipf => Pattern::Zipf {
            exponent: section.number("exponent")?.unwrap_or(0.9),
        },
        Word::Window => Pattern::Window {
            size: section.required("size", section.size("size")?)?,
            shift: section.required("shift", section.size("shift")?)?,
            every: section.small("every")?.unwrap_or(1),
        },
        Word::Trace => {
            let file = section.required("file", section.text("file")?)?;
            let entries = traces.load(&file).map_err(|message| section.fault("file", message))?;
            Pattern::Trace { file, entries }
        }
    })
}
