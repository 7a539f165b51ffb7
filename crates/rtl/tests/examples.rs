//! Every program of `examples/rtl` in both spaces: what it prints is the same, but for times.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{SPACES, World, eventually};
use freehold_rtl::directory::Kind;
use freehold_rtl::fifo::peer::ProcessSide;
use freehold_rtl::load::{self, Space};

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rtl");
    let entries = fs::read_dir(folder)
        .expect("the examples")
        .flatten()
        .map(|entry| entry.path());
    let mut programs: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .collect();
    programs.sort();
    programs
}

fn name_of(program: &Path) -> String {
    program.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// A process's side of a FIFO.
fn fifo(world: &World, number: u32) -> ProcessSide {
    let area = world.directory.find(Kind::Fifo, &number.to_string()).expect("the FIFO");
    ProcessSide::of(area).expect("a FIFO")
}

fn write(side: &ProcessSide, bytes: &[u8]) {
    assert_eq!(side.write(bytes), Ok(bytes.len()));
    side.tell_handler();
}

/// `struct command` of frank.c.
fn command(start: i32, thread: i32) -> Vec<u8> {
    [start, thread, 500]
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect()
}

/// Does what a program's process does.
fn drive(world: &World, name: &str) {
    match name {
        "fifo_echo" => {
            for (line, text) in ["one", "two", "three"].into_iter().enumerate() {
                write(&fifo(world, 1), text.as_bytes());
                eventually("an echo", || world.printed(name).lines().count() > line);
            }
            let mut echo = [0; 32];
            let count = fifo(world, 2).read(&mut echo);
            assert_eq!(&echo[..count], b"onetwothree");
        }
        "frank" => {
            for thread in [1, 2] {
                write(&fifo(world, 3), &command(1, thread));
                let text = format!("thread {thread} starts\n");
                eventually("a thread starts", || world.printed(name).contains(&text));
                let own = fifo(world, u32::try_from(thread).expect("small"));
                eventually("it writes", || own.used() == 18);
                write(&fifo(world, 3), &command(0, thread));
                let text = format!("thread {thread} wrote 3 times\n");
                eventually("it ends", || world.printed(name).contains(&text));
            }
        }
        "sound" => {
            let sound: Vec<u8> = (0..=255).collect();
            write(&fifo(world, 5), &sound);
        }
        _ => {}
    }
}

/// Numbers of nanoseconds are other ones each time.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).collect::<Vec<_>>();
    let masked = words.iter().enumerate().map(|(index, word)| {
        let is_time = words.get(index + 1).is_some_and(|next| next.starts_with("ns"));
        if is_time { "TIME " } else { word }
    });
    masked.collect()
}

fn run(world: &World, program: &Path, space: Space) -> String {
    let name = name_of(program);
    let object = world.directory.path().join(format!("{name}.o"));
    let parameters: &[(&str, &str)] = match name.as_str() {
        "parameters" => &[
            ("number", "-5"),
            ("early", "4"),
            ("name", "somebody"),
            ("values", "9,8"),
        ],
        _ => &[],
    };
    world
        .insert(&object, space, parameters)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    drive(world, &name);
    eventually(&format!("{name} is done, {}", world.printed(&name)), || {
        world.printed(&name).contains("done\n")
    });
    load::remove(&world.directory, &name, false).unwrap_or_else(|error| panic!("{name}: {error}"));
    without_times(&world.printed(&name))
}

#[test]
fn every_example_prints_the_same_in_both_spaces() {
    let Some(mut world) = World::new("examples") else {
        return;
    };
    world.start_host();
    let programs = programs();
    assert!(programs.len() >= 15, "{programs:?}");
    for program in &programs {
        let name = name_of(program);
        world.compile(&program.display().to_string(), &name);
        let [shared, separate] = SPACES.map(|space| run(&world, program, space));
        assert_eq!(shared, separate, "{name}");
        assert!(
            !shared.contains('?'),
            "{name}: an answer is another than it should be:\n{shared}"
        );
        println!("{name}:\n{separate}");
    }
    assert!(world.directory.names(Kind::Fifo).is_empty());
}
