//! Names, links and descriptors of a mount lead to the content that they lead to in SOURCE, whoever changes it.

mod common;
mod mounts;

use freehold_client::device::status;
use mounts::{Mounted, may_mount, until};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

fn with_socket(name: &str) -> (Mounted, PathBuf) {
    let (source, at) = mounts::folders(name);
    let socket = std::env::temp_dir().join(format!("freehold-mount-{name}-{}", std::process::id()));
    let mounted = Mounted::of(&source, &at, "4MiB", &["--socket", socket.to_str().expect("UTF-8")]);
    until("the socket is there", || socket.exists().then_some(()));
    (mounted, socket)
}

/// A number of a mount's status row.
fn counted(socket: &Path, name: &str) -> u64 {
    let document: serde_json::Value = serde_json::from_str(&status(socket).expect("a status")).expect("JSON");
    document["mount"][name].as_u64().expect("a number")
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn content(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(3 * PAGE / 8)
}

/// The names of a folder and what each leads to, as it should be.
struct Names<'a> {
    mounted: &'a Mounted,
    versions: Vec<Option<u64>>,
    next: u64,
    kept: Vec<(u64, File)>,
}

impl Names<'_> {
    fn path(&self, front: bool, name: usize) -> PathBuf {
        let folder = if front { &self.mounted.at } else { &self.mounted.source };
        folder.join(format!("n{name}"))
    }

    fn check(&self, name: usize) {
        match (fs::read(self.path(true, name)), self.versions[name]) {
            (Ok(found), Some(version)) => assert!(found == content(version), "n{name} is not of version {version}"),
            (Err(error), None) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
            (found, wanted) => panic!(
                "n{name}: {:?} where {wanted:?} is wanted",
                found.map(|bytes| bytes.len())
            ),
        }
    }

    fn change(&mut self, random: &mut u64) {
        let names = self.versions.len() as u64;
        let mut pick = || usize::try_from(self::random(random, names)).expect("small");
        let (one, other) = (pick(), pick());
        let (front, kind) = (self::random(random, 2) == 0, self::random(random, 5));
        match kind {
            // A new content under a name of its own, which then takes the place.
            0 | 1 => {
                self.next += 1;
                let new = self.path(self::random(random, 2) == 0, 1000);
                fs::write(&new, content(self.next)).expect("a new file");
                fs::rename(self.path(front, 1000), self.path(front, one)).expect("it takes the place");
                self.versions[one] = Some(self.next);
            }
            2 => {
                let renamed = fs::rename(self.path(front, one), self.path(front, other));
                assert_eq!(renamed.is_ok(), self.versions[one].is_some(), "{renamed:?}");
                // Two names of one inode both stay.
                if renamed.is_ok() && self.versions[one] != self.versions[other] {
                    self.versions[other] = self.versions[one].take();
                }
            }
            3 => {
                let linked = fs::hard_link(self.path(front, one), self.path(front, other));
                let may = self.versions[one].is_some() && self.versions[other].is_none();
                assert_eq!(linked.is_ok(), may, "{linked:?}");
                if may {
                    self.versions[other] = self.versions[one];
                }
            }
            _ => {
                let removed = fs::remove_file(self.path(front, one));
                assert_eq!(removed.is_ok(), self.versions[one].take().is_some(), "{removed:?}");
            }
        }
        if let Some(version) = self.versions[one]
            && self::random(random, 4) == 0
        {
            self.kept
                .push((version, File::open(self.path(true, one)).expect("it is there")));
        }
        self.check(one);
        self.check(other);
        if self.kept.len() > 20 {
            let place = usize::try_from(self::random(random, 20)).expect("small");
            let (version, file) = self.kept.swap_remove(place);
            let mut found = vec![0; 3 * PAGE];
            file.read_exact_at(&mut found, 0).expect("a kept file reads on");
            assert!(
                found == content(version),
                "a kept descriptor is not of version {version}"
            );
        }
    }
}

