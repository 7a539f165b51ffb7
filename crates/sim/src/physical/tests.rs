use super::*;

/// Regions of 4 pages each: shared, a file, a copy-on-write view of it.
fn physical() -> Physical {
    let text = r#"
        name = "three"
        duration = "1ms"
        memory.pool = "12KiB"
        memory.swap = { store = "memory", latency = "1ms", capacity = "4KiB" }
        [[region]]
        name = "shm"
        size = "16KiB"
        [[region]]
        name = "file"
        kind = "file"
        size = "16KiB"
        [[region]]
        name = "view"
        kind = "private"
        copy_of = "file"
    "#;
    Physical::new(&Scenario::parse(text, "three.toml").unwrap())
}

const SHM: usize = 0;
const FILE: usize = 1;
const VIEW: usize = 2;

/// Fills a page; both halves must be legal.
fn bring(physical: &mut Physical, region: usize, page: u32, source: Source) {
    assert_eq!(physical.fill(region, page, source), None);
    assert_eq!(physical.filled(region, page, source, None), None);
}

fn write_out(physical: &mut Physical, region: usize, page: u32) {
    assert_eq!(physical.write_back(region, page), None);
    physical.gone(region, page, true);
}

#[test]
fn a_page_goes_out_and_comes_back() {
    let mut physical = physical();
    bring(&mut physical, SHM, 0, Source::Zero);
    physical.written(SHM, 0, Some(Some(3)));
    assert_eq!((physical.resident(SHM), physical.staying(SHM)), (1, 1));
    assert_eq!(physical.write_back(SHM, 0), None);
    assert_eq!((physical.resident(SHM), physical.staying(SHM)), (1, 0));
    physical.gone(SHM, 0, true);
    assert_eq!(physical.all_resident(), 0);
    bring(&mut physical, SHM, 0, Source::Store);
    // Clean now: it may be dropped.
    assert_eq!(physical.discard(SHM, 0), None);
    assert!(physical.written_by_others(SHM, 0, 1) && !physical.written_by_others(SHM, 0, 3));
}

#[test]
fn lost_writes_are_seen() {
    let mut physical = physical();
    bring(&mut physical, SHM, 0, Source::Zero);
    physical.written(SHM, 0, None);
    assert!(physical.discard(SHM, 0).is_some(), "a dirty page dropped");
    physical.gone(SHM, 0, false);
    assert!(
        physical.fill(SHM, 0, Source::Zero).is_some(),
        "zeros for a page that was written"
    );
    let mut physical = self::physical();
    bring(&mut physical, SHM, 1, Source::Zero);
    physical.written(SHM, 1, None);
    write_out(&mut physical, SHM, 1);
    bring(&mut physical, SHM, 1, Source::Store);
    physical.written_once_more(SHM, 1);
    assert!(physical.discard(SHM, 1).is_some(), "an older version is in the store");
}

#[test]
fn content_that_never_was_is_seen() {
    let mut physical = physical();
    assert!(physical.fill(SHM, 0, Source::Store).is_some());
    assert_eq!(
        physical.fill(FILE, 0, Source::Store),
        None,
        "a file is there from the start"
    );
    assert!(physical.fill(FILE, 0, Source::Store).is_some(), "twice");
    assert!(physical.write_back(SHM, 2).is_some(), "not resident");
}

#[test]
fn frames_are_counted() {
    let mut physical = physical();
    (0..3).for_each(|page| bring(&mut physical, SHM, page, Source::Zero));
    assert_eq!(physical.overdrawn(), None);
    assert_eq!(physical.fill(SHM, 3, Source::Zero), None);
    assert_eq!(physical.overdrawn(), Some((4, 3)));
    physical.not_filled(SHM, 3);
    assert_eq!(physical.overdrawn(), None);
}

#[test]
fn a_frame_is_taken_only_from_what_can_be_read_again() {
    let mut physical = physical();
    bring(&mut physical, FILE, 0, Source::Store);
    assert_eq!(physical.take((FILE, 0), (VIEW, 0)), None);
    assert!(physical.is_resident(VIEW, 0) && !physical.is_resident(FILE, 0));
    assert!(physical.discard(VIEW, 0).is_some(), "the copy is nowhere else");
    assert!(physical.take((FILE, 1), (VIEW, 1)).is_some(), "not resident");
    bring(&mut physical, FILE, 2, Source::Store);
    physical.written(FILE, 2, None);
    assert!(physical.take((FILE, 2), (VIEW, 2)).is_some(), "the base was written");
}

#[test]
fn a_store_fills_up() {
    let mut physical = physical();
    for page in 0..2 {
        bring(&mut physical, SHM, page, Source::Zero);
        physical.written(SHM, page, None);
    }
    assert!(!physical.store_is_full_for(SHM, 0));
    write_out(&mut physical, SHM, 0);
    assert!(physical.store_is_full_for(SHM, 1));
    assert!(!physical.store_is_full_for(SHM, 0), "it has its place already");
    assert!(!physical.store_is_full_for(FILE, 0), "files have their own");
    physical.enlarge_store();
    assert!(!physical.store_is_full_for(SHM, 1));
}
