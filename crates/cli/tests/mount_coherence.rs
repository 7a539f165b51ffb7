//! What changes behind the back of a mount is never served stale, and the page cache never passes its size.

mod common;
mod mounts;

use freehold_client::device::{Device, status};
use mounts::{Mounted, may_mount, succeed, until};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

/// A mount's status row.
fn row(socket: &Path) -> serde_json::Value {
    let document: serde_json::Value = serde_json::from_str(&status(socket).expect("a status")).expect("JSON");
    document["mount"].clone()
}

/// A number of a mount's status row.
fn counted(socket: &Path, name: &str) -> u64 {
    row(socket)[name].as_u64().expect("a number")
}

fn with_socket(name: &str, cache: &str) -> (Mounted, std::path::PathBuf) {
    let (source, at) = mounts::folders(name);
    let socket = std::env::temp_dir().join(format!("freehold-mount-{name}-{}", std::process::id()));
    let mounted = Mounted::of(&source, &at, cache, &["--socket", socket.to_str().expect("UTF-8")]);
    until("the socket is there", || socket.exists().then_some(()));
    (mounted, socket)
}

#[test]
fn writes_behind_the_back_are_seen_by_the_next_read() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("behind", "4MiB");
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    fs::write(&real, vec![1; 10 * PAGE]).unwrap();
    let reader = File::open(&path).unwrap();
    let seen = |offset| {
        let mut byte = [0];
        assert_eq!(reader.read_at(&mut byte, offset).unwrap(), 1);
        byte[0]
    };
    assert_eq!((seen(0), seen(0), counted(&socket, "leases")), (1, 1, 1));
    assert!(counted(&socket, "own_hits") > 0);
    // It waits until nothing of the file is cached.
    let writer = OpenOptions::new().read(true).write(true).open(&real).unwrap();
    assert_eq!((counted(&socket, "lease_breaks"), counted(&socket, "leases")), (1, 0));
    for round in 2..50 {
        writer.write_at(&[round; 10], 5).unwrap();
        assert_eq!(seen(7), round);
    }
    assert_eq!(counted(&socket, "uncached_inodes"), 1);
    drop(writer);
    until("it is cached again", || {
        assert_eq!(seen(7), 49);
        (counted(&socket, "leases") == 1).then_some(())
    });
    OpenOptions::new()
        .write(true)
        .open(&real)
        .unwrap()
        .set_len(100)
        .unwrap();
    let mut to = [0; PAGE];
    assert_eq!(reader.read_at(&mut to, 0).unwrap(), 100);
    // Replaced by rename: the open file is the old one, the name the new one.
    fs::write(mounted.source.join("new"), b"new").unwrap();
    fs::rename(mounted.source.join("new"), &real).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(seen(7), 49);
    fs::remove_file(&real).unwrap();
    assert!(!path.exists());
}

/// Reads pages here and there until it is stopped: none is of a version below one whose write has ended. How many.
fn read_versions(
    seed: u64,
    stop: &AtomicBool,
    written: &[AtomicU64],
    path_of: impl Fn(u64) -> std::path::PathBuf,
) -> u64 {
    let pages = written.len() as u64 / 3;
    let mut number = seed;
    let mut reads = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(17);
        let (file, page) = ((number >> 33) % 3, (number >> 40) % pages);
        let reading = File::open(path_of(file)).expect("the file");
        let mut bytes = vec![0; PAGE];
        let least = written[usize::try_from(file * pages + page).expect("a page")].load(Ordering::SeqCst);
        reading.read_exact_at(&mut bytes, page * PAGE as u64).expect("a page");
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a word")))
            .collect();
        assert!(
            words.iter().all(|word| *word >= least),
            "stale: {} below {least}",
            words[0]
        );
        reads += 1;
    }
    reads
}

