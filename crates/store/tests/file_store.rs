//! What only the file store does: the device, the queue in front of it, and what may be missing.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{NOW, Told, directory, file, file_configs, page, read, record, write};
use freehold_linux::Errno;
use freehold_linux::sched::SetPolicyError;
use freehold_store::{
    Backend, Completion, Due, FileConfig, FileStore, PageLease, SetupError, Shortfall, Slot, Store, StoreError, Urgency,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

/// A small tmpfs, unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    /// `None` without the right to mount, which is said.
    fn new(name: &str, size: &str) -> Option<Self> {
        let at = directory().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "freehold-test"])
            .arg(&at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at)),
            other => {
                println!("no right to mount a file system ({other:?}): nothing is tested");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn impossible_shapes_and_places_are_refused_by_name() {
    let refused = |config: &FileConfig| FileStore::new(config, Arc::new(Told::default())).unwrap_err();
    let config = FileConfig::new(4, directory());
    assert_eq!(
        refused(&FileConfig {
            slots: 0,
            ..config.clone()
        }),
        SetupError::NoSlots
    );
    assert_eq!(
        refused(&FileConfig {
            parallel: 0,
            ..config.clone()
        }),
        SetupError::NoChannels
    );
    let nowhere = FileConfig::new(4, directory().join("nowhere"));
    assert_eq!(refused(&nowhere), SetupError::Directory(Errno::NOENT));
    let no_files = FileConfig::new(4, Path::new("/proc").to_owned());
    assert!(matches!(refused(&no_files), SetupError::Directory(_)));
}

#[test]
fn the_file_has_no_name_and_goes_with_the_store() {
    let at = directory().join(format!("empty-{}", std::process::id()));
    std::fs::create_dir_all(&at).unwrap();
    let (store, _) = file(&FileConfig::new(4, at.clone()));
    write(&store, 0, &record(1)).unwrap();
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    drop(store);
    std::fs::remove_dir(&at).unwrap();
}

#[test]
fn what_was_asked_for_is_had_or_missed_by_name() {
    for (name, config) in file_configs(4) {
        let (store, _) = file(&config);
        let description = store.describe();
        println!("{name}: {description:?}");
        let missed = |wanted: fn(&Shortfall) -> bool| description.shortfalls.iter().any(wanted);
        let has_ring = description.backend == Backend::IoUring;
        assert_eq!(
            has_ring,
            config.io_uring && !missed(|shortfall| matches!(shortfall, Shortfall::IoUring(_)))
        );
        assert!(has_ring || description.backend == Backend::Threads(8));
        let missed_direct = missed(|shortfall| matches!(shortfall, Shortfall::Direct(_)));
        assert_eq!(description.direct, config.direct && !missed_direct);
        assert_eq!(store.latency(), None);
    }
}

/// Threads of stores in this process that have a real-time priority.
fn boosted() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let fifo = threads.filter(|task| {
        let at = task.as_ref().unwrap().path();
        let name = std::fs::read_to_string(at.join("comm")).unwrap_or_default();
        let stat = std::fs::read_to_string(at.join("stat")).unwrap_or_default();
        // Field 41, counted from after the name's parenthesis: the policy.
        let policy = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38));
        name.trim() == "freehold-store" && policy == Some("1")
    });
    fifo.count()
}

/// Keeps each thread of a store where it tells that a transfer of the first slots has ended, while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    told: Told,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    /// How often it was closed. A thread that was let go may wake up only when it is closed again.
    closings: u32,
    /// How many threads stand before it since then.
    standing: usize,
}

/// The slots that are written for the gate's sake.
const FIRST: u32 = 2;

impl Completion for Gate {
    fn ended(&self, slot: Slot) {
        self.told.ended(slot);
        let mut state = self.state.lock().unwrap();
        // A thread may still be about to tell of an earlier transfer whose end is known.
        if state.closed && slot.get() < FIRST {
            let closing = state.closings;
            state.standing += 1;
            self.changed.notify_all();
            let is_kept = |state: &mut GateState| state.closed && state.closings == closing;
            drop(self.changed.wait_while(state, is_kept).unwrap());
        }
    }
}

/// A store whose threads all stand before the gate, which opens when this is dropped: nothing begins in between.
struct Held<'a>(&'a Gate);

impl<'a> Held<'a> {
    /// Each of at most [`FIRST`] threads has written one of the first slots.
    fn new(gate: &'a Gate, store: &FileStore, threads: u32) -> Self {
        let mut state = gate.state.lock().unwrap();
        let closings = state.closings + 1;
        *state = GateState {
            closed: true,
            closings,
            standing: 0,
        };
        drop(state);
        let held = Self(gate);
        for slot in 0..threads {
            enter(store, slot, Urgency::BACKGROUND);
        }
        store.flush();
        let all = threads as usize;
        let state = gate.state.lock().unwrap();
        drop(gate.changed.wait_while(state, |state| state.standing < all).unwrap());
        for slot in 0..threads {
            store.finish_write(Slot::new(slot)).unwrap();
        }
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().closed = false;
        self.0.changed.notify_all();
    }
}

fn enter(store: &FileStore, slot: u32, urgency: Urgency) {
    let page = PageLease::allocated();
    store.submit_write(NOW, Slot::new(slot), urgency, page).unwrap();
}

