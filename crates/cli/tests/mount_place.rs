//! What a mount takes off at its end: itself, once, and nothing that is mounted below it, over it or in its place.

mod common;
mod mounts;

use mounts::{Mounted, folders, may_mount, succeed, until};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// Another file system at a folder, in which a file has this name.
fn mount_other(at: &Path, name: &str) {
    let folder = at.parent().expect("the folder of the test");
    succeed("mount", &["-t", "tmpfs", "freehold-test", path(at)], folder);
    fs::write(at.join(name), name).expect("it can be written");
}

/// A child that another test of this process is about to start may still have a file of the mount open.
fn unmount(at: &Path) {
    until("it is not in use", || {
        let output = Command::new("umount").arg(at).output().expect("umount starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let busy = !output.status.success() && said.contains("busy");
        assert!(busy || output.status.success(), "{said}");
        (!busy).then_some(())
    });
}

fn path(at: &Path) -> &str {
    at.to_str().expect("a plain name")
}

/// Whether the end of a mount left the file there.
fn has(at: &Path, name: &str) -> bool {
    at.join(name).exists()
}

#[test]
fn what_is_mounted_below_stays_however_the_mount_ends() {
    if !may_mount() {
        return;
    }
    let (source, at) = folders("below");
    mount_other(&at, "below");
    let mut mounted = Mounted::of(&source, &at, "4MiB", &[]);
    assert!(!has(&at, "below"), "the mount covers it");
    assert!(mounted.end().success());
    assert!(has(&at, "below"), "after SIGTERM");
    mounted.again();
    unmount(&at);
    until("it ends", || mounted.has_ended().then_some(()));
    assert!(has(&at, "below"), "after umount");
    mounted.again();
    fs::write(at.join("file"), "content").expect("it can be written");
    let open = fs::File::open(at.join("file")).expect("it can be read");
    assert!(mounted.end().success());
    assert!(has(&at, "below"), "after SIGTERM while it was in use");
    drop(open);
    mounted.again();
    mounted.kill();
    mounted.again();
    assert!(mounted.end().success());
    assert!(has(&at, "below"), "after a kill, and a mount that cleaned up");
    unmount(&at);
}

#[test]
fn what_is_mounted_in_its_place_or_over_it_stays() {
    if !may_mount() {
        return;
    }
    let mut mounted = Mounted::new("instead", "4MiB", &[]);
    let at = mounted.at.clone();
    for round in 0..30 {
        unmount(&at);
        mount_other(&at, "instead");
        until("it ends", || mounted.has_ended().then_some(()));
        assert!(has(&at, "instead"), "round {round}");
        unmount(&at);
        mounted.again();
    }
    mount_other(&at, "over");
    assert!(mounted.end().success());
    assert!(has(&at, "over"), "it is mounted over it");
    unmount(&at);
    // What lay below has no process any more, and goes with the next mount.
    mounted.again();
    assert!(!has(&at, "over"));
}

/// `umount -f` cuts the connection off, and leaves what is in use where it is.
#[test]
fn a_mount_that_is_cut_off_is_taken_off() {
    if !may_mount() {
        return;
    }
    let mut mounted = Mounted::new("cut", "4MiB", &[]);
    let at = mounted.at.clone();
    fs::write(at.join("file"), "content").expect("it can be written");
    let mut open = fs::File::open(at.join("file")).expect("it can be read");
    let forced = Command::new("umount").arg("-f").arg(&at).stderr(Stdio::null()).status();
    assert!(!forced.expect("umount starts").success(), "it is in use");
    until("it ends", || mounted.has_ended().then_some(()));
    assert!(fs::read_dir(&at).expect("no dead mount is there").next().is_none());
    assert!(open.read_to_end(&mut Vec::new()).is_err(), "nobody serves it any more");
}

/// One mount after another at the same place, as scripts do it.
#[test]
fn mounts_that_follow_each_other_do_not_take_each_other_off() {
    if !may_mount() {
        return;
    }
    let mut mounted = Mounted::new("turns", "4MiB", &[]);
    let at = mounted.at.clone();
    for round in 0..40 {
        let name = format!("file-{round}");
        fs::write(at.join(&name), vec![round; 100_000]).expect("it can be written");
        unmount(&at);
        let next = Mounted::of(&mounted.source, &at, "4MiB", &[]);
        until("the one before ends", || mounted.has_ended().then_some(()));
        assert_eq!(fs::read(at.join(&name)).expect("it is there"), vec![round; 100_000]);
        mounted.replace(next);
    }
}
