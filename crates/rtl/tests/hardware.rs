//! `--irq`, `--port` and `mount --dev`: lines from files, logs of ports, FIFOs as devices.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{SPACES, World, eventually};
use freehold_rtl::control::Insert;
use freehold_rtl::load::{self, RtlError, Space};

fn insert(world: &World, object: &Path, space: Space, line: &Path, port: &Path) -> Result<(), RtlError> {
    let insert = Insert {
        lines: vec![(5, line.to_owned())],
        ports: vec![(0x378, port.to_owned())],
        ..Insert::default()
    };
    load::insert(&world.directory, object, &space.into(), insert)
}

fn pipe(world: &World, name: &str) -> PathBuf {
    let path = world.directory.path().join(name);
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    path
}

#[test]
fn a_line_comes_when_its_file_becomes_readable_and_a_port_logs_what_is_written() {
    let Some(mut world) = World::new("hardware") else {
        return;
    };
    world.start_host();
    for (space, name) in SPACES.into_iter().zip(["lines_shared", "lines_separate"]) {
        let (line, port) = (
            pipe(&world, &format!("{name}.pipe")),
            world.directory.path().join(format!("{name}.port")),
        );
        let object = world.compile("lines_ports.c", name);
        insert(&world, &object, space, &line, &port).expect("it loads");
        let mut pipe = OpenOptions::new().read(true).write(true).open(&line).expect("the pipe");
        for count in 1..=3 {
            pipe.write_all(b"x").expect("there is room");
            let text = format!("line 5: {count}, port {count}\n");
            eventually("the handler runs", || world.printed(name).contains(&text));
        }
        load::remove(&world.directory, name, false).expect("it ends");
        let said = world.printed(name);
        assert!(said.starts_with("line of no file: EINVAL\ntwice: EBUSY\n"), "{said}");
        assert!(said.ends_with("free: 0\nagain: EINVAL\n"), "{said}");

        let log = fs::read_to_string(&port).expect("the log");
        let rows: Vec<(u64, &str)> = log
            .lines()
            .map(|row| row.split_once(' ').expect("a time and a value"))
            .map(|(time, value)| (time.parse().expect("a time"), value))
            .collect();
        let values: Vec<&str> = rows.iter().map(|row| row.1).collect();
        assert_eq!(values, ["0x01", "0x02", "0x03"]);
        assert!(rows.is_sorted());
    }
}

#[test]
fn a_file_that_is_always_readable_is_no_line() {
    let Some(mut world) = World::new("no-line") else { return };
    world.start_host();
    let file = world.directory.path().join("plain");
    File::create(&file).expect("a file");
    let port = world.directory.path().join("port");
    for space in SPACES {
        let object = world.compile("lines_ports.c", "lines");
        for wrong in [
            &file,
            &PathBuf::from("/nowhere/at_all"),
            &world.directory.path().to_owned(),
        ] {
            let error = insert(&world, &object, space, wrong, &port).expect_err("it is refused");
            assert!(
                error.is_input() && error.to_string().contains(&wrong.display().to_string()),
                "{error}"
            );
        }
    }
}

fn devices() -> Vec<PathBuf> {
    (0..64)
        .map(|number| PathBuf::from(format!("/dev/rtf{number}")))
        .collect()
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[test]
fn fifos_are_devices_as_long_as_the_host_serves_them() {
    let Some(mut world) = World::new("devices") else { return };
    if let Some(other) = devices().into_iter().find(|device| is_there(device)) {
        println!("not tested: {} is somebody's", other.display());
        return;
    }
    world.start_host();
    let files = world.directory.path().join("files");
    // What is somebody else's stays, and nothing else is left behind.
    let taken = Path::new("/dev/rtf40");
    symlink("/dev/null", taken).expect("a link");
    let refused = load::mount(&world.directory, &files, true);
    let kept = fs::read_link(taken).ok();
    fs::remove_file(taken).expect("the link");
    match refused {
        Err(error) if error.to_string().contains("cannot be mounted") => {
            println!("not tested: {error}");
            return;
        }
        Err(error) => assert!(error.to_string().contains("/dev/rtf40"), "{error}"),
        Ok(()) => panic!("another's device was replaced"),
    }
    assert_eq!(kept.as_deref(), Some(Path::new("/dev/null")));
    assert!(!devices().iter().any(|device| is_there(device)));

    load::mount(&world.directory, &files, true).expect("it is mounted");
    assert!(devices().iter().all(|device| is_there(device)));
    let object = world.compile("counter.c", "counter");
    world
        .insert(&object, Space::Separate, &[("fifo", "2")])
        .expect("it loads");
    let read = || {
        Command::new("head")
            .args(["-n", "3", "/dev/rtf2"])
            .output()
            .expect("head runs")
    };
    assert_eq!(read().stdout, b"1\n2\n3\n");

    // A host that follows a killed one serves the same devices.
    world.kill_host();
    assert!(devices().iter().all(|device| is_there(device)));
    world.start_host();
    eventually("it serves the devices", || read().stdout.ends_with(b"\n"));
    world.end_host();
    assert!(!devices().iter().any(|device| is_there(device)));
}
