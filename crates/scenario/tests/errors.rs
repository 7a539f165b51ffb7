//! Every way a scenario can be wrong: the message names file, line and key and says what to do.

mod common;

use common::{BASE, replaced};
use freehold_scenario::{Document, Scenario, Unpinned};

fn refused(text: &str) -> String {
    match Scenario::parse(text, "s.toml") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Each line of the list.
#[test]
fn one_text_replaced() {
    let cases: Vec<&str> = include_str!("errors.txt")
        .lines()
        .filter(|line| line.contains(" | "))
        .collect();
    assert!(cases.len() > 100, "{}", cases.len());
    for case in cases {
        let [from, to, head, part] = case.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{case}")
        };
        let message = refused(&replaced(&from.replace("\\n", "\n"), &to.replace("\\n", "\n")));
        assert!(
            message.starts_with(&format!("s.toml:{head}: ")),
            "{case}\n  gave {message}"
        );
        assert!(message.contains(part), "{case}\n  gave {message}");
    }
}

#[test]
fn the_base_is_legal_and_quiet() {
    assert!(Scenario::parse(BASE, "s.toml").unwrap().warnings.is_empty());
}

#[test]
fn later_tables() {
    let message = refused(&format!("{BASE}[[trace]]\nname = \"x\"\n"));
    assert!(
        message.starts_with("s.toml:28: ") && message.contains("`trace` is not in this version"),
        "{message}"
    );
}

#[test]
fn more_references() {
    let lock = |range: &str| format!("lock = [{{ region = \"shm\", {range} }}]");
    let none = replaced("sharing = \"spc\"", "sharing = \"none\"");
    let from_none = none.replace("type = \"hard\"", "sharing = { shm = \"spc\" }");
    assert!(refused(&from_none).contains("s.toml:15: reservation.r1.sharing.shm: region `shm` has sharing \"none\""));
    let locked = none.replace("type = \"hard\"", &lock("size = \"4KiB\""));
    assert!(refused(&locked).contains("nothing of it can be locked"));
    let twice = format!("{BASE}[[region]]\nname = \"shm\"\nsize = \"4KiB\"\n");
    assert!(refused(&twice).starts_with("s.toml:29: region.shm.name: the name `shm` is taken"));
    let big = format!("{BASE}[[reservation]]\nname = \"r2\"\nsize = \"60MiB\"\n");
    let message = refused(&big);
    assert!(
        message.starts_with("s.toml:30: reservation.r2.size: ") && message.contains("of a pool of 16384"),
        "{message}"
    );
}

#[test]
fn copies() {
    let copy = |text: &str| {
        format!("{BASE}[[region]]\nname = \"f\"\nkind = \"file\"\nsize = \"40KiB\"\n[[region]]\nname = \"c\"\n{text}")
    };
    let ok = copy("kind = \"private\"\ncopy_of = \"f\"\n");
    assert_eq!(Scenario::parse(&ok, "s.toml").unwrap().regions[2].pages.get(), 10);
    let message = refused(&copy("kind = \"private\"\ncopy_of = \"f\"\nsize = \"44KiB\"\n"));
    assert!(
        message.starts_with("s.toml:36: region.c.size: a copy has the size"),
        "{message}"
    );
    assert!(refused(&copy("kind = \"private\"\ncopy_of = \"shm\"\n")).contains("`shm` is not of kind \"file\""));
    assert!(refused(&copy("kind = \"private\"\n")).contains("region.c.size: is missing"));
    let written = ok
        .replace("region = \"shm\"", "region = \"c\"")
        .replace("write = false", "write = true");
    let locked = written.replace("type = \"hard\"", "lock = [{ region = \"c\", size = \"4KiB\" }]");
    assert!(refused(&locked).contains("copy-on-write view that a task writes"));
}

#[test]
fn overrides_take_the_blame() {
    let cases = [
        ("memory.pool=3MB", "memory.pool", "unknown unit"),
        (
            "task.tau1.period=50ms",
            "task.tau1.deadline",
            "longer than the period of 50ms",
        ),
        ("task.tau1.period=0s", "task.tau1.period", "is zero"),
        ("task.tau1.access.0.amount=0B", "task.tau1.access.0.amount", "is zero"),
        ("region.shm.sharing=both", "region.shm.sharing", "is unknown"),
        ("machine.cpus=0", "machine.cpus", "1 to 256"),
        ("costs.access=0ns", "costs.access", "is zero"),
        ("memory.pool=8MiB", "reservation.r1.size", "more than the pool"),
    ];
    for (set, key, part) in cases {
        let mut document = Document::parse(BASE, "s.toml").unwrap();
        document.apply_set(set).unwrap();
        let message = document.scenario().unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("--set {set}: {key}: ")),
            "{set}: {message}"
        );
        assert!(message.contains(part), "{set}: {message}");
    }
}