#[test]
fn a_thousand_renames_and_links_lead_nowhere_old_and_leave_nothing_behind() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("identity");
    let mut names = Names {
        mounted: &mounted,
        versions: vec![None; 12],
        next: 0,
        kept: Vec::new(),
    };
    let mut state = 3;
    for _ in 0..2000 {
        names.change(&mut state);
    }
    (0..12).for_each(|name| names.check(name));
    names.kept.clear();
    // The root, and what the names lead to: nothing that has no name any more.
    let most = 1 + names.versions.iter().flatten().count() as u64;
    until("what has no name is forgotten", || {
        let (inodes, leases) = (counted(&socket, "inodes"), counted(&socket, "leases"));
        (inodes <= most && leases < most).then_some(())
    });
}

/// Descriptors of the mount of files that have no name any more.
fn deleted(mounted: &Mounted) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", mounted.pid())).expect("its descriptors");
    let paths = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    paths
        .filter(|path| path.starts_with(&mounted.source) && path.to_string_lossy().ends_with("(deleted)"))
        .count()
}

#[test]
fn files_removed_behind_the_back_take_no_room_though_nobody_looks_for_them_again() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("removed");
    let (source, at) = (&mounted.source, &mounted.at);
    fs::create_dir(source.join("folder")).expect("a folder");
    for number in 0..1000 {
        let name = format!("folder/n{number}");
        fs::write(source.join(&name), content(number)).expect("a file");
        if number % 10 == 0 {
            fs::hard_link(source.join(&name), source.join(format!("folder/l{number}"))).expect("a link");
            assert!(fs::read(at.join(format!("folder/l{number}"))).expect("the link") == content(number));
        }
        assert!(fs::read(at.join(name)).expect("the file") == content(number));
    }
    let open = File::open(at.join("folder/n7")).expect("the file");
    // Half of them by other files that take their places, the rest with their folder.
    for number in (0..1000).step_by(2) {
        fs::write(source.join("new"), content(number + 1)).expect("a new file");
        fs::rename(source.join("new"), source.join(format!("folder/n{number}"))).expect("it takes the place");
    }
    fs::remove_dir_all(source.join("folder")).expect("all are removed");
    // The file that is open stays, by three descriptors at most, and its folder.
    until("what has no name is forgotten", || {
        (deleted(&mounted) <= 4).then_some(())
    });
    let mut bytes = vec![0; 3 * PAGE];
    open.read_exact_at(&mut bytes, 0).expect("it is there");
    assert!(bytes == content(7), "a file that is open keeps its content");
    drop(open);
    until("nothing is left", || {
        (deleted(&mounted) == 0 && counted(&socket, "inodes") == 1).then_some(())
    });
    assert!(!at.join("folder/n3").exists());
}

/// A program that maps a file and looks at all its pages again and again.
struct Mapper(Child);

