//! Every key that there is, once: its type and range, what holds where it is left out, and what it is. The tables of
//! `docs/book/src/scenario.md` are made of this. How a value is used is the reader's and the writer's.

use super::schema::Shape::{Later, Named, Numbered, PerRegion, Table};
use super::schema::Type::{Flag, Number, Size, Text, Time, Whole, Wholes, Word};
use super::schema::{Fields, Key, Unset};

const SHARINGS: &[&str] = &["none", "spc", "spel", "auto"];

pub(crate) const ROOT: Fields = &[
    Key::required("name", Text, "\"…\"", "of the run"),
    Key::required("duration", Time, "\"10s\"", "of the run, at most 10 years"),
    Key::value("seed", Whole("any"), "1", "of everything that is random"),
    Key::below("memory", Table(MEMORY), ""),
    Key::below("machine", Table(MACHINE), ""),
    Key::below(
        "costs",
        Table(COSTS),
        "The simulator's. Defaults are measured, see SPECIFICATION.md.",
    ),
    Key::below(
        "faults",
        Table(FAULTS),
        "Simulator: what the store does wrong. Left out, nothing.",
    ),
    Key::below("region", Named(REGION), ""),
    Key::below("reservation", Named(RESERVATION), ""),
    Key::below(
        "task",
        Named(TASK),
        "A task without a period repeats its job without pause.",
    ),
    Key::below(
        "device",
        Named(SCENARIO_DEVICE),
        "Memory set aside for a device, see above. 1 to 8 of them.",
    ),
    Key::below(
        "transient",
        Table(TRANSIENT),
        "Memory that components share, see above.",
    ),
    Key::below("component", Named(SCENARIO_COMPONENT), "See above. 1 to 48 of them."),
    Key::below("trace", Later, ""),
];

pub(crate) const MEMORY: Fields = &[
    Key::required("pool", Size, "\"64MiB\"", "frames that are managed, at most 256GiB"),
    Key::below("swap", Table(SWAP), "Where evicted pages go, see above."),
];

pub(crate) const SWAP: Fields = &[
    Key::value(
        "store",
        Word(&["memory", "file", "compressed"]),
        "`memory`",
        "memory with the latency of a device, a nameless file in `directory`, or compressed memory",
    ),
    Key::value(
        "latency",
        Time,
        "500us; 60us for `file`, 10us for `compressed`",
        "the time for one page",
    ),
    Key::value(
        "wait",
        Word(&["sleep", "spin"]),
        "`spin` below a latency of 50us, else `sleep`",
        "whether a task waits for the store on its CPU or off it",
    ),
    Key::value("parallel", Whole("1 to 256"), "8", "requests that are served at once"),
    Key::value(
        "read_ahead",
        Whole("a power of two, 1 to 64"),
        "1",
        "pages that tasks without a reservation read back together",
    ),
    Key::value("capacity", Size, "room for every page", "the room for pages"),
    Key::value("directory", Text, "`/var/tmp`", "`file`: where the file is"),
];

pub(crate) const MACHINE: Fields = &[Key::value(
    "cpus",
    Whole("1 to 256"),
    "1",
    "CPUs; live, tasks are kept on so many",
)];

pub(crate) const COSTS: Fields = &[
    Key::value("access", Time, "measured", "an access to a page that is mapped"),
    Key::value("soft_fault", Time, "measured", "a fault on a resident page"),
    Key::value("zero_fill", Time, "measured", "a first touch"),
    Key::value(
        "swap_in",
        Time,
        "measured",
        "bringing a page back, beside the store's latency",
    ),
    Key::value("eviction", Time, "measured", "taking a page away"),
];

pub(crate) const FAULTS: Fields = &[
    Key::value("seed", Whole("any"), "that of the run", "of what goes wrong"),
    Key::value("late", Number("0 to 1"), "0", "the probability that a request is late"),
    Key::value("late_by", Time, "0ns", "by how much then"),
    Key::value("fail", Number("0 to 1"), "0", "the probability that a request fails"),
    Key::value("reorder", Flag, "false", "requests end in any order"),
];

pub(crate) const REGION: Fields = &[
    Key::required(
        "name",
        Text,
        "\"…\"",
        "1 to 64 letters or digits of any script, `_`, `-`, `+` or `:`",
    ),
    Key::value(
        "kind",
        Word(&["shared", "private", "file"]),
        "`shared`",
        "what its pages are",
    ),
    Key::value("size", Size, "that of `copy_of`, else required", "whole pages"),
    Key::value(
        "sharing",
        Word(SHARINGS),
        "`spc`",
        "who pays for shared pages, see above",
    ),
    Key::value(
        "copy_of",
        Text,
        "none",
        "simulator: this is a copy-on-write view of that region of kind `file`",
    ),
];