#[test]
fn unknown_addresses_list_what_there_is() {
    let cases = [
        ("memory", "no `=`"),
        ("mem.pool=1MiB", "there is name, duration, seed"),
        ("memory.pole=1MiB", "there is pool, swap"),
        ("memory=1", "below it there is pool, swap"),
        ("task.tau2.period=1s", "there is no task `tau2`: there is tau1"),
        ("task.tau1.perod=1s", "there is name, reservation, pinning"),
        ("task.tau1.access.1.amount=1MiB", "there is no access `1`: there is 0"),
        ("task.tau1=1", "the address goes on"),
        ("task=1", "the address goes on: below it there is tau1"),
        ("seed.x=1", "nothing is below it"),
        ("reservation.r1.sharing=spel", "the name of a region"),
        ("reservation.r1.lock.0.size=4KiB", "there is none"),
        ("trace.x=1", "not in this version"),
        ("=1", "there is no key ``"),
    ];
    for (set, part) in cases {
        let message = Document::parse(BASE, "s.toml")
            .unwrap()
            .apply_set(set)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with(&format!("--set {set}: ")) && message.contains(part),
            "{set}: {message}"
        );
    }
}

#[test]
fn overrides_apply() {
    let sets = [
        "name=\"other\"",
        "duration=2s",
        "seed=7",
        "memory.pool=32MiB",
        "memory.swap.latency=1ms",
        "memory.swap.capacity=1MiB",
        "machine.cpus=2",
        "costs.swap_in=9us",
        "faults.fail=0.25",
        "region.shm.size=8MiB",
        "reservation.r1.size=9MiB",
        "reservation.r1.sharing.shm=spel",
        "task.tau1.period=200ms",
        "task.tau1.cpus=[1]",
        "task.tau1.access.0.amount=4KiB",
        "task.tau1.access.0.write=true",
    ];
    let mut document = Document::parse(BASE, "s.toml").unwrap();
    sets.iter().for_each(|set| document.apply_set(set).unwrap());
    let scenario = document.scenario().unwrap();
    assert_eq!(
        (scenario.name.as_str(), scenario.seed, scenario.pool.get()),
        ("other", 7, 8192)
    );
    assert_eq!(
        (scenario.regions[0].pages.get(), scenario.reservations[0].locked().get()),
        (2048, 2048)
    );
    assert_eq!(scenario.faults.map(|faults| faults.fail), Some(0.25));
    let task = &scenario.tasks[0];
    assert_eq!(
        (task.cpus.as_slice(), task.accesses[0].count, task.accesses[0].write),
        (&[1][..], 1, true)
    );
    assert_eq!(Scenario::parse(&scenario.to_toml(), "t.toml").unwrap(), scenario);
}

#[test]
fn where_pages_are_restored_unpinned_ones_go_as_the_listing_says() {
    let unpinned = |app: &str| {
        let text = replaced(
            "reservation = \"r1\"",
            &format!("pinning = \"app\"\napp = {{ preset = \"paper\"{app} }}"),
        );
        let scenario = Scenario::parse(&text, "s.toml").unwrap_or_else(|error| panic!("{app}: {error}"));
        scenario.tasks[0].app.map(|app| app.unpinned)
    };
    assert_eq!(unpinned(""), Some(Unpinned::Text));
    assert_eq!(unpinned(", restore = 0"), Some(Unpinned::Text));
    assert_eq!(unpinned(", restore = 9"), Some(Unpinned::Listing));
    assert_eq!(unpinned(", restore = 9, unpinned = \"text\""), Some(Unpinned::Text));
    assert_eq!(unpinned(", unpinned = \"listing\""), Some(Unpinned::Listing));
}

