//! `freehold mount` as programs use it: every operation, on a real mount, beside what the source itself says.

mod common;
mod mounts;

use mounts::{Mounted, folders, may_mount, succeed, until};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

#[test]
fn names_links_and_attributes_are_the_sources_own() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("names", "4MiB", &[]);
    let (source, at) = (&mounted.source, &mounted.at);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let row = table.lines().find(|row| row.contains(&format!(" {} ", at.display())));
    let named = format!(" - fuse.freehold {} ", source.display());
    assert!(row.is_some_and(|row| row.contains(&named)), "{row:?}");
    let odd = OsStr::from_bytes(b"\xff name \x01");
    fs::write(at.join(odd), b"odd").unwrap();
    assert_eq!(fs::read(source.join(odd)).unwrap(), b"odd");
    fs::hard_link(at.join(odd), at.join("other")).unwrap();
    let (one, other) = (
        fs::metadata(at.join(odd)).unwrap(),
        fs::metadata(at.join("other")).unwrap(),
    );
    let real = fs::metadata(source.join("other")).unwrap();
    assert_eq!((one.ino(), one.nlink()), (other.ino(), 2));
    assert_eq!(
        (real.ino(), real.mtime_nsec(), real.mode()),
        (other.ino(), other.mtime_nsec(), other.mode())
    );
    symlink("/etc/passwd", at.join("link")).unwrap();
    assert_eq!(fs::read_link(source.join("link")).unwrap(), Path::new("/etc/passwd"));
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::rename(at.join("other"), at.join("a/b/moved")).unwrap();
    fs::set_permissions(at.join("a/b/moved"), PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(source.join("a/b/moved")).unwrap().mode() & 0o7777, 0o640);
    let names = |folder: &Path| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(at), names(source));
    assert!(fs::remove_dir(at.join("a")).is_err());
    fs::remove_dir_all(at.join("a")).unwrap();
    assert_eq!(names(source), [OsStr::new("link"), odd]);
    rustix::fs::setxattr(at.join(odd), "user.colour", b"red", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    assert_eq!(
        rustix::fs::getxattr(source.join(odd), "user.colour", value.as_mut_slice()).unwrap(),
        3
    );
    let twice = rustix::fs::setxattr(at.join(odd), "user.colour", b"blue", XattrFlags::CREATE);
    assert_eq!(twice, Err(rustix::io::Errno::EXIST));
    rustix::fs::removexattr(at.join(odd), "user.colour").unwrap();
    assert_eq!(
        rustix::fs::listxattr(source.join(odd), value.as_mut_slice()).unwrap(),
        0
    );
}

#[test]
fn rename_flags_many_names_and_special_files_work() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("rename", "4MiB", &[]);
    let (source, at) = (&mounted.source, &mounted.at);
    fs::write(at.join("one"), b"1").unwrap();
    fs::write(at.join("two"), b"2").unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, at.join("one"), CWD, at.join("two"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(source.join("one")).unwrap(), b"2");
    assert_eq!(fs::read(at.join("one")).unwrap(), b"2");
    fs::create_dir(at.join("many")).unwrap();
    for number in 0..3000 {
        File::create(at.join(format!("many/{number}"))).unwrap();
    }
    assert_eq!(fs::read_dir(at.join("many")).unwrap().count(), 3000);
    rustix::fs::mknodat(CWD, at.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(
        &fs::metadata(source.join("pipe")).unwrap().file_type()
    ));
    let found = rustix::fs::statvfs(at).unwrap();
    assert_eq!(found.f_blocks, rustix::fs::statvfs(source).unwrap().f_blocks);
    let access = rustix::fs::accessat(CWD, at.join("one"), rustix::fs::Access::READ_OK, AtFlags::empty());
    assert_eq!(access, Ok(()));
}

