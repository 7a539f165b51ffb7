//! Memory objects and mappings, against what the kernel reports of them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use freehold_linux::memory::{Access, MapError, Memfd, MemfdError, ResidencyError, ResidencySource, SharedMapping};
use freehold_linux::userfault::{Features, Modes, Userfault};
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use std::os::unix::fs::FileExt;

/// A field of this mapping's entry in smaps, in KiB (or the words of VmFlags).
fn smaps(mapping: &SharedMapping, field: &str) -> String {
    let start = format!("{:x}-", mapping.base().addr());
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let entry = text.lines().skip_while(|line| !line.starts_with(&start));
    let line = entry.skip(1).find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").to_owned()
}

fn write(mapping: &SharedMapping, page: usize, value: u8) {
    // SAFETY: within a mapping that this test owns.
    unsafe { mapping.page(page).unwrap().write_volatile(value) }
}

#[test]
fn residency_counts_the_pages_touched_by_both_mechanisms() {
    let object = Memfd::create(c"residency", 16).unwrap();
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    assert_eq!(object.resident(mapping.whole()).unwrap().pages, 0);
    for page in [1, 2, 9] {
        write(&mapping, page, 1);
    }
    let whole = object.resident(mapping.whole()).unwrap();
    println!("counted by {:?}", whole.source);
    assert_eq!(whole.pages, 3);
    assert_eq!(object.cachestat(PageRange::new(2, 8)).unwrap(), 2);
    let counted = object.mincore(PageRange::new(2, 8)).unwrap();
    assert_eq!((counted.pages, counted.source), (2, ResidencySource::Mincore));
    assert_eq!(object.resident(PageRange::new(3, 0)).unwrap().pages, 0);
    assert_eq!(object.resident(PageRange::new(10, 7)), Err(ResidencyError::OutOfBounds));
}

#[test]
fn zap_keeps_the_frame_and_punch_gives_it_back() {
    let object = Memfd::create(c"zap", 4).unwrap();
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    mapping.populate(mapping.whole()).unwrap();
    write(&mapping, 0, 77);
    assert_eq!(smaps(&mapping, "Rss"), "16");
    mapping.zap(PageRange::new(0, 2)).unwrap();
    assert_eq!(smaps(&mapping, "Rss"), "8");
    assert_eq!(object.resident(mapping.whole()).unwrap().pages, 4);
    // SAFETY: within the mapping.
    assert_eq!(unsafe { mapping.base().read_volatile() }, 77);
    object.punch_hole(PageRange::new(0, 3)).unwrap();
    assert_eq!(object.resident(mapping.whole()).unwrap().pages, 1);
    assert_eq!(smaps(&mapping, "Rss"), "4");
}

#[test]
fn ranges_outside_are_refused_before_the_kernel_is_asked() {
    let object = Memfd::create(c"bounds", 4).unwrap();
    let mapping = SharedMapping::new(&object, PageRange::new(1, 2), Access::ReadWrite).unwrap();
    for range in [
        PageRange::new(0, 3),
        PageRange::new(2, 1),
        PageRange::new(0, 0),
        PageRange::new(usize::MAX, 2),
    ] {
        assert_eq!(mapping.zap(range), Err(Errno::INVAL), "{range:?}");
        assert_eq!(mapping.populate(range), Err(Errno::INVAL), "{range:?}");
    }
    assert_eq!(object.punch_hole(PageRange::new(4, 1)), Err(Errno::INVAL));
    assert_eq!(object.punch_hole(PageRange::new(0, 0)), Err(Errno::INVAL));
    let none = SharedMapping::new(&object, PageRange::new(3, 2), Access::Read);
    assert_eq!(none.unwrap_err(), MapError::OutOfBounds);
    assert_eq!(
        Memfd::create(c"long", usize::MAX).unwrap_err(),
        MemfdError::TooLong(usize::MAX)
    );
    let base = mapping.base().addr();
    assert_eq!(mapping.page_of(base + PAGE_SIZE), Some(1));
    assert_eq!(mapping.page_of(base + 2 * PAGE_SIZE), None);
    assert_eq!(mapping.page_of(base - 1), None);
}

#[test]
fn a_mapping_of_a_part_starts_there() {
    let object = Memfd::create(c"part", 4).unwrap();
    let whole = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    let part = SharedMapping::new(&object, PageRange::new(2, 2), Access::Read).unwrap();
    write(&whole, 3, 9);
    // SAFETY: within the mapping.
    assert_eq!(unsafe { part.page(1).unwrap().read_volatile() }, 9);
    assert_eq!(part.populate(part.whole()), Err(Errno::INVAL), "not writable");
}

