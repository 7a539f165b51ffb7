//! io_uring on the files of a mount. Where the kernel has none or forbids it, the test says so and ends.

mod common;
mod mounts;

use freehold_linux::Errno;
use freehold_linux::event::Event;
use freehold_linux::memory::PageLease;
use freehold_linux::ring::{Direction, Ring, Transfer};
use mounts::{Mounted, may_mount};
use std::fs::{self, File, OpenOptions};
use std::sync::Arc;

fn ring_of(file: &File) -> Result<Ring, Errno> {
    let event = Arc::new(Event::new().expect("an event"));
    Ring::new(file.try_clone().expect("a descriptor").into(), event, 1)
}

fn may_ring() -> bool {
    let any = File::open(std::env::current_exe().expect("this program")).expect("its file");
    match ring_of(&any) {
        Ok(_) => true,
        Err(errno @ (Errno::NOSYS | Errno::PERM)) => {
            eprintln!("not run: io_uring is absent or forbidden here ({errno})");
            false
        }
        Err(errno) => panic!("io_uring: {errno}"),
    }
}

/// One read or write by io_uring: what was read or written.
fn by_ring(file: &File, direction: Direction, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut ring = ring_of(file).expect("io_uring");
    let mut page = PageLease::allocated();
    page.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    let length = if direction == Direction::Read {
        4096
    } else {
        bytes.len()
    };
    let transfer = Transfer {
        tag: 0,
        direction,
        page,
        length,
        offset,
    };
    ring.begin(transfer).expect("room for one");
    loop {
        ring.wait().expect("the ring");
        if let Some(mut ended) = ring.next_ended() {
            return ended.page.bytes_mut()[..ended.result.expect("bytes")].to_vec();
        }
    }
}

/// The kernel took what it had read for no progress, and read it again until the buffer was full.
#[test]
fn io_uring_reads_to_the_end_of_a_file_and_no_further() {
    if !may_mount() || !may_ring() {
        return;
    }
    let mounted = Mounted::new("ring", "4MiB", &[]);
    let (real, path) = (mounted.source.join("file"), mounted.at.join("file"));
    for size in [1, 1024, 4095, 4096, 5000] {
        let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        fs::write(&path, &bytes).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for place in [&path, &real] {
            let reader = File::open(place).unwrap();
            for offset in [0, 100, 1024, 4096, 5000] {
                let expected = bytes.get(offset..).unwrap_or_default();
                let expected = &expected[..expected.len().min(4096)];
                for file in [&reader, &file] {
                    let read = by_ring(file, Direction::Read, offset as u64, &[]);
                    assert!(read == expected, "{size} bytes from {offset}: {}", read.len());
                }
            }
        }
        for (offset, new) in [(size, "behind"), (0, "front"), (size + 9000, "far")] {
            let written = by_ring(&file, Direction::Write, offset as u64, new.as_bytes());
            assert_eq!(written, new.as_bytes());
            let now = fs::read(&real).unwrap();
            assert_eq!(&now[offset..offset + new.len()], new.as_bytes());
            assert_eq!(fs::metadata(&path).unwrap().len(), now.len() as u64);
            assert!(fs::read(&path).unwrap() == now, "{size} bytes, written at {offset}");
        }
    }
}