#[test]
fn versions_of_a_file_only_ever_go_up_whoever_writes_it_and_wherever() {
    if !may_mount() {
        return;
    }
    let (mounted, _socket) = with_socket("versions", "4MiB");
    let pages = 64_u64;
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    for file in 0..3 {
        fs::write(mounted.source.join(format!("f{file}")), vec![0; PAGE * 64]).unwrap();
    }
    let path_of = |front: bool, file: u64| {
        let folder = if front { &mounted.at } else { &mounted.source };
        folder.join(format!("f{file}"))
    };
    // What a page holds at least: a write of that version has ended.
    let written: Vec<AtomicU64> = (0..3 * pages).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for file in 0..3 {
            let (stop, written, rounds) = (&stop, &written, &rounds);
            scope.spawn(move || {
                let mut version = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    let front = version.is_multiple_of(3);
                    let writer = OpenOptions::new().write(true).open(path_of(front, file)).unwrap();
                    for page in 0..pages {
                        let bytes: Vec<u8> = version.to_le_bytes().repeat(PAGE / 8);
                        writer.write_all_at(&bytes, page * PAGE as u64).unwrap();
                        written[usize::try_from(file * pages + page).unwrap()].store(version, Ordering::SeqCst);
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                    drop(writer);
                    std::thread::sleep(Duration::from_millis(version % 7));
                }
            });
        }
        let readers: Vec<_> = (0..3_u64)
            .map(|reader| {
                let (stop, written) = (&stop, &written);
                scope.spawn(move || read_versions(reader, stop, written, |file| path_of(true, file)))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(reads > 100 && rounds.load(Ordering::Relaxed) > 10, "{reads} reads");
    });
}

#[test]
fn mappings_follow_a_writer_behind_the_back() {
    if !may_mount() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("not run: there is no python3");
        return;
    }
    let (mounted, _socket) = with_socket("mapped", "4MiB");
    let script = "import mmap, os, sys, time\n\
        real, path = sys.argv[1], sys.argv[2]\n\
        open(real, 'wb').write(b'a' * 40960)\n\
        f = open(path, 'rb'); m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)\n\
        assert m[20000:20004] == b'aaaa'\n\
        w = os.open(real, os.O_RDWR)\n\
        def seen(what):\n\
        \x20for _ in range(2000):\n\
        \x20\x20if m[20000:20004] == what: return True\n\
        \x20\x20time.sleep(0.001)\n\
        os.pwrite(w, b'bbbb', 20000); assert seen(b'bbbb')\n\
        s = mmap.mmap(w, 0); os.close(w)\n\
        s[20000:20004] = b'cccc'; assert seen(b'cccc')\n\
        assert os.pread(f.fileno(), 4, 20000) == b'cccc'\n\
        s[20000:20004] = b'dddd'; assert os.pread(f.fileno(), 4, 20000) == b'dddd'\n";
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    succeed(
        "python3",
        &["-c", script, real.to_str().unwrap(), path.to_str().unwrap()],
        &mounted.at,
    );
}

/// The kernel passes over a size that it is told while pages are taken back.
#[test]
fn a_file_that_grows_behind_the_back_is_mapped_as_far_as_fstat_has_told() {
    let Some(program) = common::compiled("grows").filter(|_| may_mount()) else {
        return;
    };
    let (mounted, _socket) = with_socket("grows", "4MiB");
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    fs::write(&real, []).unwrap();
    let mut grow = Command::new(program);
    let output = grow.arg(&path).arg(&real).arg("4000").output().unwrap();
    assert_eq!(output.stdout, b"ok\n", "{output:?}");
}

/// Pages of these files that the kernel holds, by cachestat(2).
fn held_by_kernel(files: &[File]) -> u64 {
    files
        .iter()
        .map(|file| freehold_linux::cached::cached_pages(file, 0, 0).expect("cachestat"))
        .sum()
}