#[test]
fn mappings_are_kept_from_children_and_from_huge_pages() {
    let object = Memfd::create(c"advice", 1024).unwrap();
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    let flags = smaps(&mapping, "VmFlags");
    let flags: Vec<_> = flags.split(' ').collect();
    assert!(flags.contains(&"dc"), "not inherited: {flags:?}");
    assert!(flags.contains(&"nh"), "no huge pages: {flags:?}");
}

#[test]
fn lock_on_fault_locks_what_comes_and_fills_no_hole() {
    let object = Memfd::create(c"lock", 8).unwrap();
    let mut mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    mapping.lock_on_fault().unwrap();
    assert_eq!(object.resident(mapping.whole()).unwrap().pages, 0);
    write(&mapping, 0, 1);
    write(&mapping, 5, 1);
    assert_eq!(smaps(&mapping, "Locked"), "8");
    mapping.zap(PageRange::single(5)).unwrap();
    assert_eq!(
        (smaps(&mapping, "Rss"), object.resident(mapping.whole()).unwrap().pages),
        ("4".to_owned(), 2)
    );
}

/// Whether the frame behind `page` is locked, by /proc/kpageflags.
fn frame_is_locked(mapping: &SharedMapping, page: usize) -> bool {
    const KPF_MLOCKED: u64 = 1 << 33;
    let word = |path: &str, index: u64| {
        let mut bytes = [0; 8];
        std::fs::File::open(path)
            .unwrap()
            .read_exact_at(&mut bytes, index * 8)
            .unwrap();
        u64::from_ne_bytes(bytes)
    };
    let address = u64::try_from(mapping.page(page).unwrap().addr()).unwrap();
    let entry = word("/proc/self/pagemap", address / 4096);
    assert_eq!(entry >> 63, 1, "the page is mapped");
    word("/proc/kpageflags", entry & ((1 << 55) - 1)) & KPF_MLOCKED != 0
}

#[test]
fn a_locked_alias_keeps_pages_locked_when_an_unlocked_mapping_is_zapped() {
    const PAGES: usize = 64;
    let object = Memfd::create(c"alias", PAGES).unwrap();
    let mut alias = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    alias.lock_on_fault().unwrap();
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    for page in 0..PAGES {
        write(&alias, page, 1);
        write(&mapping, page, 2);
        mapping.zap(PageRange::single(page)).unwrap();
    }
    assert_eq!(smaps(&mapping, "Rss"), "0");
    assert_eq!(smaps(&alias, "Locked"), (PAGES * 4).to_string());
    if std::fs::File::open("/proc/kpageflags").is_ok() {
        assert!((0..PAGES).all(|page| frame_is_locked(&alias, page)));
    } else {
        println!("NOT CHECKED: /proc/kpageflags is not readable here, only smaps was looked at");
    }
}

#[test]
fn unlocking_takes_the_lock_away() {
    let object = Memfd::create(c"unlock", 4).unwrap();
    let mut mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    mapping.lock_on_fault().unwrap();
    mapping.populate(mapping.whole()).unwrap();
    assert_eq!((smaps(&mapping, "Locked").as_str(), mapping.is_locked()), ("16", true));
    mapping.unlock().unwrap();
    assert_eq!((smaps(&mapping, "Locked").as_str(), mapping.is_locked()), ("0", false));
}

#[test]
fn unsupported_features_are_named_and_unmapped_ranges_refused() {
    let available = Userfault::available().unwrap();
    println!("features: {available}");
    assert!(available.contains(Features::SELF_PAGING));
    let userfault = Userfault::open(Features::SELF_PAGING).unwrap();
    assert_eq!(userfault.features(), Features::SELF_PAGING);
    let object = Memfd::create(c"gone", 1).unwrap();
    let mapping = SharedMapping::of_whole(&object, Access::ReadWrite).unwrap();
    let range = mapping.addresses(mapping.whole()).unwrap();
    drop(mapping);
    // Another test may map something there by now, which WP on anonymous memory or a busy range would tell apart; a
    // range that is not registered is refused in any case.
    assert_eq!(userfault.continue_(range, false).unwrap_err().errno, Errno::NOENT);
    assert_eq!(userfault.write_protect(range, true), Err(Errno::NOENT));
    let _ = Modes::MISSING | Modes::MINOR;
}
