//! Counts pages of another process whose pages are known: a second run of this test, which does as it is told.

use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use freehold_linux::PAGE_SIZE;
use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::resident::{self, Counts, Method, Pages, Process, ProcessError};

const VARIABLE: &str = "FREEHOLD_TEST_RESIDENT";
/// Pages of every mapping that the second process makes.
const PAGES: usize = 96;

/// Not a test of its own: what the second process does.
#[test]
fn the_other_process() {
    let Ok(object) = std::env::var(VARIABLE) else { return };
    let object = std::fs::OpenOptions::new().read(true).write(true).open(object).unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (what, written) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let read: usize = words.next().unwrap().parse().unwrap();
        let descriptor = if what == "anonymous" { -1 } else { object.as_raw_fd() };
        let address = map(what, descriptor);
        touch(address, written, read);
        // On a line of its own: the test harness writes to standard output too.
        println!("\nat {:x}", address.addr());
        std::io::stdout().flush().unwrap();
    }
}

/// Maps [`PAGES`] pages.
fn map(what: &str, descriptor: i32) -> *mut c_void {
    use libc::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE};
    let (protection, flags) = match what {
        "anonymous" => (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS),
        "code" => (PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED),
        _ => (PROT_READ | PROT_WRITE, MAP_SHARED),
    };
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGES * PAGE_SIZE,
            protection,
            flags,
            descriptor,
            0,
        )
    };
    assert_ne!(address, libc::MAP_FAILED);
    // SAFETY: advice on the mapping just made. Huge pages would make more resident than is touched.
    unsafe { libc::madvise(address, PAGES * PAGE_SIZE, libc::MADV_NOHUGEPAGE) };
    address
}

/// Writes the first pages and reads the next.
fn touch(address: *mut c_void, written: usize, read: usize) {
    for page in 0..written + read {
        // SAFETY: within the mapping of `PAGES` pages, which nobody else refers to.
        unsafe {
            let byte = address.cast::<u8>().add(page * PAGE_SIZE);
            if page < written {
                byte.write_volatile(7);
            } else {
                byte.read_volatile();
            }
        }
    }
}

struct Other {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    process: Process,
}

