//! What sources of the time take for granted beyond the names of functions: each program of `modules/semantics` prints
//! answers, with a question mark in place of a wrong one.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{SPACES, World, eventually};
use freehold_rtl::compile;
use freehold_rtl::load::{self, Space};

/// The period of the task in `ticks.c`: 1,000 ticks of 838 ns.
const TICKS_PERIOD: u64 = 838_000;

fn run(world: &World, name: &str, space: Space) -> String {
    let object = world.directory.path().join(format!("{name}.o"));
    let parameters: &[(&str, &str)] = match name {
        "fields" => &[("names", "three,four"), ("numbers", "7,-8")],
        _ => &[],
    };
    world
        .insert(&object, space, parameters)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    eventually(&format!("{name} is done, {}", world.printed(name)), || {
        world.printed(name).contains("done\n")
    });
    if name == "ticks" {
        let periods: Vec<_> = world
            .module(name)
            .threads
            .iter()
            .map(|thread| thread.period_ns)
            .collect();
        assert_eq!(periods, [TICKS_PERIOD]);
    }
    load::remove(&world.directory, name, false).unwrap_or_else(|error| panic!("{name}: {error}"));
    world.printed(name)
}

#[test]
fn programs_find_what_they_take_for_granted_in_both_spaces() {
    let Some(mut world) = World::new("semantics") else {
        return;
    };
    world.start_host();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/semantics");
    let mut seen = 0;
    for source in fs::read_dir(folder).expect("the programs").flatten() {
        let path = source.path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        world.compile(&path.display().to_string(), &name);
        let [shared, separate] = SPACES.map(|space| run(&world, &name, space));
        assert!(
            !shared.contains('?'),
            "{name}: an answer is another than it should be:\n{shared}"
        );
        assert_eq!(shared, separate, "{name}");
        println!("{name}:\n{separate}");
        seen += 1;
    }
    assert_eq!(seen, 14);
}

/// Functions of the C library's that the kernel of the time did not have.
const NO_FUNCTIONS_OF_THE_KERNEL: [&str; 17] = [
    "access", "clock", "daemon", "div", "index", "link", "nice", "pause", "pipe", "random", "remove", "rename",
    "rindex", "select", "signal", "sync", "shutdown",
];

#[test]
fn a_module_gives_its_own_things_names_that_the_kernel_did_not_use() {
    let Some(world) = World::new("own-names") else { return };
    let headers = [
        "rtl.h",
        "rtl_fifo.h",
        "time.h",
        "pthread.h",
        "signal.h",
        "unistd.h",
        "linux/module.h",
    ];
    for (number, own) in ["struct rtl_clock *NAME;", "static int NAME = 3;", "void NAME(void) {}"]
        .iter()
        .enumerate()
    {
        let mut text: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
        for name in NO_FUNCTIONS_OF_THE_KERNEL {
            text.push_str(&own.replace("NAME", name));
        }
        let source = world.directory.path().join(format!("own{number}.c"));
        fs::write(&source, text).expect("a source");
        world.compile(&source.display().to_string(), &format!("own{number}"));
    }
}

/// As the makefiles of RTLinux's examples are, two folders below `rtl.mk`.
const MAKEFILE: &str = "all: one.o two.o\ninclude ../../rtl.mk\n\
    two.o: two.c\n\t$(CC) ${INCLUDE} ${CFLAGS} -c two.c\ninclude $(RTL_DIR)/Rules.make\n";

#[test]
fn makefiles_of_the_time_find_what_they_include() {
    let Some(world) = World::new("makefile") else { return };
    let tree = world.directory.path().join("tree");
    let folder = tree.join("examples/two");
    compile::write_headers(&tree).expect("the headers");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("Makefile"), MAKEFILE).expect("a makefile");
    for name in ["one.c", "two.c"] {
        fs::write(folder.join(name), "int init_module(void) { return 0; }\n").expect("a source");
    }
    let made = Command::new("make").arg("--dry-run").current_dir(&folder).output();
    let Ok(made) = made else {
        println!("not tested: there is no make");
        return;
    };
    let said = String::from_utf8_lossy(&made.stdout);
    let commands: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("freehold rtl cc "))
        .collect();
    assert_eq!(commands.len(), 2, "{said}{}", String::from_utf8_lossy(&made.stderr));
}
