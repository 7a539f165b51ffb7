//! Many more files than a mount may have descriptors: the kernel forgets those that nobody uses, and nobody notices.

mod common;
mod mounts;

use freehold_client::device::status;
use mounts::{Mounted, may_mount, succeed, until};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DESCRIPTORS: u32 = 300;
const FOLDERS: usize = 40;
const FILES: usize = 50;
/// More than the mount has threads that answer.
const READERS: usize = 8;

fn path(root: &Path, folder: usize, file: usize) -> PathBuf {
    root.join(format!("folder{folder}")).join(format!("file{file}"))
}

fn content(folder: usize, file: usize) -> Vec<u8> {
    format!("{folder}/{file};").repeat(1_000).into_bytes()
}

fn fill(root: &Path) {
    for folder in 0..FOLDERS {
        fs::create_dir(root.join(format!("folder{folder}"))).expect("a folder");
        for file in 0..FILES {
            fs::write(path(root, folder, file), content(folder, file)).expect("a file");
        }
    }
}

/// Reads all of them from a folder on, each as a program that finds it by the folders' lists.
fn read_all(root: &Path, first: usize) {
    for folder in (0..FOLDERS).map(|at| (at + first) % FOLDERS) {
        let list = fs::read_dir(root.join(format!("folder{folder}"))).expect("a folder's list");
        let sizes: Vec<u64> = list
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file's status").len())
            .collect();
        assert_eq!(sizes.len(), FILES);
        for file in 0..FILES {
            let path = path(root, folder, file);
            assert!(
                fs::read(&path).expect("a file's content") == content(folder, file),
                "{}",
                path.display()
            );
        }
    }
}

/// A shell in a folder, which tells where it is and what a file there holds when it is given a line.
fn shell_in(folder: &Path) -> Child {
    Command::new("sh")
        .args(["-c", "read line && /bin/pwd && cat file3 && cat ../folder4/file4"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell starts")
}

fn ask(mut shell: Child) -> Vec<u8> {
    let mut input = shell.stdin.take().expect("its input");
    input.write_all(b"go\n").expect("it reads");
    drop(input);
    let output = shell.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Whether the kernel forgets inodes by number; where not, that is said.
fn forgets_by_number() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's version");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 18) {
        eprintln!(
            "not run: Linux {release} forgets inodes by name only, which takes more descriptors (6.18 does by number)"
        );
    }
    version >= (6, 18)
}

/// Opens files until there is no descriptor for another.
fn open_all_that_can_be(root: &Path) -> Vec<File> {
    let mut open = Vec::new();
    for folder in 10..FOLDERS {
        for file in 0..FILES {
            match File::open(path(root, folder, file)) {
                Ok(opened) => open.push(opened),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()), "{error}");
                    return open;
                }
            }
        }
    }
    panic!("all {} files are open at once", open.len());
}

#[test]
fn files_in_use_are_known_where_no_other_can_be_opened() {
    if !may_mount() {
        return;
    }
    let mounted = Mounted::with_descriptors(DESCRIPTORS, "full", "4MiB", &[]);
    fill(&mounted.source);
    let open = open_all_that_can_be(&mounted.at);
    assert!(open.len() > 40, "{}", open.len());
    for (number, file) in open.iter().enumerate() {
        let (folder, number) = (10 + number / FILES, number % FILES);
        let named = fs::metadata(path(&mounted.at, folder, number)).unwrap();
        assert_eq!(named.ino(), file.metadata().unwrap().ino());
        drop(File::open(path(&mounted.at, folder, number)).unwrap());
        let mut bytes = vec![0; content(folder, number).len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(folder, number), "{folder}/{number}");
    }
    drop(open);
    assert!(fs::read(path(&mounted.at, 2, 2)).unwrap() == content(2, 2));
    assert!(open_all_that_can_be(&mounted.at).len() > 40);
}

#[test]
fn a_tree_of_more_files_than_descriptors_is_read_and_written_by_many() {
    if !may_mount() || !forgets_by_number() {
        return;
    }
    let socket = std::env::temp_dir().join(format!("freehold-mount-crowd-{}", std::process::id()));
    let option = ["--socket", socket.to_str().expect("UTF-8")];
    let mounted = Mounted::with_descriptors(DESCRIPTORS, "crowd", "4MiB", &option);
    let (source, at) = (mounted.source.clone(), mounted.at.clone());
    let limits = fs::read_to_string(format!("/proc/{}/limits", mounted.pid())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert!(limit.split_whitespace().nth(3) == Some("300"), "{limit}");
    fill(&source);
    until("the socket is there", || socket.exists().then_some(()));

    let open: Vec<File> = (0..20).map(|file| File::open(path(&at, 1, file)).unwrap()).collect();
    let shell = shell_in(&at.join("folder3"));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let at = at.clone();
            std::thread::spawn(move || read_all(&at, reader * FOLDERS / READERS))
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());

    // What is in use is as it was, and known by the same name.
    for (number, file) in open.iter().enumerate() {
        let mut bytes = vec![0; content(1, number).len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(1, number), "file {number}");
    }
    let name = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open[0]))).unwrap();
    assert_eq!(name, path(&at, 1, 0));
    let mut told = format!("{}\n", at.join("folder3").display()).into_bytes();
    told.extend(content(3, 3));
    told.extend(content(4, 4));
    assert!(ask(shell) == told, "a shell is where it was");

    // New and changed files, and names that move.
    succeed("cp", &["-a", "folder0", "copy"], &at);
    succeed(
        "diff",
        &["-r", "folder0", source.join("copy").to_str().expect("UTF-8")],
        &at,
    );
    for file in 0..FILES {
        fs::rename(path(&at, 5, file), at.join(format!("moved{file}"))).unwrap();
        fs::write(path(&at, 6, file), b"new").unwrap();
        assert!(fs::read(at.join(format!("moved{file}"))).unwrap() == content(5, file));
        assert_eq!(fs::read(path(&source, 6, file)).unwrap(), b"new");
    }
    drop(open);
    let few = u64::from(DESCRIPTORS) / 4 * 3;
    until("the kernel has forgotten most", || {
        let document: serde_json::Value = serde_json::from_str(&status(&socket).unwrap()).unwrap();
        let row = &document["mount"];
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("inodes") + 2 * (number("leases") + number("uncached_inodes")) <= few).then_some(())
    });
}
