//! What a fault costs over each store, when it must evict a page: microseconds in the thread that faults, in all and of
//! CPU time. The pages compress to about a third.
//!
//! `cargo run --release -p freehold-pager --example store_faults [DIRECTORY]`
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a measurement")]

use freehold_linux::clock;
use freehold_pager::core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_pager::core::units::{Duration, FrameCount, PageCount};
use freehold_pager::store::FileConfig;
use freehold_pager::{Bound, Config, MappedRegion, Pager, StoreMedium, StoreShape};

const PAGES: u32 = 2048;
const FRAMES: u32 = 512;
const WORDS: usize = 512;

fn pager(medium: StoreMedium) -> Pager {
    let limits = Limits {
        frames: FrameCount::new(2 * FRAMES),
        pages: PageCount::new(PAGES),
        reservations: 1,
        objects: 1,
        tasks: 1,
        mappings: 1,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    };
    let mut config = Config::new(limits);
    config.medium = medium;
    config.store = StoreShape {
        latency: Duration::ZERO,
        parallel: 8,
    };
    Pager::new(config).unwrap()
}

/// Fills a page with words of which a third is random.
fn fill(bound: &Bound<'_>, region: &MappedRegion, page: usize) {
    let mut state = page as u64;
    for word in 0..WORDS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let value = if word % 3 == 0 { state } else { word as u64 };
        bound.write_word(region, page * WORDS + word, value).unwrap();
    }
}

fn touch(times: &mut Vec<(u64, u64)>, access: impl FnOnce()) {
    let (begun, cpu) = (clock::now(), clock::thread_cpu_time());
    access();
    let cpu = clock::thread_cpu_time() - cpu;
    let time = clock::now().as_nanos() - begun.as_nanos();
    times.push((time, u64::try_from(cpu.as_nanos()).unwrap()));
}

fn show(what: &str, mut times: Vec<(u64, u64)>) {
    let mut line = format!("{what:28}");
    for (name, part) in [("time", 0), ("CPU", 1)] {
        times.sort_unstable_by_key(|time| [time.0, time.1][part]);
        let at = |per_mille: usize| {
            let time = times[(times.len() - 1) * per_mille / 1000];
            [time.0, time.1][part] as f64 / 1000.0
        };
        let (p50, p99, most) = (at(500), at(990), at(1000));
        line.push_str(&format!("  {name} p50 {p50:7.1} p99 {p99:7.1} max {most:8.1}"));
    }
    println!("{line}");
}

fn measure(name: &str, medium: StoreMedium) {
    let pager = pager(medium);
    let kind = ReservationKind::Hard;
    let capacity = FrameCount::new(FRAMES);
    let reservation = pager.reserve(ReservationSpec { capacity, kind }).unwrap();
    let object = pager
        .create_object(ObjectSpec {
            kind: ObjectKind::Private,
            pages: PageCount::new(PAGES),
            regime: Regime::Conserve,
        })
        .unwrap();
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    let pages = PAGES as usize;
    (0..pages).for_each(|page| fill(&bound, &region, page));
    let (mut dirty, mut clean) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        for page in 0..pages {
            // Every page in a frame is dirty, so that each fault needs a write-back before its read.
            touch(&mut dirty, || bound.write_word(&region, page * WORDS, 1).unwrap());
        }
    }
    for page in 0..pages {
        // The first of these still evict dirty pages; later ones only drop clean ones.
        touch(&mut clean, || {
            bound.read_word(&region, page * WORDS).unwrap();
        });
    }
    println!("{name}: {:?}", pager.store().describe());
    show("  write-back and swap-in", dirty);
    show("  swap-in", clean.split_off(pages / 2));
    let stats = pager.store().stats();
    println!(
        "  {} frames of its own, {} bytes compressed",
        stats.frames.get(),
        stats.stored_bytes
    );
}

fn main() {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".to_owned());
    let file = |io_uring, direct| {
        StoreMedium::File(FileConfig {
            io_uring,
            direct,
            priority: Some(50),
            ..FileConfig::new(0, directory.clone().into())
        })
    };
    measure("memory", StoreMedium::Memory);
    measure("compressed", StoreMedium::Compressed(None));
    measure("file by io_uring, direct", file(true, true));
    measure("file by io_uring, buffered", file(true, false));
    measure("file by threads, direct", file(false, true));
}