#[test]
fn writes_appends_truncations_and_holes_are_in_the_real_file_at_once() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("writes", "4MiB", &[]);
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    let mut file = File::create(&path).unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    file.write_all(&bytes).unwrap();
    assert!(fs::read(&real).unwrap() == bytes && fs::read(&path).unwrap() == bytes);
    let mut front = OpenOptions::new().append(true).open(&path).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&real)
        .unwrap()
        .write_all(b"behind")
        .unwrap();
    front.write_all(b"front").unwrap();
    assert!(fs::read(&path).unwrap().ends_with(b"behindfront"));
    file.set_len(1000).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes[..1000]);
    file.seek(SeekFrom::Start(1 << 20)).unwrap();
    file.write_all(b"far").unwrap();
    assert_eq!(fs::metadata(&real).unwrap().len(), (1 << 20) + 3);
    for before in [
        rustix::fs::SeekFrom::Hole(u64::MAX),
        rustix::fs::SeekFrom::Data(u64::MAX),
    ] {
        let [found, native] = [&path, &real].map(|path| rustix::fs::seek(File::open(path).unwrap(), before));
        assert_eq!((found, native), (native, Err(rustix::io::Errno::NXIO)));
    }
    let hole = rustix::fs::seek(File::open(&path).unwrap(), rustix::fs::SeekFrom::Hole(0)).unwrap();
    assert_eq!(
        hole,
        rustix::fs::seek(File::open(&real).unwrap(), rustix::fs::SeekFrom::Hole(0)).unwrap()
    );
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 0, 4096).unwrap();
    assert_eq!(fs::read(&path).unwrap()[..4096], [0; 4096]);
    file.sync_all().unwrap();
    drop((file, front));
    // A lease keeps the file still from now on; opening it for writing lets it go.
    assert_eq!(fs::read(&path).unwrap().len(), (1 << 20) + 3);
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .write_at(b"new", 0)
        .unwrap();
    assert_eq!(fs::read(&path).unwrap()[..3], *b"new");
    fs::write(&path, b"short").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
}

#[test]
fn mappings_and_running_programs_and_locks_work() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("mappings", "4MiB", &[]);
    let at = &mounted.at;
    fs::copy("/bin/sh", at.join("shell")).unwrap();
    fs::set_permissions(at.join("shell"), PermissionsExt::from_mode(0o755)).unwrap();
    for _ in 0..3 {
        assert_eq!(succeed(at.join("shell"), &["-c", "echo $((6 * 7))"], at), b"42\n");
    }
    let script = "import mmap, fcntl, sys\n\
        f = open('data', 'w+b'); f.write(b'x' * 8192); f.flush()\n\
        m = mmap.mmap(f.fileno(), 0); m[4096:4100] = b'mine'\n\
        assert open('data', 'rb').read()[4096:4100] == b'mine'\n\
        p = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE); p[0:4] = b'copy'\n\
        assert open('data', 'rb').read(4) == b'xxxx'\n\
        m.flush(); m.close()\n\
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
        import subprocess\n\
        theirs = 'import fcntl; fcntl.lockf(open(\"data\", \"r+b\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'\n\
        assert subprocess.run([sys.executable, '-c', theirs], stderr=subprocess.DEVNULL).returncode == 1\n\
        fcntl.lockf(f, fcntl.LOCK_UN)\n\
        assert subprocess.run([sys.executable, '-c', theirs]).returncode == 0\n";
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("not run: there is no python3");
        return;
    }
    succeed("python3", &["-c", script], at);
    assert_eq!(fs::read(mounted.source.join("data")).unwrap()[4096..4100], *b"mine");
}

#[test]
fn others_create_their_own_files_and_only_where_they_may() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("others", "4MiB", &["--allow-other"]);
    let (source, at) = (&mounted.source, &mounted.at);
    for folder in [source, source.parent().unwrap()] {
        fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    }
    fs::write(source.join("root"), b"").unwrap();
    fs::set_permissions(source.join("root"), PermissionsExt::from_mode(0o600)).unwrap();
    let script = "umask 027; echo theirs > file && mkdir folder && ln -s x link && ! cat root 2>/dev/null";
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            "4321",
            "--regid",
            "1234",
            "--clear-groups",
            "sh",
            "-c",
            script,
        ])
        .current_dir(at);
    let Ok(output) = command.output() else {
        eprintln!("not run: there is no setpriv");
        return;
    };
    if String::from_utf8_lossy(&output.stderr).contains("can't cd") {
        eprintln!("not run: others cannot reach the folder of the test");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = fs::metadata(source.join("file")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (4321, 1234, 0o640));
    let folder = fs::metadata(source.join("folder")).unwrap();
    assert_eq!((folder.uid(), folder.mode() & 0o7777), (4321, 0o750));
    assert_eq!(fs::symlink_metadata(source.join("link")).unwrap().gid(), 1234);
}

