//! Everything at once: threads that put, get and flush pages whose contents tell their version, devices that are opened
//! and closed by threads and by processes that are killed. Seconds; minutes where `FREEHOLD_SOAK` is set, and as
//! long as `FREEHOLD_SOAK_SECONDS` says.

mod common;

use common::{Random, cache, content, key, until};
use freehold_client::device::Device;
use freehold_ecache::serve::DeviceServer;
use freehold_ecache::{Cache, Client, DeviceState, PAGE_SIZE};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const DEVICES: [(&str, &str, bool); 4] = [
    ("mfc0", "6MiB", false),
    ("mfc1", "4MiB", true),
    ("fimc", "2MiB", false),
    ("jpeg", "2MiB", true),
];
/// Pages of files; the region has 3584 frames.
const PAGES: u32 = 5000;
const HOLDER: &str = "FREEHOLD_TEST_DEVICE";

/// One test at a time: a process that one starts has the descriptors of the other until its program begins.
static ALONE: Mutex<()> = Mutex::new(());

/// Three, or what `FREEHOLD_SOAK_SECONDS` says.
fn seconds() -> Duration {
    let soak = std::env::var_os("FREEHOLD_SOAK").map(|_| 300);
    let said = std::env::var("FREEHOLD_SOAK_SECONDS").ok();
    let said = said.map(|text| text.parse().expect("FREEHOLD_SOAK_SECONDS is a number"));
    Duration::from_secs(said.or(soak).unwrap_or(3))
}

/// A front: each page has a version, and whether the cache may have it.
struct Front {
    cache: Arc<Cache>,
    pages: Vec<Mutex<(u64, bool)>>,
    stop: AtomicBool,
}

impl Front {
    fn new(cache: Arc<Cache>) -> Self {
        Self {
            cache,
            pages: (0..PAGES).map(|_| Mutex::new((0, false))).collect(),
            stop: AtomicBool::new(false),
        }
    }

    /// As a file system does it: one thread at a time is at a page. Returns hits.
    fn run(&self, seed: u64) -> u64 {
        let (mut random, mut hits) = (Random(seed), 0);
        let mut page = [0; PAGE_SIZE];
        while !self.stop.load(Ordering::Relaxed) {
            let number = u32::try_from(random.below(u64::from(PAGES))).expect("it is below");
            let at = key(7 + u64::from(number % 3), number);
            let mut row = self.pages[number as usize].lock().expect("no thread panics");
            match random.below(20) {
                0 => {
                    self.cache.flush_page(at);
                    *row = (row.0 + 1, false);
                }
                1..=9 => row.1 = self.cache.put(at, &content(at, row.0)).is_ok(),
                _ => {
                    let hit = self.cache.get(at, &mut page);
                    assert!(!hit || (row.1 && page == content(at, row.0)), "a stale or foreign page");
                    hits += u64::from(hit);
                    row.1 = false;
                }
            }
        }
        hits
    }

    /// Opens and closes a device, which writes rubbish where it can.
    fn open(&self, name: &str, seed: u64) -> u64 {
        let (mut random, mut opens) = (Random(seed), 0);
        while !self.stop.load(Ordering::Relaxed) {
            let used = u32::try_from(random.below(512)).expect("it is below");
            let opened = self
                .cache
                .open(name, used, Client::default())
                .expect("a closed device is never refused");
            for fd in &opened.grant.descriptors {
                let mut first = [1; PAGE_SIZE];
                rustix::io::pread(fd, &mut first, 0).expect("it can be read");
                assert!(
                    opened.grant.trusted || first == [0; PAGE_SIZE],
                    "an untrusted device sees zeros"
                );
                rustix::io::pwrite(fd, &[0xdd; 3 * PAGE_SIZE], 0).expect("it can be written");
            }
            opens += 1;
            if random.below(2) == 0 {
                drop(opened.grow(0).expect("growing is always served"));
            }
        }
        opens
    }
}

#[test]
fn pages_survive_devices_and_each_other() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let front = Front::new(Arc::new(cache(&DEVICES)));
    let (hits, opens) = std::thread::scope(|scope| {
        let front = &front;
        let users: Vec<_> = (0..3).map(|seed| scope.spawn(move || front.run(seed))).collect();
        let names = ["mfc0", "mfc1", "fimc", "jpeg"];
        let openers = names
            .into_iter()
            .zip(100..)
            .map(|(name, seed)| scope.spawn(move || front.open(name, seed)));
        let openers: Vec<_> = openers.collect();
        std::thread::sleep(seconds());
        front.stop.store(true, Ordering::Relaxed);
        let sum = |threads: Vec<std::thread::ScopedJoinHandle<'_, u64>>| {
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .sum::<u64>()
        };
        (sum(users), sum(openers))
    });
    assert!(hits > 100 && opens > 20, "{hits} hits, {opens} openings");
    let rows = || front.cache.device_rows();
    until("all come back", || {
        rows().iter().all(|row| row.state == DeviceState::Idle)
    });
    assert_eq!(front.cache.region_row().mismatched, 0);
    front.cache.check_laws().unwrap();
}

/// A client that opens its device again and again until it is killed, or its parent has ended.
fn hold(socket: &Path, name: &str) -> ! {
    let parent = parent_id();
    while parent_id() == parent {
        // In use, as long as the last one's memory is on its way back.
        if let Ok(mut device) = Device::open(socket, name, 1) {
            let _ = device.grow(0);
        }
    }
    std::process::exit(1)
}

#[test]
fn clients_die_at_any_time() {
    if let Ok(name) = std::env::var(HOLDER) {
        let socket = std::env::var_os("FREEHOLD_SOCKET").expect("the parent says it");
        hold(Path::new(&socket), &name);
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Arc::new(cache(&DEVICES));
    let socket = std::env::temp_dir().join(format!("freehold-die-{}", std::process::id()));
    let _server = DeviceServer::listen(&socket, Arc::clone(&cache), Box::new(serde_json::Map::new)).unwrap();
    let front = Front::new(Arc::clone(&cache));
    let (mut random, mut kills) = (Random(9), 0);
    std::thread::scope(|scope| {
        let user = scope.spawn(|| front.run(5));
        let end = Instant::now() + seconds();
        while Instant::now() < end {
            let (name, _, _) = DEVICES[kills % 4];
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "clients_die_at_any_time"])
                .stdout(Stdio::null());
            let mut child = command
                .env(HOLDER, name)
                .env("FREEHOLD_SOCKET", &socket)
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
        }
        front.stop.store(true, Ordering::Relaxed);
        user.join().unwrap();
    });
    let rows = || cache.device_rows();
    until("all come back", || {
        rows().iter().all(|row| row.state == DeviceState::Idle)
    });
    assert!(kills > 3 && rows().iter().map(|row| row.opens).sum::<u64>() > 3);
    assert_eq!(cache.region_row().mismatched, 0);
    cache.check_laws().unwrap();
}
