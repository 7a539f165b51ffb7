//! What a fault costs, side by side with the bare mechanism: SIGBUS, one ioctl, return. In nanoseconds, per fault.
//!
//! `cargo run --release -p freehold-pager --example fault_floor [SIBLINGS [record]]`: beside so many threads that spin,
//! and with everything recorded.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use freehold_linux::fault::{FaultInfo, Handled, install};
use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{AddressRange, PageRange, clock};
use freehold_pager::core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_pager::core::units::{Duration, FrameCount, PageCount};
use freehold_pager::{Config, EventCapacity, Pager, StoreShape};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

const PAGES: usize = 512;
const ROUNDS: usize = 5;

static FLOOR: OnceLock<Userfault> = OnceLock::new();
static SIBLINGS: AtomicI32 = AtomicI32::new(0);

fn floor_hook(fault: FaultInfo) -> Handled {
    let range = AddressRange::page_containing(fault.address).unwrap();
    match FLOOR.get().unwrap().continue_(range, false) {
        Ok(()) => Handled::Yes,
        Err(_) => Handled::No,
    }
}

/// Touches every page and returns the sorted times.
fn touch_all(base: *mut u8, zap: impl Fn(usize), write: bool) -> Vec<u64> {
    let mut times: Vec<u64> = (0..PAGES)
        .map(|page| {
            zap(page);
            let begun = clock::now();
            let at = base.wrapping_add(page * 4096);
            // SAFETY: the page is managed by whoever's handler is installed, which maps it readable and writable.
            unsafe {
                if write {
                    at.write_volatile(1);
                } else {
                    at.read_volatile();
                }
            }
            clock::now().as_nanos() - begun.as_nanos()
        })
        .collect();
    times.sort_unstable();
    times
}

fn show(what: &str, times: &[u64]) {
    let at = |part: usize| times[(times.len() - 1) * part / 1000];
    println!("{what:34} p50 {:6}  p99 {:6}  max {:7}", at(500), at(990), at(1000));
}

fn zap(base: *mut u8, page: usize) {
    // SAFETY: a page of a shared mapping of ours: dropping its entry loses nothing.
    unsafe { libc::madvise(base.wrapping_add(page * 4096).cast(), 4096, libc::MADV_DONTNEED) };
}

fn floor() {
    let memfd = Memfd::create(c"floor", PAGES).unwrap();
    let mut alias = SharedMapping::of_whole(&memfd, Access::ReadWrite).unwrap();
    alias.lock_on_fault().unwrap();
    alias.populate(PageRange::new(0, PAGES)).unwrap();
    let mapping = SharedMapping::of_whole(&memfd, Access::ReadWrite).unwrap();
    let userfault = FLOOR.get_or_init(|| Userfault::open(Features::SELF_PAGING).unwrap());
    // SAFETY: the mapping is ours and hands out raw pointers only.
    unsafe { userfault.register(mapping.addresses(mapping.whole()).unwrap(), Modes::ALL) }.unwrap();
    let _handler = install(floor_hook).unwrap();
    // The first pass zaps nothing; every later one pays for the TLB entries that a zap takes with it.
    touch_all(mapping.base(), |page| zap(mapping.base(), page), true);
    show(
        "floor: SIGBUS + CONTINUE",
        &touch_all(mapping.base(), |page| zap(mapping.base(), page), true),
    );
}

fn limits() -> Limits {
    let pages = u32::try_from(4 * PAGES).unwrap();
    Limits {
        frames: FrameCount::new(pages),
        pages: PageCount::new(pages),
        reservations: 4,
        objects: 4,
        tasks: 4,
        mappings: 8,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    }
}

fn events() -> EventCapacity {
    EventCapacity {
        faults: 1 << 14,
        waits: 1 << 14,
        evictions: 1 << 14,
        transfers: 1 << 14,
        lock_holds: 1 << 16,
        shortest_hold: Duration::ZERO,
    }
}

fn ours(record: bool) {
    let mut config = Config::new(limits());
    config.store = StoreShape {
        latency: Duration::ZERO,
        parallel: 1,
    };
    config.events = record.then(events);
    let pager = Pager::new(config).unwrap();
    let capacity = FrameCount::new(u32::try_from(PAGES + 64).unwrap());
    let kind = ReservationKind::Hard;
    let reservation = pager.reserve(ReservationSpec { capacity, kind }).unwrap();
    let spec = |pages| ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(u32::try_from(pages).unwrap()),
        regime: Regime::Conserve,
    };
    let object = pager.create_object(spec(PAGES)).unwrap();
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let large = task.map(pager.create_object(spec(2 * PAGES)).unwrap()).unwrap();
    let _bound = task.enter().unwrap();
    show("ours: zero fill (write)", &touch_all(region.base(), |_| {}, true));
    show(
        "ours: soft fault",
        &touch_all(region.base(), |page| zap(region.base(), page), true),
    );
    show(
        "ours: fill with evictions (write)",
        &touch_all(large.base(), |_| {}, true),
    );
    show("ours: swap-in with evictions", &touch_all(region.base(), |_| {}, false));
    show("ours: upgrade", &touch_all(region.base(), |_| {}, true));
    let report = pager.report().unwrap();
    println!(
        "zap calls {} for {} pages, punches {} for {}, longest hold {} ns",
        report.zap_calls,
        report.pages_zapped,
        report.punch_calls,
        report.pages_punched,
        report.longest_hold.get()
    );
}

fn main() {
    let siblings: i32 = std::env::args().nth(1).map_or(0, |argument| argument.parse().unwrap());
    let record = std::env::args().nth(2).is_some_and(|argument| argument == "record");
    SIBLINGS.store(siblings, Ordering::Relaxed);
    for _ in 0..siblings {
        std::thread::spawn(|| {
            while SIBLINGS.load(Ordering::Relaxed) > 0 {
                std::hint::spin_loop()
            }
        });
    }
    for _ in 0..ROUNDS {
        floor();
        ours(record);
    }
    SIBLINGS.store(0, Ordering::Relaxed);
}
