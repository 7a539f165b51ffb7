//! A device that cannot read some of a file's blocks: what programs of a mount are told is what the device says.

mod common;
mod mounts;

use mounts::{Mounted, folders, may_mount, until};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 4096;
/// The file's pages, and those of them that can be read.
const PAGES: usize = 1100;
const GOOD: usize = 1000;

/// A file system on a file, of which the end is cut off.
struct Broken {
    image: PathBuf,
    source: PathBuf,
}

fn run(words: &[&str]) -> Option<String> {
    let output = Command::new(words.first()?).args(words.get(1..)?).output().ok()?;
    if !output.status.success() {
        eprintln!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    String::from_utf8(output.stdout).ok()
}

impl Broken {
    /// `None` where the tools or loop devices are not there.
    fn new(source: &Path) -> Option<Self> {
        let image = source.with_file_name("image");
        let file = File::create(&image).expect("an image");
        file.set_len(64 << 20).expect("its size");
        let at = image.to_str().expect("UTF-8");
        run(&["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", at])?;
        let broken = Self {
            image: image.clone(),
            source: source.to_path_buf(),
        };
        let place = source.to_str().expect("UTF-8");
        run(&["mount", "-o", "loop", at, place])?;
        fs::write(source.join("file"), content()).expect("a file");
        // What comes next is read from the device.
        run(&["umount", place])?;
        run(&["mount", "-o", "loop,ro", at, place])?;
        let map = run(&["filefrag", "-v", source.join("file").to_str().expect("UTF-8")])?;
        let (first, whole) = extent(&map)?;
        assert!(whole, "the file lies in one piece");
        let length = (first + GOOD as u64) * PAGE as u64;
        let image = OpenOptions::new().write(true).open(&broken.image).expect("the image");
        image.set_len(length).expect("it is cut off");
        Some(broken)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        let _ = run(&["umount", "-l", self.source.to_str().unwrap_or_default()]);
    }
}

/// The first block of a file, and whether all others follow.
fn extent(map: &str) -> Option<(u64, bool)> {
    let line = map.lines().find(|line| line.trim_start().starts_with("0:"))?;
    let field = line.split(':').nth(2)?.trim();
    let first = field.split("..").next()?.trim().parse().ok()?;
    Some((first, map.contains("1 extent found")))
}

/// It begins as a program does, so that the kernel keeps its pages once it is mapped.
fn content() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..PAGES)
        .flat_map(|page| (page as u64).to_le_bytes().repeat(PAGE / 8))
        .collect();
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes
}

/// Reads to the end, or to an error: what came, and the error.
fn read_on(file: &File, at_once: usize) -> (Vec<u8>, Option<i32>) {
    let mut bytes = Vec::new();
    loop {
        let mut more = vec![0; at_once];
        match file.read_at(&mut more, bytes.len() as u64) {
            Ok(0) => return (bytes, None),
            Ok(read) => bytes.extend_from_slice(&more[..read]),
            Err(error) => return (bytes, error.raw_os_error()),
        }
    }
}

/// Pages on both sides of the error, brought in together, while the kernel is told the file's size again and again: an
/// answer that ends at the error must not stand for zeros behind it.
fn across_the_error(path: &Path, right: &[u8]) {
    let file = File::open(path).expect("the file");
    let (first, count) = (GOOD - 4, 16);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let size = fs::metadata(path).expect("its size").len();
                    assert_eq!(size, (PAGES * PAGE) as u64);
                }
            });
        }
        let mut wrong = 0;
        for _ in 0..3000 {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
            let mut bytes = vec![7; count * PAGE];
            match file.read_at(&mut bytes, (first * PAGE) as u64) {
                Ok(read) => wrong += u32::from(read == 0 || bytes[..read] != right[first * PAGE..first * PAGE + read]),
                Err(error) => assert_eq!(error.raw_os_error(), Some(5)),
            }
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(wrong, 0, "reads of zeros, or of an end");
    });
}

#[test]
fn an_error_behind_bytes_is_an_error_and_no_end_of_the_file() {
    if !may_mount() {
        return;
    }
    let (source, at) = folders("errors");
    let Some(broken) = Broken::new(&source) else {
        eprintln!("not run: it takes mkfs.ext4, filefrag and loop devices");
        return;
    };
    let mounted = Mounted::of(&source, &at, "8MiB", &[]);
    let (path, right) = (mounted.at.join("file"), content());
    let judge = |what: &str| {
        for at_once in [PAGE, 3 * PAGE + 5, 1 << 20] {
            let (bytes, error) = read_on(&File::open(&path).expect("the file"), at_once);
            // The last pages before the error may be told as an error too where they are read together.
            assert_eq!(error, Some(5), "{what}: {} bytes, {at_once} at once", bytes.len());
            assert!(
                bytes.len() <= GOOD * PAGE && bytes == right[..bytes.len()],
                "{what}: other bytes"
            );
            assert!(bytes.len() + (1 << 20) > GOOD * PAGE, "{what}: {} bytes", bytes.len());
        }
    };
    judge("direct");
    judge("again");
    let script = "import mmap, sys\n\
        f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)\n\
        for p in range(1, 999): assert int.from_bytes(m[p * 4096:p * 4096 + 8], 'little') == p\n";
    let mut python = Command::new("python3");
    let Ok(ended) = python.arg("-c").arg(script).arg(&path).status() else {
        eprintln!("not run: there is no python3");
        return;
    };
    assert!(ended.success(), "the pages before the error can be mapped");
    judge("by the kernel's pages");
    across_the_error(&path, &right);
    let size = fs::metadata(&path).expect("its size").len();
    assert_eq!(size, (PAGES * PAGE) as u64);
    drop(mounted);
    until("the source is let go", || {
        let place = broken.source.to_str().expect("UTF-8");
        run(&["umount", place])
    });
}