#[test]
fn stores_have_their_own_defaults() {
    let store = |text: &str| Scenario::parse(&replaced("store = \"memory\", latency = \"500us\"", text), "s.toml");
    let found = |text: &str| store(text).map(|scenario| scenario.store).unwrap();
    let seen = |text: &str| {
        let store = found(text);
        let directory = store.directory.to_str().unwrap().to_owned();
        (
            store.kind.name(),
            store.latency.get() / 1_000,
            store.parallel,
            directory,
        )
    };
    let usual = || "/var/tmp".to_owned();
    assert_eq!(seen("parallel = 4"), ("memory", 500, 4, usual()));
    assert_eq!(seen("store = \"file\""), ("file", 60, 8, usual()));
    assert_eq!(seen("store = \"compressed\""), ("compressed", 10, 8, usual()));
    let own = "store = \"file\", directory = \"/srv/swap\", latency = \"2ms\"";
    assert_eq!(seen(own), ("file", 2_000, 8, "/srv/swap".to_owned()));
    // What the override makes of it, the override is to blame for.
    let mut document = Document::parse(
        &replaced("store = \"memory\"", own.split(", latency").next().unwrap()),
        "s.toml",
    )
    .unwrap();
    document.apply_set("memory.swap.store=memory").unwrap();
    let message = document.scenario().unwrap_err().to_string();
    assert!(
        message.starts_with("--set memory.swap.store=memory: memory.swap.directory: "),
        "{message}"
    );
}

/// A region where components are, which is not allowed.
const REGION: &str = "[[region]]\nname = \"r\"\nsize = \"4KiB\"\n[transient]\n";

/// Each way in which components can be wrong: what is replaced in a legal file, by what, the key that is named, and a
/// part of the reason.
const WRONG_COMPONENTS: &[(&str, &str, &str, &str)] = &[
    ("limit = \"512KiB\"\n", "", "transient.limit", "is missing"),
    ("\"512KiB\"", "\"2MiB\"", "transient.limit", "at most 1MiB"),
    (
        "\"512KiB\"",
        "\"32KiB\"",
        "transient.limit",
        "less than the minima, which take 36KiB",
    ),
    ("\"greedy\"", "\"greed\"", "transient.policy", "use one of"),
    ("\"100ms\"", "\"0ms\"", "transient.period", "is zero"),
    (
        "minimum = 2, most = 4",
        "minimum = 5, most = 4",
        "component.front.stack.minimum",
        "from 1 to `most`",
    ),
    ("chance = 0.25\n", "", "component.front.call.0.chance", "at all calls"),
    ("chance = 0.25", "chance = 0.5", "component.front.call", "1.25 together"),
    (
        "to = \"files\"",
        "to = \"log\"",
        "component.front.call.1.to",
        "stands twice",
    ),
    (
        "to = \"files\"",
        "to = \"file\"",
        "component.front.call.0.to",
        "no component named `file`",
    ),
    ("to = \"files\"", "to = \"front\"", "component.front.call", "leads back"),
    ("name = \"files\"", "name = \"log\"", "component.log.name", "is taken"),
    ("[transient]\n", REGION, "region", "scenarios of their own"),
    (
        "[transient]\n",
        "[machine]\ncpus = 2\n[transient]\n",
        "machine.cpus",
        "one CPU",
    ),
    ("compute = \"1ms\"\n", "", "task.t.period", "`compute`"),
    ("period = \"10ms\"\n", "", "task.t.period", "a `period`"),
    (
        "component = \"log\"",
        "component = \"no\"",
        "task.t.call.1.component",
        "no component named",
    ),
];

#[test]
fn components_are_checked() {
    let legal = include_str!("components.toml");
    assert!(Scenario::parse(legal, "s.toml").is_ok());
    for &(from, to, key, part) in WRONG_COMPONENTS {
        let message = refused(&legal.replacen(from, to, 1));
        assert!(message.contains(&format!(": {key}: ")), "{from}: {message}");
        assert!(message.contains(part), "{from}: {message}");
    }
}

/// Components, what they need and who calls them belong together.
#[test]
fn parts_of_components_are_checked() {
    let alone = "name = \"a\"\nduration = \"1s\"\nmemory.pool = \"1MiB\"\n";
    for (more, part) in [
        ("[transient]\nlimit = \"1MiB\"\n", "there are none"),
        ("[[component]]\nname = \"a\"\n", "needs [transient]"),
        (
            "[[task]]\nname = \"t\"\n[[task.call]]\ncomponent = \"a\"\n",
            "there are none",
        ),
    ] {
        let message = refused(&format!("{alone}{more}"));
        assert!(message.contains(part), "{message}");
    }
}