/// Maps a file three times, and looks at pages of it here and there and in order.
const MAP_MUCH: &str = "import mmap, sys, random\n\
    n = int(sys.argv[2]); pages = int(sys.argv[3]); r = random.Random(n)\n\
    for i in range(3):\n\
    \x20f = open(sys.argv[1], 'rb')\n\
    \x20m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n\
    \x20assert m[:4] == b'\\x7fELF'\n\
    \x20for p in [r.randrange(1, pages) for _ in range(3000)] + list(range(3, pages, 3)):\n\
    \x20\x20assert m[p*4096:p*4096+8] == bytes([n] * 4) + p.to_bytes(4, 'little')\n\
    \x20m.close(); f.close()\n";

/// Four files that begin as programs do, whose pages the kernel therefore keeps.
fn write_texts(source: &Path, pages: u32) {
    for number in 0..4_u8 {
        let text = File::create(source.join(format!("text{number}"))).expect("a file");
        for page in 0..pages {
            let mut bytes = [[number; 4], page.to_le_bytes()].concat().repeat(512);
            if page == 0 {
                bytes[8..12].copy_from_slice(b"text");
                bytes[..4].copy_from_slice(b"\x7fELF");
            }
            text.write_all_at(&bytes, u64::from(page) * 4096).expect("a page");
        }
    }
}

#[test]
fn four_programs_that_map_much_text_never_make_it_pass_its_size() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("text", "8MiB");
    let frames = 2048;
    // 24 MiB each; 125 MiB each in the long run.
    let soak = std::env::var_os("FREEHOLD_SOAK").is_some();
    let pages: u32 = if soak { 125 * 256 } else { 24 * 256 };
    write_texts(&mounted.source, pages);
    let open: Vec<File> = (0..4)
        .map(|n| File::open(mounted.at.join(format!("text{n}"))).unwrap())
        .collect();
    let mut programs: Vec<_> = (0..4)
        .map(|number| {
            let path = mounted.at.join(format!("text{number}"));
            let mut python = Command::new("python3");
            python.arg("-c").arg(MAP_MUCH).arg(path);
            python.args([number.to_string(), pages.to_string()]);
            python.stdin(Stdio::null()).spawn().expect("python3 starts")
        })
        .collect();
    let (mut most, mut samples) = (0, 0);
    let limit = Instant::now() + mounts::PATIENCE * if soak { 30 } else { 1 };
    while programs
        .iter_mut()
        .any(|program| matches!(program.try_wait(), Ok(None)))
    {
        assert!(Instant::now() < limit, "the programs do not end");
        let kernel = held_by_kernel(&open);
        // One document: both numbers are of one moment.
        let pages = row(&socket)["page_cache"].clone();
        let (own, given) = (pages["own"].as_u64().unwrap(), pages["kernel"].as_u64().unwrap());
        assert!(own + given <= frames, "{own} + {given}");
        assert!(kernel <= frames, "the kernel holds {kernel} pages");
        (most, samples) = (kernel.max(most), samples + 1);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(programs.iter_mut().all(|program| program.wait().unwrap().success()));
    assert!(samples > 20 && most > 256, "{samples} samples, at most {most} pages");
    assert!(counted(&socket, "invalidations") > 0);
}

#[test]
fn a_tree_of_real_programs_works_while_devices_take_the_memory_and_return_it() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("tree", "16MiB");
    let (source, at) = (&mounted.source, &mounted.at);
    let mut used = Vec::new();
    for program in ["python3", "git", "gcc", "cc1"] {
        let found = match program {
            "cc1" => Command::new("gcc")
                .arg("-print-prog-name=cc1")
                .output()
                .map(|out| out.stdout),
            _ => Command::new("which").arg(program).output().map(|out| out.stdout),
        };
        let path = found
            .ok()
            .and_then(|out| String::from_utf8(out).ok())
            .map(|path| path.trim().to_owned());
        match path.filter(|path| Path::new(path).is_file()) {
            Some(path) => {
                fs::copy(path, source.join(program)).unwrap();
                used.push(program);
            }
            None => eprintln!("not run: there is no {program}"),
        }
    }
    let done = AtomicBool::new(false);
    let opens = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for name in ["mfc", "jpeg"] {
                    // A program that is being started has this one's descriptors for a moment, and so the device's.
                    let device = until("a closed device opens", || Device::open(&socket, name, 0).ok());
                    std::thread::sleep(Duration::from_millis(3));
                    drop(device);
                    opens.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        // Also where a program fails: the other thread ends then too.
        let _end = Raised(&done);
        for round in 0..2 {
            run_programs(source, at, &used, round);
        }
    });
    assert!(opens.load(Ordering::Relaxed) > 2);
    assert!(counted(&socket, "victim_hits") > 0, "the device memory was of use");
}

