//! System calls of many kinds: files, folders, pipes, sockets, memory, threads' ids, clocks.

use std::fs::File;
use std::hint;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// What the calls work on. What cannot be had is left out: the load is what this machine lets it do.
#[derive(Debug)]
pub(super) struct Kernel {
    sockets: Option<(UnixStream, UnixStream)>,
    zero: Option<File>,
    null: Option<File>,
    buffer: Vec<u8>,
}

impl Kernel {
    pub(super) fn new() -> Self {
        Self {
            sockets: UnixStream::pair().ok(),
            zero: File::open("/dev/zero").ok(),
            null: File::options().write(true).open("/dev/null").ok(),
            buffer: vec![0; 64 << 10],
        }
    }

    /// Some dozens of calls.
    pub(super) fn round(&mut self) {
        if let Some((first, second)) = &mut self.sockets {
            let _ = first
                .write(&self.buffer[..1024])
                .map(|count| second.read(&mut self.buffer[..count]));
        }
        if let Some(zero) = &mut self.zero {
            let _ = zero.read(&mut self.buffer);
        }
        if let Some(null) = &mut self.null {
            let _ = null.write(&self.buffer);
        }
        // Path look-ups, a folder, a file that the kernel writes when it is read.
        for path in ["/", "/proc/self/exe", "/nowhere/at/all"] {
            hint::black_box(std::fs::symlink_metadata(path).is_ok());
        }
        let _ = std::fs::read_dir("/proc/self").map(|entries| hint::black_box(entries.count()));
        let _ = std::fs::read("/proc/self/maps").map(hint::black_box);
        // Memory that comes and goes.
        let _ = rustix::pipe::pipe().map(hint::black_box);
        let memory = rustix::fs::memfd_create("load", rustix::fs::MemfdFlags::CLOEXEC);
        if let Ok(memory) = memory {
            let _ = rustix::fs::ftruncate(&memory, 1 << 20);
            let _ = rustix::io::pwrite(&memory, &self.buffer, 4096);
        }
        rustix::thread::sched_yield();
        hint::black_box(rustix::process::getppid());
    }
}