impl Other {
    fn start(object: &Memfd) -> Self {
        let path = format!("/proc/{}/fd/{}", std::process::id(), object.as_fd().as_raw_fd());
        let mut child = Command::new(std::env::current_exe().expect("the other process"))
            .args(["--exact", "the_other_process", "--nocapture"])
            .env(VARIABLE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the other process");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("the other process"));
        let process = Process::open(child.id()).expect("the other process");
        Self {
            child,
            orders,
            answers,
            process,
        }
    }

    /// Makes a mapping there, of which so many pages are written and so many read; where it is.
    fn map(&mut self, what: &str, written: usize, read: usize) -> u64 {
        writeln!(
            self.orders.as_mut().expect("the other process"),
            "{what} {written} {read}"
        )
        .expect("the other process");
        for line in (&mut self.answers).lines() {
            if let Some(address) = line.expect("the other process").strip_prefix("at ") {
                return u64::from_str_radix(address, 16).expect("the other process");
            }
        }
        panic!("the other process has gone");
    }

    /// What the mapping at `address` has, frame by frame; `None`, and said so, where that takes rights.
    fn count(&self, address: u64, aside: &[Process]) -> Option<Counts> {
        let resident = resident::count(&self.process, aside).expect("the other process");
        if resident.method != Method::Frames {
            eprintln!("not tested: {}", resident.hindrance.expect("the other process"));
            return None;
        }
        Some(at(&resident, address))
    }

    fn sums(&self, address: u64) -> Counts {
        at(
            &resident::count_areas(&self.process).expect("the other process"),
            address,
        )
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.orders.take();
        self.child.wait().expect("the other process");
    }
}

/// Neighbouring mappings may be one area to the kernel: no test has two alike.
fn at(resident: &resident::Resident, address: u64) -> Counts {
    let found = resident
        .areas
        .iter()
        .find(|(area, _)| (area.start..area.end).contains(&address));
    found.expect("the mapping").1
}

fn data(pages: u64) -> Pages {
    Pages { code: 0, data: pages }
}

fn code(pages: u64) -> Pages {
    Pages { code: pages, data: 0 }
}

fn object() -> Memfd {
    Memfd::create(c"freehold-test-resident", PAGES).expect("a memory object")
}

#[test]
fn private_pages_count_and_the_zero_page_does_not() {
    let object = object();
    let mut other = Other::start(&object);
    let address = other.map("anonymous", 60, 20);
    let sums = other.sums(address);
    assert_eq!((sums.private, sums.shared), (data(60), data(0)));
    let Some(counts) = other.count(address, &[]) else {
        return;
    };
    assert_eq!((counts.private, counts.shared, counts.zero), (data(60), data(0), 20));
}

#[test]
fn a_page_is_shared_when_another_process_maps_it() {
    let object = object();
    let mut other = Other::start(&object);
    let address = other.map("object", 50, 0);
    assert_eq!(other.sums(address).private, data(50));
    let Some(alone) = other.count(address, &[]) else { return };
    assert_eq!((alone.private, alone.shared), (data(50), data(0)));
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    mapping.populate(freehold_linux::PageRange::new(0, 30)).unwrap();
    assert_eq!(other.sums(address).shared, data(30));
    let beside = other.count(address, &[]).unwrap();
    assert_eq!((beside.private, beside.shared), (data(20), data(30)));
    // Unless that one is a pager, which does not count.
    let this = [Process::open(std::process::id()).unwrap()];
    let aside = other.count(address, &this).unwrap();
    assert_eq!((aside.private, aside.shared), (data(50), data(0)));
}

#[test]
fn a_page_mapped_twice_by_one_process_is_one_private_page_and_code_if_it_may_run() {
    let object = object();
    let mut other = Other::start(&object);
    let (first, second) = (other.map("object", 40, 0), other.map("code", 40, 0));
    let Some(plain) = other.count(first, &[]) else { return };
    let executable = other.count(second, &[]).unwrap();
    assert_eq!((executable.private, executable.shared), (code(40), code(0)));
    assert_eq!(plain.resident(), 0);
    // The kernel's sums cannot tell.
    assert_eq!(
        (other.sums(first).shared, other.sums(second).shared),
        (data(40), code(40))
    );
}

#[test]
fn totals_are_the_sums_of_both_ways_where_nothing_is_mapped_twice() {
    let object = object();
    let mut other = Other::start(&object);
    other.map("anonymous", 10, 0);
    let resident = resident::count(&other.process, &[]).unwrap();
    let sums = resident::count_areas(&other.process).unwrap();
    assert_eq!(sums.total().resident(), resident.total().resident());
    assert_eq!(
        sums.total().shared.total() + sums.total().private.total(),
        sums.total().resident()
    );
    assert!(sums.total().shared.code > 0 && sums.total().private.data >= 10);
}

#[test]
fn a_process_that_has_ended_is_said_to_have() {
    let object = object();
    let mut other = Other::start(&object);
    other.map("anonymous", 1, 0);
    let pid = other.process.pid();
    other.orders.take();
    // Ended, not waited for: it has no memory. Its output ends with it.
    for line in (&mut other.answers).lines() {
        line.unwrap();
    }
    let gone = |error: &ProcessError| matches!(error, ProcessError::NoMemory { .. } | ProcessError::Ended { .. });
    while !resident::count(&other.process, &[]).is_err_and(|error| gone(&error)) {
        std::thread::yield_now();
    }
    other.child.wait().unwrap();
    assert_eq!(
        resident::count(&other.process, &[]).unwrap_err(),
        ProcessError::Ended { pid }
    );
    assert_eq!(other.process.name().unwrap_err(), ProcessError::Ended { pid });
}

#[test]
fn numbers_of_nobody_and_threads_of_the_kernel_are_refused_by_name() {
    assert_eq!(
        Process::open(u32::MAX).unwrap_err(),
        ProcessError::Absent { pid: u32::MAX }
    );
    let threads = (2..200).filter_map(|pid| Process::open(pid).ok());
    let kernel = threads.filter(|process| process.name().is_ok_and(|name| name == "kthreadd"));
    for process in kernel {
        assert_eq!(
            resident::count(&process, &[]).unwrap_err(),
            ProcessError::NoMemory { pid: process.pid() }
        );
    }
}