pub(crate) const RESERVATION: Fields = &[
    Key::required("name", Text, "\"…\"", "as a region's"),
    Key::required("size", Size, "\"11MiB\"", "whole pages"),
    Key::value(
        "type",
        Word(&["hard", "firm"]),
        "`hard`",
        "`firm` may borrow frames that nobody has reserved",
    ),
    Key {
        about: "`{ region = \"spel\" }`: where it differs from the region's",
        unset: Unset::Is("the region's"),
        ..Key::below("sharing", PerRegion, "")
    },
    Key::below("lock", Numbered(LOCK), "Parts of regions that stay resident."),
];

pub(crate) const LOCK: Fields = &[
    Key::required("region", Text, "\"…\"", "the region"),
    Key::value("offset", Size, "0B", "where the part begins, whole pages"),
    Key::required("size", Size, "\"4MiB\"", "how long it is, whole pages"),
];

pub(crate) const TASK: Fields = &[
    Key::required("name", Text, "\"…\"", "as a region's"),
    Key::value(
        "reservation",
        Text,
        "none",
        "which reservation pays; without one, the global lists do",
    ),
    Key::value(
        "pinning",
        Word(&["none", "all", "app", "app-no-budget"]),
        "`none`",
        "without a reservation: see above",
    ),
    Key::below(
        "app",
        Table(APP),
        "For `pinning` `app` and `app-no-budget`: the preset, and what differs from its values.",
    ),
    Key::value(
        "class",
        Word(&["deadline", "fifo", "best-effort"]),
        "`fifo` with a period, else `best-effort`",
        "how it is scheduled",
    ),
    Key::value("priority", Whole("1 to 99"), "rate-monotonic", "`fifo`: its priority"),
    Key::value("period", Time, "none", "from one release to the next"),
    Key::value("budget", Time, "none", "CPU time of a job"),
    Key::value("deadline", Time, "the period", "from a job's release"),
    Key::value("start", Time, "0ns", "when it begins"),
    Key::value("stop", Time, "the end", "when it ends"),
    Key::value("phase", Time, "0ns", "its first release, after its start"),
    Key::value("cpus", Wholes, "all", "CPUs that it may use"),
    Key::value("compute", Time, "0ns", "CPU time of a job, spread between its accesses"),
    Key::below("access", Numbered(ACCESS), "What a job touches, in order."),
    Key::below(
        "call",
        Numbered(TASK_CALL),
        "Components of which a job enters one, with equal chances.",
    ),
    Key::below("command", Later, ""),
];

/// The keys of [`APP`] that every preset has; the others belong to the preset `paper`.
pub(crate) const APP_OF_EVERY_PRESET: &[&str] = &["preset", "lambda"];

pub(crate) const APP: Fields = &[
    Key::value(
        "preset",
        Word(&["freehold", "paper"]),
        "`freehold`",
        "how the pool adapts, see above; all keys below but `lambda` belong to `paper`",
    ),
    Key::value(
        "capacity",
        Size,
        "28000KiB (7000 pages)",
        "initial capacity of the pinned page pool",
    ),
    Key::value(
        "alpha",
        Number("above 0, at most 1"),
        "0.9",
        "a job that met its deadline shrinks the capacity if it ran for less than α of the budget",
    ),
    Key::value("beta", Number("above 0, at most 1"), "0.98", "by this factor"),
    Key::value(
        "gamma",
        Whole("1 to 4294967295"),
        "4",
        "the pool's active list is at most γ times as long as its inactive list",
    ),
    Key::value(
        "lambda",
        Number("above 0, at most 1"),
        "0.8",
        "the factor by which the swap budget falls; of both presets",
    ),
    Key::value(
        "unpinned",
        Word(&["text", "listing"]),
        "`text`; with `restore` `listing`",
        "where unpinned pages go: as the paper's text says (they leave next) or as its listing does (they begin again \
         as inactive ones)",
    ),
    Key::value(
        "memory-share",
        Flag,
        "false",
        "only the memory share of a late job's delay grows the capacity",
    ),
    Key::value(
        "steady",
        Flag,
        "false",
        "shrink in single steps, some jobs apart, where the tightest of them left enough for the swap-ins it may \
         cause; a miss takes them back, and the next step comes much later",
    ),
    Key::value(
        "restore",
        Whole("at most 4294967295"),
        "0",
        "so many pages that the next job is likely to want are brought back before its release, 0 for none",
    ),
];