/// A folder that only a group may write to, which is not the first group of the caller.
#[test]
fn whoever_may_by_another_group_creates_and_nobody_else() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("groups", "4MiB", &["--allow-other"]);
    for folder in [&mounted.source, mounted.source.parent().unwrap()] {
        fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let shared = mounted.source.join("shared");
    fs::create_dir(&shared).unwrap();
    std::os::unix::fs::chown(&shared, Some(0), Some(7777)).unwrap();
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o2770)).unwrap();
    let run = |groups: &str, script: &str, at: &Path| {
        let words = [
            "--reuid", "4321", "--regid", "1234", "--groups", groups, "sh", "-c", script,
        ];
        Command::new("setpriv").args(words).current_dir(at).output()
    };
    let Ok(reaches) = run("7777", "true", &mounted.at) else {
        eprintln!("not run: there is no setpriv");
        return;
    };
    if !reaches.status.success() {
        eprintln!("not run: others cannot reach the folder of the test");
        return;
    }
    let script = "cd shared && echo one > file && mkdir folder && ln -s x link && mkfifo pipe && echo two >> file";
    for (number, at) in [&mounted.source, &mounted.at].into_iter().enumerate() {
        let theirs = run(
            "7777",
            &script.replace("shared &&", "shared && mkdir $$ && cd $$ &&"),
            at,
        )
        .unwrap();
        assert!(
            theirs.status.success(),
            "{number}: {}",
            String::from_utf8_lossy(&theirs.stderr)
        );
        assert!(!run("1234", script, at).unwrap().status.success(), "{number}");
        let other = run("7777", "cd shared && umask 077 && echo > mine", at).unwrap();
        assert!(other.status.success() && shared.join("mine").exists());
        fs::remove_file(shared.join("mine")).unwrap();
    }
    for folder in fs::read_dir(&shared).unwrap() {
        let folder = folder.unwrap().path();
        let status = |name: &str| fs::symlink_metadata(folder.join(name)).unwrap();
        for name in ["file", "folder", "link", "pipe"] {
            assert_eq!((status(name).uid(), status(name).gid()), (4321, 7777), "{name}");
        }
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"one\ntwo\n");
    }
}

/// Gives one more user an entry in the file's access list (acl(5)).
const ACCESS_LIST: &str = r#"python3 -c 'import os, struct
entry = lambda tag, bits, who=0xffffffff: struct.pack("<HHI", tag, bits, who)
entries = [entry(1, 7), entry(2, 6, 5555), entry(4, 7), entry(16, 7), entry(32, 7)]
os.setxattr("program", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(entries))'"#;

/// Else who may write a program of somebody else would have that one's rights.
#[test]
fn what_others_write_loses_the_rights_of_its_owner() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("rights", "4MiB", &["--allow-other"]);
    for folder in [&mounted.source, mounted.source.parent().unwrap()] {
        fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let mode_after = |at: &Path, mode: u32, (user, group): (&str, &str), script: &str| {
        let path = at.join("program");
        fs::write(&path, b"content").unwrap();
        std::os::unix::fs::chown(&path, Some(4321), Some(1234)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let words = ["--reuid", user, "--regid", user, "--groups", group, "sh", "-c", script];
        let output = Command::new("setpriv").args(words).current_dir(at).output();
        let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
        fs::remove_file(path).unwrap();
        output.ok().filter(|output| output.status.success()).map(|_| mode)
    };
    let mut judged = 0;
    for script in [
        "echo x >> program",
        ": > program",
        "printf x | dd of=program conv=notrunc status=none",
        "truncate -s 3 program",
        "fallocate -l 99 program",
        "fallocate -p -o 0 -l 4096 program",
        "chgrp 7777 program",
        ACCESS_LIST,
    ] {
        // Its owner outside its group and in it, somebody else outside and in it, root.
        for user in [
            ("4321", "7777"),
            ("4321", "1234,7777"),
            ("5555", "7777"),
            ("5555", "1234"),
            ("0", "0"),
        ] {
            for mode in [0o4777, 0o2777, 0o6777, 0o6766, 0o2676, 0o777] {
                let native = mode_after(&mounted.source, mode, user, script);
                let ours = mode_after(&mounted.at, mode, user, script);
                assert_eq!(ours, native, "{script} by {user:?} in {mode:o}");
                let changes = user.0 != "0" && script != ACCESS_LIST;
                assert!(!changes || native.is_none_or(|native| native & 0o4000 == 0), "{mode:o}");
                judged += u32::from(native.is_some());
            }
        }
    }
    assert!(judged > 100, "{judged}: others cannot reach the folder of the test");
}

#[test]
fn a_read_only_mount_changes_nothing_and_says_so() {
    if !may_mount() {
        return;
    }
    let (source, at) = folders("read-only");
    fs::write(source.join("file"), b"content").unwrap();
    let mounted = Mounted::of(&source, &at, "4MiB", &["--read-only"]);
    assert_eq!(fs::read(mounted.at.join("file")).unwrap(), b"content");
    let refused = OpenOptions::new()
        .write(true)
        .open(mounted.at.join("file"))
        .unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30));
    assert!(fs::remove_file(mounted.at.join("file")).is_err());
}

