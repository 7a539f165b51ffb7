//! What a device gets, what it can do with it, and how it comes back.

mod common;

use common::{MIB, cache, content, key, read_all, until};
use freehold_ecache::{Cache, Client, DeviceState, OpenError, PAGE_SIZE};
use rustix::fs::{FallocateFlags, SealFlags};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

const DEVICES: [(&str, &str, bool); 4] = [
    ("mfc0", "4MiB", false),
    ("mfc1", "4MiB", true),
    ("fimc", "2MiB", false),
    ("jpeg", "2MiB", true),
];
const CLIENT: Client = Client { pid: 4711, uid: 0 };

fn fill(cache: &Cache, pages: u32) {
    for page in 0..pages {
        cache
            .put(key(1, page), &content(key(1, page), 0))
            .expect("a frame is free or can be");
    }
}

fn state(cache: &Cache, name: &str) -> DeviceState {
    let rows = cache.device_rows();
    rows.iter()
        .find(|row| row.name == name)
        .expect("it is in the file")
        .state
}

#[test]
fn pages_come_back_once_and_as_they_were() {
    let cache = cache(&DEVICES);
    fill(&cache, 100);
    let mut page = [0; PAGE_SIZE];
    assert!(cache.get(key(1, 7), &mut page));
    assert!(page == content(key(1, 7), 0));
    assert!(!cache.get(key(1, 7), &mut page), "a hit takes the page out");
    cache.flush_page(key(1, 8));
    assert!(!cache.get(key(1, 8), &mut page));
    cache.flush_inode(key(1, 0).file);
    assert!(!cache.has(key(1, 9)));
    let row = cache.region_row();
    assert_eq!(
        (row.uses.frames, row.uses.free, row.puts, row.hits, row.flushed),
        (3072, 3072, 100, 1, 99)
    );
    assert_eq!(row.measured_bytes, 12 * MIB as u64);
    cache.check_laws().unwrap();
}

#[test]
fn an_untrusted_device_sees_zeros_and_its_own_frames_only() {
    let cache = cache(&DEVICES);
    fill(&cache, 3072);
    let opened = cache.open("mfc0", 0, CLIENT).unwrap();
    let grant = &opened.grant;
    assert_eq!(
        (grant.pages, grant.used, grant.zeroed, grant.discarded),
        (1024, 1024, 1024, 1024)
    );
    let bytes: Vec<u8> = grant.descriptors.iter().flat_map(read_all).collect();
    assert!(bytes.len() == 4 * MIB && bytes.iter().all(|byte| *byte == 0));
    let row = &cache.device_rows()[0];
    assert_eq!((row.state, row.used, row.client), (DeviceState::Open, 1024, Some(4711)));
    // What the device writes nobody gets from the cache, and the other pages are untouched.
    for fd in &grant.descriptors {
        rustix::io::pwrite(fd, &[0xaa; PAGE_SIZE], 0).unwrap();
    }
    let mut page = [0; PAGE_SIZE];
    let hits = (0..3072).filter(|number| {
        let hit = cache.get(key(1, *number), &mut page);
        assert!(!hit || page == content(key(1, *number), 0));
        hit
    });
    assert_eq!(hits.count(), 2048);
    assert_eq!(cache.region_row().mismatched, 0);
    assert!(matches!(
        cache.open("mfc0", 0, CLIENT),
        Err(OpenError::InUse { pid: 4711, .. })
    ));
    assert!(matches!(cache.open("none", 0, CLIENT), Err(OpenError::Unknown(_))));
}

#[test]
fn a_trusted_device_gets_its_memory_as_it_is() {
    let cache = cache(&DEVICES);
    fill(&cache, 3072);
    let opened = cache.open("jpeg", 0, CLIENT).unwrap();
    assert_eq!((opened.grant.zeroed, opened.grant.descriptors.len()), (0, 1));
    assert!(read_all(&opened.grant.descriptors[0]).iter().any(|byte| *byte != 0));
}