/// The threads are above the tasks while somebody hurries, and only then.
#[test]
fn threads_are_boosted_while_a_request_is_urgent() {
    for (io_uring, threads) in [(true, 1), (false, 2)] {
        let config = FileConfig {
            io_uring,
            parallel: 2,
            priority: Some(3),
            ..FileConfig::new(8, directory())
        };
        let gate = Arc::new(Gate::default());
        let store = FileStore::new(&config, Arc::clone(&gate) as _).unwrap();
        let missed = |shortfall: &Shortfall| matches!(shortfall, Shortfall::Priority(_));
        if store.describe().shortfalls.iter().any(missed) {
            eprintln!("SCHED_FIFO is not permitted: nothing to see");
            return;
        }
        let all = threads as usize;
        let held = Held::new(&gate, &store, threads);
        assert_eq!(boosted(), 0);
        enter(&store, 4, Urgency::BACKGROUND);
        assert_eq!(boosted(), 0, "nobody hurries");
        enter(&store, 5, Urgency::new(7));
        enter(&store, 6, Urgency::new(9));
        assert_eq!(boosted(), all, "somebody does");
        store.flush();
        drop(held);
        for slot in 4..7 {
            store.finish_write(Slot::new(slot)).unwrap();
        }
        let held = Held::new(&gate, &store, threads);
        assert_eq!(boosted(), 0, "nobody hurries any more");
        enter(&store, 4, Urgency::BACKGROUND);
        store.raise(NOW, Slot::new(4), Urgency::new(5));
        assert_eq!(boosted(), all, "a request is lifted");
        store.cancel(Slot::new(4));
        assert_eq!(boosted(), 0, "and taken back");
        drop(held);
    }
}

#[test]
fn a_priority_that_is_not_to_be_had_is_named() {
    let impossible = FileConfig {
        priority: Some(1000),
        ..FileConfig::new(4, directory())
    };
    let (store, _) = file(&impossible);
    let priority = |shortfall: &Shortfall| matches!(shortfall, Shortfall::Priority(SetPolicyError::Invalid(_)));
    assert!(store.describe().shortfalls.iter().any(priority));
}

#[test]
fn the_urgent_overtake_those_that_wait() {
    for (name, config) in file_configs(7) {
        let gate = Arc::new(Gate::default());
        let store = FileStore::new(&FileConfig { parallel: 1, ..config }, Arc::clone(&gate) as _).unwrap();
        let held = Held::new(&gate, &store, 1);
        for (slot, urgency) in [(2, 0), (3, 5), (4, 0), (5, 200), (6, 5)] {
            let due = store.submit_write(NOW, Slot::new(slot), Urgency::new(urgency), page(&record(slot)));
            assert_eq!(due, Ok(Due::WhenTold));
        }
        store.raise(NOW, Slot::new(4), Urgency::HIGHEST);
        store.flush();
        drop(held);
        assert_eq!(gate.told.wait_for(6), [0, 4, 5, 3, 6, 2], "{name}");
        for slot in 2..7 {
            assert!(store.due(NOW, Slot::new(slot)).has_come(NOW));
            store.finish_write(Slot::new(slot)).unwrap();
        }
    }
}

#[test]
fn a_store_dropped_in_the_middle_leaves_nothing_behind() {
    for (_, config) in file_configs(64) {
        let (store, _) = file(&config);
        for slot in 0..64 {
            store
                .submit_write(NOW, Slot::new(slot), Urgency::BACKGROUND, page(&record(slot)))
                .unwrap();
        }
        store.flush();
        drop(store);
    }
}

#[test]
fn a_file_system_without_room_refuses_the_store() {
    let Some(mount) = Mount::new("no-room", "64k") else {
        return;
    };
    let config = FileConfig::new(17, mount.0.clone());
    let refused = FileStore::new(&config, Arc::new(Told::default())).unwrap_err();
    let (bytes, errno) = (17 * 4096, Errno::NOSPC);
    assert_eq!(refused, SetupError::NoRoom { bytes, errno });
    let (store, _) = file(&FileConfig::new(16, mount.0.clone()));
    assert!(store.describe().shortfalls.contains(&Shortfall::OnTmpfs));
    (0..16).for_each(|slot| write(&store, slot, &record(slot)).unwrap());
}

#[test]
fn a_file_system_that_fills_up_refuses_writes_and_keeps_what_it_has() {
    let Some(mount) = Mount::new("full", "64k") else { return };
    for io_uring in [true, false] {
        let config = FileConfig {
            preallocate: false,
            io_uring,
            ..FileConfig::new(32, mount.0.clone())
        };
        let (store, _) = file(&config);
        let refused: Vec<u32> = (0..32)
            .filter(|&slot| match write(&store, slot, &record(slot)) {
                Ok(()) => false,
                Err(StoreError::Io { errno, .. }) => {
                    assert_eq!(errno, Errno::NOSPC);
                    true
                }
                Err(other) => panic!("{other}"),
            })
            .collect();
        assert_eq!(refused.len(), 16);
        for slot in (0..32).filter(|slot| !refused.contains(slot)) {
            assert!(read(&store, slot).unwrap() == record(slot));
        }
    }
}