#[test]
fn sigterm_unmounts_and_what_is_in_use_goes_on_until_then() {
    if !may_mount() {
        return;
    }
    let mut mounted = Mounted::new("end", "4MiB", &[]);
    fs::write(mounted.at.join("file"), b"content").unwrap();
    assert!(mounted.end().success());
    assert!(!mounted.at.join("file").exists());
    mounted.again();
    let mut open = File::open(mounted.at.join("file")).unwrap();
    assert!(mounted.end().success());
    let mut to = Vec::new();
    assert!(open.read_to_end(&mut to).is_err(), "nobody serves it any more");
    drop(open);
    until("the mount point is free", || {
        (!mounted.at.join("file").exists()).then_some(())
    });
}

#[test]
fn foreign_and_nested_sources_and_bad_device_files_are_refused() {
    let (source, at) = folders("refused");
    let devices = at.with_file_name("devices.toml");
    let devices = devices.to_str().unwrap();
    let run = |source: &Path, at: &Path, cache: &str, devices: &str| {
        let mut command = Command::new("timeout");
        command
            .args(["-s", "KILL", "20", env!("CARGO_BIN_EXE_freehold"), "mount"])
            .args([source, at]);
        let output = command.args(["--cache", cache, "--devices", devices]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (from, to, what) in [
        (Path::new("/proc"), at.as_path(), "procfs"),
        (Path::new("/sys"), &at, "sysfs"),
        (&source, &source, "lies in"),
        (source.parent().unwrap(), &at, "lies in"),
        (&source.join("absent"), &at, "No such file"),
        (&source, Path::new("/etc/hostname"), "directory"),
    ] {
        let (status, said) = run(from, to, "4MiB", devices);
        assert_eq!(status, Some(2), "{from:?}: {said}");
        assert!(said.contains(what), "{from:?}: {said}");
    }
    assert_eq!(run(&source, &at, "1MiB", devices).0, Some(2));
    let bad = source.join("bad.toml");
    fs::write(&bad, "[[device]]\nname = \"a\"\nsize = \"0B\"\n").unwrap();
    let (status, said) = run(&source, &at, "4MiB", bad.to_str().unwrap());
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("bad.toml:"), "{said}");
    fs::remove_dir_all(source.parent().unwrap()).unwrap();
}

#[test]
fn a_mount_over_a_mount_of_its_own_is_refused() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::new("fuse", "4MiB", &[]);
    let elsewhere = mounted.at.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let devices = mounted.at.with_file_name("devices.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command
        .arg("mount")
        .args([&mounted.at, &elsewhere])
        .args(["--cache", "4MiB", "--devices"])
        .arg(devices);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("FUSE"));
}

#[test]
fn after_a_kill_every_completed_write_is_there_and_a_new_mount_takes_the_place() {
    if !may_mount() {
        return;
    }
    let mut mounted = Mounted::new("kill", "4MiB", &[]);
    let path = mounted.at.join("file");
    for round in 0..3_u8 {
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for _ in 0..100 {
            file.write_all(&[round; 1000]).unwrap();
        }
        let mut reader = File::open(&path).unwrap();
        mounted.kill();
        let mut to = [0; 10];
        assert_eq!(reader.read(&mut to).unwrap_err().raw_os_error(), Some(107));
        assert_eq!(fs::metadata(&path).unwrap_err().raw_os_error(), Some(107));
        let real = fs::read(mounted.source.join("file")).unwrap();
        assert_eq!(real.len(), (usize::from(round) + 1) * 100_000);
        drop((file, reader));
        mounted.again();
        assert!(fs::read(&path).unwrap() == real);
    }
    let reused = rustix::fs::open(&path, OFlags::RDONLY, Mode::empty());
    assert!(reused.is_ok());
}