pub(crate) const ACCESS: Fields = &[
    Key::required("region", Text, "\"…\"", "where"),
    Key::value(
        "pattern",
        Word(&["sequential", "random", "zipf", "window", "trace"]),
        "`sequential`",
        "`sequential` goes on where the last job stopped",
    ),
    Key::value("exponent", Number("above 0, at most 10"), "0.9", "`zipf`: the exponent"),
    Key::required("size", Size, "\"1MiB\"", "`window`: its size"),
    Key::required("shift", Size, "\"64KiB\"", "`window`: how far it moves"),
    Key::value(
        "every",
        Whole("1 to 4294967295"),
        "1",
        "`window`: jobs after which it moves",
    ),
    Key::required(
        "file",
        Text,
        "\"pages.txt\"",
        "`trace`: a page number a line, ` w` behind it for a write, `#` comments",
    ),
    Key::value(
        "amount",
        Size,
        "the whole region; for `window` its size, for `trace` the file",
        "how much a job touches",
    ),
    Key::value(
        "write",
        Flag,
        "false; for `trace` the file says it",
        "whether it writes",
    ),
    Key::below("command", Later, ""),
];

/// A device of a scenario.
pub(crate) const SCENARIO_DEVICE: Fields = &[
    Key::required("name", Text, "\"mfc0\"", "as a region's"),
    Key::required("size", Size, "\"36MiB\"", "what is set aside of `memory.pool`"),
    Key::value(
        "trusted",
        Flag,
        "false",
        "its client may see file data: nothing is zeroed before, nothing retired after",
    ),
    Key::value(
        "task",
        Text,
        "none",
        "each job of this periodic task opens the device, and closes it when it ends",
    ),
    Key::value("use", Size, "all", "how much of it such a job opens"),
    Key::below("open", Numbered(DEVICE_OPEN), "Or the times at which it is opened."),
];

pub(crate) const DEVICE_OPEN: Fields = &[
    Key::required("at", Time, "\"10ms\"", "when it is opened"),
    Key::required("hold", Time, "\"5ms\"", "for how long"),
    Key::value("use", Size, "all", "how much of it"),
];

pub(crate) const TRANSIENT: Fields = &[
    Key::required("limit", Size, "\"1MiB\"", "of all units together, at most the pool"),
    Key::value(
        "policy",
        Word(&["tmem", "min", "max", "static", "fair", "greedy", "demand"]),
        "`tmem`",
        "who gets units",
    ),
    Key::value("period", Time, "250ms", "how often units move"),
    Key::value(
        "inheritance",
        Flag,
        "true",
        "who holds a unit runs with the priority of who waits for it",
    ),
];

pub(crate) const SCENARIO_COMPONENT: Fields = &[
    Key::required("name", Text, "\"files\"", "as a region's"),
    Key::below("stack", Table(UNITS), "Stacks: a call takes one."),
    Key::below("cbuf", Table(UNITS), "Buffers: a call takes one."),
    Key::below(
        "call",
        Numbered(COMPONENT_CALL),
        "Whom it calls; nobody ends the walk of a job.",
    ),
];

pub(crate) const UNITS: Fields = &[
    Key::value("size", Size, "4KiB", "of one, at most 16MiB"),
    Key::value("minimum", Whole("1 to `most`"), "1", "units that are always there"),
    Key::value("most", Whole("1 to 1024"), "32", "units that it may have"),
];

pub(crate) const COMPONENT_CALL: Fields = &[
    Key::required("to", Text, "\"log\"", "a component; calls that lead back are refused"),
    Key::value(
        "chance",
        Number("above 0, at most 1"),
        "alike",
        "its probability; together 1",
    ),
];

pub(crate) const TASK_CALL: Fields = &[Key::required("component", Text, "\"files\"", "the component")];

/// A device file.
pub(crate) const DEVICE_FILE: Fields = &[
    Key::below("region", Table(DEVICE_REGION), ""),
    Key::below("device", Named(DEVICE), ""),
];

pub(crate) const DEVICE_REGION: Fields = &[Key::value(
    "backing",
    Word(&["auto", "huge", "small"]),
    "`auto`",
    "pages that the memory is made of: huge ones where there are some, huge ones, small ones",
)];

pub(crate) const DEVICE: Fields = &[
    Key::required("name", Text, "\"mfc0\"", "1 to 32 of a-z, 0-9, `-` and `_`"),
    Key::required("size", Size, "\"36MiB\"", "whole pages, at most 64GiB"),
    Key::value(
        "trusted",
        Flag,
        "false",
        "whether it may have memory that was not overwritten",
    ),
    Key::value("users", Wholes, "none", "users that may open it, by number"),
];