/// Is set when this is dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs programs of the mount on files of the mount; what they make is what the real ones make.
fn run_programs(source: &Path, at: &Path, programs: &[&str], round: u32) {
    let program = |name: &str| at.join(name);
    if programs.contains(&"python3") {
        let said = succeed(
            program("python3"),
            &["-c", "import json; print(json.dumps([1, 2]))"],
            at,
        );
        assert_eq!(said, b"[1, 2]\n");
    }
    if programs.contains(&"gcc") && programs.contains(&"cc1") {
        let text = format!("int puts(const char *);\nint main(void) {{ puts(\"round {round}\"); return 0; }}\n");
        fs::write(at.join("a.c"), text).expect("it works");
        let output = format!("a{round}.s");
        succeed(
            program("gcc"),
            &["-B", at.to_str().expect("it works"), "-O2", "-S", "a.c", "-o", &output],
            at,
        );
        let native = at.with_file_name("native.s");
        succeed(
            "gcc",
            &["-O2", "-S", "a.c", "-o", native.to_str().expect("it works")],
            source,
        );
        assert!(fs::read(at.join(output)).expect("it works") == fs::read(native).expect("it works"));
    }
    if programs.contains(&"git") {
        let git = program("git");
        let repository = at.join(format!("repository{round}"));
        fs::create_dir(&repository).expect("it works");
        let run = |words: &[&str]| {
            succeed(
                &git,
                &[&["-c", "user.name=a", "-c", "user.email=a@b"], words].concat(),
                &repository,
            )
        };
        run(&["init", "-q"]);
        for number in 0..20 {
            fs::write(repository.join(format!("f{number}")), vec![b'0' + number; 5000]).expect("it works");
        }
        run(&["add", "."]);
        run(&["commit", "-q", "-m", "one"]);
        assert_eq!(run(&["status", "--porcelain"]), b"");
        run(&["fsck", "--strict", "--no-progress"]);
        let real = source.join(format!("repository{round}"));
        assert_eq!(
            succeed("git", &["-c", "safe.directory=*", "status", "--porcelain"], &real),
            b""
        );
    }
}

#[test]
fn the_command_shows_what_a_mount_tells() {
    if !may_mount() {
        return;
    }
    let (mounted, socket) = with_socket("shown", "4MiB");
    fs::write(mounted.at.join("file"), vec![1; 5 * PAGE]).unwrap();
    assert_eq!(fs::read(mounted.at.join("file")).unwrap().len(), 5 * PAGE);
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        let output = command
            .arg("status")
            .args(words)
            .arg("--socket")
            .arg(&socket)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(shown["mount"]["page_cache"]["frames"], 1024);
    assert_eq!(shown["mount"]["mountpoint"], mounted.at.to_str().unwrap());
    let text = run(&[]);
    for words in ["page_cache.frames  1024", "victim_cache", "mfc", "jpeg"] {
        let found = text.lines().any(|line| {
            let line: Vec<&str> = line.split_whitespace().collect();
            words.split_whitespace().all(|word| line.contains(&word))
        });
        assert!(found, "no {words} in:\n{text}");
    }
}