impl Mapper {
    fn start(path: &Path) -> Option<Self> {
        let script = "import mmap, sys\n\
            f = open(sys.argv[1], 'rb')\n\
            print(flush=True)\n\
            while True:\n\
            \x20m = mmap.mmap(f.fileno(), 65536, mmap.MAP_SHARED, mmap.PROT_READ)\n\
            \x20for i in range(50):\n\
            \x20\x20for p in range(16): m[p * 4096]\n\
            \x20m.close()\n";
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(path).stdout(Stdio::piped());
        let mut child = python.spawn().ok()?;
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut()?, &mut byte).ok()?;
        Some(Self(child))
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads pages through a kept descriptor. While the writer is at rest, each is whole and of its last version.
fn read_kept(file: &File, seed: u64, rounds: &AtomicU64, stop: &AtomicBool) -> (u64, u64, u64) {
    let (mut random, mut judged, mut short, mut stale) = (seed, 0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        let page = self::random(&mut random, 16);
        let mut bytes = vec![0; PAGE];
        let before = rounds.load(Ordering::SeqCst);
        let read = file.read_at(&mut bytes, page * PAGE as u64).expect("no error");
        if before % 2 == 1 || rounds.load(Ordering::SeqCst) != before {
            continue;
        }
        judged += 1;
        short += u64::from(read < PAGE);
        stale += u64::from(read == PAGE && bytes != (before / 2).to_le_bytes().repeat(PAGE / 8));
    }
    (judged, short, stale)
}

fn rewrites_are_read_whole(name: &str, truncating: bool) {
    if !may_mount() {
        return;
    }
    let (mounted, _socket) = with_socket(name);
    let path = |front: bool| if front { &mounted.at } else { &mounted.source }.join("file");
    let pages = |version: u64| version.to_le_bytes().repeat(16 * PAGE / 8);
    fs::write(path(false), pages(0)).expect("a file");
    // A file that is truncated would end its mapper by a signal.
    let Some(mapper) = Mapper::start(&path(true)) else {
        eprintln!("not run: there is no python3");
        return;
    };
    std::thread::sleep(Duration::from_millis(100));
    let kept = File::open(path(true)).expect("the file");
    let _mapper = if truncating {
        drop(mapper);
        None
    } else {
        Some(mapper)
    };
    let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let totals = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|seed| {
                let (kept, rounds, stop) = (&kept, &rounds, &stop);
                scope.spawn(move || read_kept(kept, seed, rounds, stop))
            })
            .collect();
        let begun = Instant::now();
        // Some seconds, and as many more as it takes on a busy machine.
        while begun.elapsed() < Duration::from_secs(4) || rounds.load(Ordering::SeqCst) < 200 {
            assert!(begun.elapsed() < mounts::PATIENCE, "a writer is held up");
            let version = rounds.fetch_add(1, Ordering::SeqCst).div_ceil(2) + 1;
            let mut options = OpenOptions::new();
            let writer = options
                .write(true)
                .truncate(truncating)
                .open(path(version.is_multiple_of(3)));
            writer
                .expect("it opens")
                .write_all_at(&pages(version), 0)
                .expect("it writes");
            rounds.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(version % 5));
        }
        stop.store(true, Ordering::Relaxed);
        let sum = |all: (u64, u64, u64), one: (u64, u64, u64)| (all.0 + one.0, all.1 + one.1, all.2 + one.2);
        let read = readers.into_iter().map(|reader| reader.join().expect("it ends"));
        read.fold((0, 0, 0), sum)
    });
    assert!(totals.0 > 100, "{totals:?}");
    assert_eq!((totals.1, totals.2), (0, 0), "short and stale of {}", totals.0);
}

#[test]
fn a_descriptor_kept_across_writes_to_a_mapped_file_reads_whole_pages_of_the_last_version() {
    rewrites_are_read_whole("kept-written", false);
}

#[test]
fn a_descriptor_kept_across_rewrites_of_a_mapped_file_reads_whole_pages_of_the_last_version() {
    rewrites_are_read_whole("kept-rewritten", true);
}

#[test]
fn a_truncation_that_breaks_no_lease_is_seen_by_the_next_read() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("truncated");
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    for round in 0..20_u8 {
        fs::write(&real, vec![round; 5 * PAGE]).unwrap();
        let kept = File::open(&path).unwrap();
        let mut bytes = vec![0; 5 * PAGE];
        until("it is cached", || {
            assert_eq!(kept.read_at(&mut bytes, 0).unwrap(), 5 * PAGE);
            (counted(&socket, "leases") > 0).then_some(())
        });
        // The kernel breaks no lease for this: it is not opened for writing.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC;
        drop(rustix::fs::open(&real, flags, rustix::fs::Mode::empty()).unwrap());
        assert_eq!(kept.read_at(&mut bytes, 0).unwrap(), 0);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
