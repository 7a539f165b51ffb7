//! Objects of files that nobody uses: kept for the next who does, and gone before anybody lacks anything for them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::limits::Regime;
use freehold_server::{ClientRole, ObjectKey, Settings};
use std::fs;
use std::path::{Path, PathBuf};
use support::{Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// Files of a test, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-idle-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(server: &Server, path: &Path, regime: Regime) -> ObjectKey {
    let file = fs::File::open(path).unwrap();
    let source = server.shared.identify(file.into(), 0).unwrap();
    let opened = server
        .shared
        .engine()
        .open_file(&source, regime, "a file", (0, ClientRole::Program));
    opened.unwrap().object
}

fn open_and_close(server: &Server, path: &Path, regime: Regime) -> ObjectKey {
    let object = open(server, path, regime);
    server.shared.engine().close_object(object);
    object
}

fn objects(server: &Server) -> Vec<ObjectKey> {
    let view = server.shared.view().unwrap();
    view.objects.iter().map(|object| object.id).collect()
}

fn descriptors_of(path: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|entry| fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|target| target == path))
        .count()
}

#[test]
fn the_next_to_open_a_file_finds_its_object() {
    let (server, folder) = (Server::start(256), Folder::new("again"));
    let path = folder.file("text", &[7; 10_000]);
    let first = open_and_close(&server, &path, Regime::Conserve);
    server.until("the file system can be unmounted", |_| descriptors_of(&path) == 0);
    assert_eq!(open_and_close(&server, &path, Regime::Conserve), first);
    assert_eq!(objects(&server), [first]);
    server.check();
}

#[test]
fn a_changed_file_is_another_and_so_is_another_regime() {
    let (server, folder) = (Server::start(256), Folder::new("changed"));
    let path = folder.file("text", &[7; 10_000]);
    let first = open_and_close(&server, &path, Regime::Conserve);
    fs::write(&path, [8; 10_001]).unwrap();
    let second = open_and_close(&server, &path, Regime::Conserve);
    assert_eq!(objects(&server), [second], "not {first:?} too");
    let third = open_and_close(&server, &path, Regime::Unmanaged);
    assert_eq!(objects(&server), [third], "not {second:?} too");
    assert!(
        server.shared.engine().take_notices().is_empty(),
        "nobody reads either state"
    );
    server.check();
}

/// What programs map may be larger than the tables (libraries for devices that are not there).
#[test]
fn files_leave_half_of_the_tables_to_private_memory() {
    const TABLE: u32 = 16 * 1_024;
    const FIRST: u64 = 7_000;
    let mut settings = Settings::new(freehold_core::units::FrameCount::new(256));
    settings.pages = freehold_core::units::PageCount::new(TABLE);
    let (server, folder) = (Server::with(&settings), Folder::new("half"));
    let large = |name: &str, pages: u64| {
        let path = folder.file(name, &[]);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(pages * 4_096)
            .unwrap();
        path
    };
    let open_as = |user: u32, path: &Path| {
        let source = server.shared.identify(fs::File::open(path).unwrap().into(), 0).unwrap();
        let opened = server
            .shared
            .engine()
            .open_file(&source, Regime::Conserve, "a file", (user, ClientRole::Program));
        opened.map(|opened| opened.object)
    };
    let first = open_as(0, &large("first", FIRST)).unwrap();
    assert!(open_as(0, &large("too large", u64::from(TABLE) / 2 - FIRST + 1)).is_err());
    let shortages = server.shared.view().unwrap().shortages;
    assert!(shortages.iter().any(|text| text.contains("(1 times)")), "{shortages:?}");
    // Another user has a part of that half, and what nobody uses gives way.
    let fits = large("fits", u64::from(TABLE) / 2 - FIRST);
    assert!(open_as(1_000, &large("a user's", u64::from(TABLE) * 2 / 5)).is_err());
    let second = open_as(0, &fits).unwrap();
    server.shared.engine().close_object(second);
    assert_eq!(objects(&server), [first, second]);
    open_as(0, &large("instead", 100)).unwrap();
    assert_eq!(objects(&server).len(), 2);
    server.check();
}

#[test]
fn few_are_kept_and_none_of_them_in_anybodys_way() {
    let mut settings = Settings::new(freehold_core::units::FrameCount::new(256));
    settings.tables.objects = 32;
    let (server, folder) = (Server::with(&settings), Folder::new("few"));
    for number in 0..40 {
        let path = folder.file(&number.to_string(), &[1; 4096]);
        open_and_close(&server, &path, Regime::Conserve);
    }
    assert_eq!(objects(&server).len(), 4);
    for number in 0..32 {
        server.region(&number.to_string(), 1, true);
    }
    assert_eq!(objects(&server).len(), 32);
    server.check();
}
