//! Programs give the same results while a server takes their pages away at random, all the time.

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Torture;

fn compare(name: &str, program: &str, arguments: &[&str]) {
    compare_at(&[0, 6], name, program, arguments);
}

/// With so many pages taken away every millisecond.
fn compare_at(rates: &[u32], name: &str, program: &str, arguments: &[&str]) {
    if !support::has_rights() {
        return;
    }
    let Ok(native) = Command::new(program).args(arguments).output() else {
        println!("passed over: {program} is not here");
        return;
    };
    let seed = std::env::var("FREEHOLD_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("seed {seed}");
    for &rate in rates {
        let torture = Torture::start(&format!("{name}-{rate}"), rate, seed);
        let managed = torture.command(program).args(arguments).output().expect("a program");
        let counts = torture.counts();
        println!("{counts:?}");
        assert_eq!(text(&native), text(&managed), "{program} under rate {rate}");
        assert_eq!(native.status, managed.status, "{program} under rate {rate}");
        assert!(counts.clients > 0, "the agent was there");
        assert!(counts.shared_faults > 0, "text was served");
        assert_eq!(counts.lost, 0, "pages lost");
    }
}

/// A C program of these tests; none where there is no compiler.
fn compiled(name: &str) -> Option<PathBuf> {
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = std::env::temp_dir().join(format!("freehold-{name}-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .args([&source, "-ldl"])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "the program compiles"),
        Err(error) => {
            println!("passed over: no C compiler ({error})");
            return None;
        }
    }
    Some(program)
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn sort_with_threads() {
    let script = "seq 60000 | sort -r | sort -n --parallel=3 -S 2M | cksum";
    compare("sort", "sh", &["-c", script]);
}

#[test]
fn shell_with_many_children() {
    let script = "for i in 1 2 3 4 5 6 7 8; do x=$(echo $i | tr 1-8 a-h); (echo sub $x; exit $i); echo $?; done";
    compare("shell", "bash", &["-c", script]);
}

#[test]
fn perl_with_a_large_hash() {
    let script = "my %h; $h{$_} = $_ * 3 for 1..50000; my $s = 0; $s += $_ for values %h; print $s";
    compare("perl", "perl", &["-e", script]);
}

#[test]
fn compressors() {
    let script = "seq 30000 | gzip -9 | gzip -d | xz -1 | xz -d | cksum";
    compare("compressors", "sh", &["-c", script]);
}

/// The kernel moves no page of a process while a thread of it unmaps memory, however long that takes: its pages are
/// given up late, not kept.
#[test]
fn a_thread_that_is_long_in_unmapping_memory() {
    if !support::has_rights() {
        return;
    }
    let Some(program) = compiled("unmaps") else { return };
    let torture = Torture::dawdling("unmaps", Duration::from_millis(5));
    let output = torture.command(program.to_str().expect("a path")).output();
    std::fs::remove_file(&program).expect("the program");
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let counts = torture.counts();
    println!("{counts:?}");
    assert!(counts.dawdled >= 5 && counts.surrendered >= 200, "{counts:?}");
    assert_eq!((counts.busy, counts.refused, counts.lost), (0, 0, 0), "{counts:?}");
}

/// What a program moves to an address is never taken in place of what was there when that was ordered.
#[test]
fn memory_moved_onto_memory_that_is_being_taken_away() {
    let Some(program) = compiled("remaps") else { return };
    compare_at(&[6, 200], "remaps", program.to_str().expect("a path"), &[]);
    std::fs::remove_file(&program).expect("the program");
}

/// The kernel brings pages elsewhere in physical memory while they are taken out: those of which it says then that they
/// could not be moved have arrived all the same, several neighbours at once among them.
#[test]
fn pages_that_the_kernel_compacts_meanwhile() {
    let Some(program) = compiled("writers") else { return };
    let (ending, before) = (AtomicBool::new(false), pages_migrated());
    let mut scattered = Scattered::new();
    scattered.scatter();
    let compacted = std::thread::scope(|scope| {
        let compactor = scope.spawn(|| {
            let mut scattered = scattered;
            loop {
                if let Err(error) = std::fs::write("/proc/sys/vm/compact_memory", "1") {
                    println!("passed over: this kernel may not be asked to compact memory ({error})");
                    return false;
                }
                if ending.load(Ordering::Relaxed) {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(20));
                scattered.scatter();
            }
        });
        let compared = std::panic::catch_unwind(|| {
            compare_at(&[64], "writers", program.to_str().expect("a path"), &[]);
        });
        ending.store(true, Ordering::Relaxed);
        compared.expect("the program is right");
        compactor.join().expect("no panic")
    });
    std::fs::remove_file(&program).expect("the program");
    if compacted && support::has_rights() {
        assert!(pages_migrated() > before, "the kernel compacts");
    }
}

/// Memory of which every second page is free: without any the kernel has nothing to bring elsewhere.
struct Scattered {
    start: *mut u8,
    odd: bool,
}

// SAFETY: whoever has this has the mapping, from whatever thread.
unsafe impl Send for Scattered {}

impl Scattered {
    const PAGES: usize = 32 << 10;

    fn new() -> Self {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, which nothing else uses.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), Self::PAGES * 4096, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            libc::madvise(start, Self::PAGES * 4096, libc::MADV_NOHUGEPAGE);
            start.cast()
        };
        Self { start, odd: false }
    }

    /// Touches all pages, and frees those that were not freed the last time.
    fn scatter(&mut self) {
        self.odd = !self.odd;
        for page in 0..Self::PAGES {
            // SAFETY: inside the mapping.
            unsafe { self.start.add(page * 4096).write_volatile(1) };
        }
        for page in (usize::from(self.odd)..Self::PAGES).step_by(2) {
            // SAFETY: inside the mapping, of which nobody wants the content.
            unsafe { libc::madvise(self.start.add(page * 4096).cast(), 4096, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Scattered {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.start.cast(), Self::PAGES * 4096) };
    }
}

/// Pages that the kernel has brought elsewhere so far.
fn pages_migrated() -> u64 {
    let counts = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix("pgmigrate_success "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The break moves, by one thread, while another maps memory at a fixed place where the agent makes some ahead.
#[test]
fn the_break_beside_mappings_at_fixed_places() {
    let Some(program) = compiled("breaks") else { return };
    compare("breaks", program.to_str().expect("a path"), &["500"]);
    std::fs::remove_file(&program).expect("the program");
}

/// Mappings of every kind, the break, threads, forks, other programs, signals, input and output, libraries, limits,
/// filters of system calls, and descriptors that are all closed.
#[test]
fn everything_that_programs_do_with_memory() {
    let Some(program) = compiled("everything") else { return };
    compare("everything", program.to_str().expect("a path"), &[]);
    std::fs::remove_file(&program).expect("the program");
}
