//! What is wrong is refused, by name, and leaves nothing behind.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{SPACES, World};
use freehold_rtl::directory::Kind;
use freehold_rtl::load::{self, RtlError, Space};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(name)
}

/// What loading a module says.
fn refusal(world: &World, object: &Path, space: Space, parameters: &[(&str, &str)]) -> RtlError {
    let error = world.insert(object, space, parameters).expect_err("it is refused");
    assert!(world.directory.names(Kind::Module).is_empty(), "{error}");
    error
}

#[test]
fn modules_that_cannot_be_loaded_are_refused_by_name() {
    let Some(mut world) = World::new("misuse") else { return };
    world.start_host();
    for space in SPACES {
        let fails = world.compile("fails.c", "fails");
        let error = refusal(&world, &fails, space, &[]);
        assert_eq!(error.to_string(), "init_module of fails returned -5");
        assert!(!error.is_input());
        let error = refusal(&world, &fails, space, &[("valeu", "0")]);
        assert_eq!(error.to_string(), "the module has no parameter valeu");
        assert!(error.is_input());
        let error = refusal(&world, &fails, space, &[("value", "many")]);
        assert_eq!(error.to_string(), "value=many is no value of kind i");

        let error = refusal(&world, &world.compile("no_init.c", "no_init"), space, &[]);
        assert_eq!(error.to_string(), "no_init has no init_module: it is no module");
        assert!(error.is_input());

        let error = refusal(&world, &world.compile("unresolved.c", "unresolved"), space, &[]);
        let text = error.to_string();
        assert!(text.contains("function_of_nobody, other_function_of_nobody"), "{text}");
        assert!(error.is_input());

        let absolute = world.directory.path().join("absolute.o");
        let compiler = Command::new("cc")
            .args(["-fno-pic", "-fno-pie", "-c"])
            .arg(source("absolute.c"))
            .arg("-o")
            .arg(&absolute)
            .status();
        assert!(compiler.expect("a C compiler").success());
        let error = refusal(&world, &absolute, space, &[]);
        assert!(
            error
                .to_string()
                .contains("without -fPIC; compile it with freehold rtl cc"),
            "{error}"
        );

        let error = refusal(&world, Path::new("/nowhere/at_all.o"), space, &[]);
        assert!(error.is_input(), "{error}");
    }
}

#[test]
fn what_is_left_out_is_refused_at_compile_time_with_the_reason() {
    let Some(world) = World::new("left-out") else { return };
    for (name, reason) in [
        ("raw_clock.c", "left out: raw clocks program the timer chip"),
        ("raw_clock_timer.c", "left_out_raw_clocks_program_the_timer_chip"),
        ("kernel_timer.c", "is left out: timers of the Linux kernel"),
        ("mapped_page.c", "is left out: pages of the Linux kernel"),
        (
            "tasklet.c",
            "is left out: tasklets and bottom halves belong to the Linux kernel",
        ),
    ] {
        let headers = world.directory.path().join("headers");
        freehold_rtl::compile::write_headers(&headers).expect("the headers");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-std=gnu89", "-w", "-I"])
            .arg(&headers)
            .arg("-c")
            .arg(source(name));
        let output = compiler.arg("-o").arg("/dev/null").output().expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{said}");
        // The same by the command's own way.
        let arguments = [
            OsString::from("-c"),
            source(name).into(),
            "-o".into(),
            "/dev/null".into(),
        ];
        assert_ne!(freehold_rtl::compile::compile(&arguments).expect("it runs"), 0);
    }
}

#[test]
fn a_busy_module_stays_and_a_separate_one_can_be_killed() {
    let Some(mut world) = World::new("busy") else { return };
    world.start_host();
    let separate = world.compile("stuck.c", "stuck_separate");
    world.insert(&separate, Space::Separate, &[]).expect("it loads");
    let error = world.insert(&separate, Space::Separate, &[]).expect_err("it is there");
    assert_eq!(error.to_string(), "a module called stuck_separate is loaded already");
    let error = load::remove(&world.directory, "stuck_separate", false).expect_err("it is busy");
    assert!(error.to_string().contains("is busy (-16)"), "{error}");
    load::remove(&world.directory, "stuck_separate", true).expect("it is killed");

    let shared = world.compile("stuck.c", "stuck_shared");
    world.insert(&shared, Space::Shared, &[]).expect("it loads");
    let error = load::remove(&world.directory, "stuck_shared", true).expect_err("it is busy");
    assert!(error.to_string().contains("is busy (-16)"), "{error}");
    assert_eq!(world.directory.names(Kind::Module), ["stuck_shared"]);
    let error = load::remove(&world.directory, "nothing", false).expect_err("nothing is there");
    assert!(error.is_input(), "{error}");
}

/// What `numbers.c` is to print: each mistake, its answer, and errno where that is set. The numbers are Linux's.
const NUMBERS: &str = "\
create out of range: -19 0
create of no size: -12 0
create of less than no size: -12 0
create: 0 0
create twice: -16 0
put out of range: -19 0
put not created: -22 0
get out of range: -19 0
get not created: -22 0
destroy out of range: -19 0
destroy not created: -22 0
put more than fits: -28 0
nothing of it: 0 0
put to the brim: 10 0
put into the full: -28 0
put of less than nothing: -22 0
handler of none: -22 0
handler not created: -22 0
open to wait: -1 13
open not created: -1 19
open another file: -1 2
open of memory: -1 13
write into the full: -1 28
size of what is not empty: -1 16
read: 10 0
read of the empty: 0 0
unknown ioctl: -1 22
close: 0 0
write by the other: 1 0
close the other: 0 0
write closed: -1 9
read closed: -1 9
ioctl closed: -1 9
close closed: -1 9
destroy: 0 0
";

#[test]
fn mistakes_with_fifos_are_answered_by_the_documented_numbers() {
    let Some(mut world) = World::new("numbers") else { return };
    world.start_host();
    for space in SPACES {
        let name = format!("numbers_{space:?}").to_lowercase();
        let object = world.compile("numbers.c", &name);
        world.insert(&object, space, &[]).expect("it loads");
        common::eventually("it has printed all", || {
            world.printed(&name).ends_with("destroy: 0 0\n")
        });
        assert_eq!(world.printed(&name), NUMBERS, "{space:?}");
        load::remove(&world.directory, &name, false).expect("it is taken out");
    }
}