/// Whatever was there before: pages, what a trusted client wrote, what an untrusted one did, nothing.
#[test]
fn an_untrusted_device_sees_zeros_whoever_had_its_memory_before() {
    let cache = cache(&[
        ("film", "20MiB", true),
        ("video", "20MiB", false),
        ("jpeg", "4MiB", false),
    ]);
    let mut state = 5_u64;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        u32::try_from((state >> 33) % u64::from(below)).unwrap()
    };
    let (mut pages, mut opens) = (0, [0; 3]);
    for _ in 0..36 {
        // Sometimes hardly any page is put, so that much of the memory is as new.
        for _ in 0..[3, 400, 6_000][draw(3) as usize] {
            let key = key(1, pages);
            cache.put(key, &content(key, 0)).unwrap();
            pages += 1;
        }
        let device = draw(3) as usize;
        let name = ["film", "video", "jpeg"][device];
        let opened = cache.open(name, draw(2) * 700, CLIENT).unwrap();
        let more = opened.grow(0).unwrap();
        for fd in opened.grant.descriptors.iter().chain(&more.descriptors) {
            if device > 0 {
                assert!(read_all(fd).iter().all(|byte| *byte == 0), "{name}, opening {opens:?}");
            }
            rustix::io::pwrite(fd, &[0xaa; PAGE_SIZE], u64::from(draw(8)) * PAGE_SIZE as u64).unwrap();
        }
        opens[device] += 1;
        drop((opened, more));
        until("it comes back", || all_are_back(&cache));
    }
    assert!(opens.iter().all(|opens| *opens > 3), "{opens:?}");
    assert_eq!(cache.region_row().mismatched, 0);
}

fn all_are_back(cache: &Cache) -> bool {
    cache.device_rows().iter().all(|row| row.state == DeviceState::Idle)
}

#[test]
fn part_of_a_device_is_opened_and_grows() {
    let cache = cache(&DEVICES);
    fill(&cache, 3072);
    let opened = cache.open("mfc0", 10, CLIENT).unwrap();
    assert_eq!((opened.grant.used, opened.grant.descriptors.len()), (512, 1));
    assert_eq!(cache.counts().0.cached.get(), 3072 - 512);
    let more = opened.grow(0).unwrap();
    assert_eq!((more.used, more.descriptors.len(), more.zeroed), (1024, 1, 512));
    assert_eq!(opened.grow(1024).unwrap().descriptors.len(), 0);
    assert!(matches!(opened.grow(1025), Err(OpenError::Refused(_))));
    drop((opened, more));
    until("it comes back", || state(&cache, "mfc0") == DeviceState::Idle);
    assert_eq!(cache.counts().0.device.get(), 0);
    cache.check_laws().unwrap();
}

#[test]
fn memory_comes_back_when_nobody_has_it() {
    let cache = cache(&DEVICES);
    for name in ["mfc0", "jpeg"] {
        let opened = cache.open(name, 0, CLIENT).unwrap();
        let kept = opened.grant.descriptors[0].try_clone().unwrap();
        drop(opened);
        let refused = cache.open(name, 0, CLIENT).unwrap_err();
        assert!(
            matches!(refused, OpenError::Held { held: 1, pid: 4711, .. }),
            "{refused}"
        );
        assert_eq!(state(&cache, name), DeviceState::Returning);
        // Nobody else waits for it.
        drop(cache.open("fimc", 0, CLIENT).unwrap());
        drop(kept);
        drop(cache.open(name, 0, CLIENT).unwrap());
        until("it comes back", || state(&cache, name) == DeviceState::Idle);
    }
    until("all is back", || cache.counts().0.free.get() == 3072);
    let rows = cache.device_rows();
    assert_eq!((rows[0].opens, rows[0].refused), (2, 1));
}

#[test]
fn a_hostile_client_changes_nothing_but_its_own() {
    let cache = cache(&DEVICES);
    let opened = cache.open("mfc0", 0, CLIENT).unwrap();
    let fd = &opened.grant.descriptors[0];
    assert_eq!(rustix::fs::ftruncate(fd, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(fd, 64 * MIB as u64), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(fd, SealFlags::WRITE), Err(Errno::PERM));
    assert_eq!(rustix::fs::fstat(fd).unwrap().st_size, 2 << 20);
    // Its own loss, noticed when it comes back.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, flags, 0, MIB as u64).unwrap();
    // A descriptor of the path only, which no lease shows, and a later reopening through it.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = rustix::fs::OFlags::PATH;
    let hidden = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
    drop(opened);
    until("it comes back", || state(&cache, "mfc0") == DeviceState::Idle);
    assert_eq!(cache.device_rows()[0].punched, 1);
    fill(&cache, 3072);
    let path = format!("/proc/self/fd/{}", hidden.as_raw_fd());
    let again = rustix::fs::open(path, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    if let Ok(again) = again {
        // Root may: it is other memory than what caches pages now.
        assert!(read_all(&again).iter().all(|byte| *byte == 0));
        rustix::io::pwrite(&again, &[0xee; 64], 0).unwrap();
    }
    let mut page = [0; PAGE_SIZE];
    assert!((0..3072).all(|number| cache.get(key(1, number), &mut page)));
    assert_eq!(cache.region_row().mismatched, 0);
}
