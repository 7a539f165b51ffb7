//! Serving text and read-only data of the program and its libraries from the server's objects.
//!
//! Runs on the agent thread: the code that is replaced here is anybody's but this library's. A range is replaced by a
//! mapping of the object that holds the same file, at the same place, with the same protection, and then announced.
//! Only what the file's own program headers call read-only is touched, never what the dynamic linker has changed.

use core::sync::atomic::Ordering;

use freehold_protocol::message::{Answer, Regime, Request};

use crate::client::Client;
use crate::maps::{self, Line};
use crate::process::{PAGE, Process};
use crate::session::{Outgoing, Session, SessionError};
use crate::settings::SETTINGS;
use crate::sys::{self, FileId};
use crate::{report, userfault};

mod elf;

/// Files that are opened before the first answer is read.
const FILES: usize = 24;
/// Ranges of one file.
const RANGES: usize = 8;
const PATH: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    start: usize,
    end: usize,
    offset: usize,
    protection: usize,
}

/// One file of which the program has text or read-only data.
#[derive(Clone, Copy, Debug)]
struct File {
    id: FileId,
    fd: i32,
    path: [u8; PATH],
    path_length: usize,
    ranges: [Range; RANGES],
    count: usize,
    /// Where the file's first page is, and how far its mappings go.
    start: usize,
    end: usize,
    object: u32,
    memory: i32,
    mapped: u32,
}

const NO_FILE: File = File {
    id: FileId {
        major: 0,
        minor: 0,
        inode: 0,
    },
    fd: -1,
    path: [0; PATH],
    path_length: 0,
    ranges: [Range {
        start: 0,
        end: 0,
        offset: 0,
        protection: 0,
    }; RANGES],
    count: 0,
    start: 0,
    end: 0,
    object: 0,
    memory: -1,
    mapped: 0,
};

/// Serves what the client's table names and is not served yet. What cannot be served stays as it is, and is counted.
/// `meanwhile` carries out the server's orders: it is called while pages to be locked are brought in, for which others
/// may have to leave.
pub(crate) fn serve(client: &Client, process: &Process, session: &mut Session, meanwhile: &mut dyn FnMut()) {
    let mut round = Round {
        files: [NO_FILE; FILES],
        count: 0,
        current: None,
    };
    // The kernel goes on behind the address that it came to, so what is replaced meanwhile is not met again.
    maps::for_each(is_whole, |line| {
        round.look(client, line);
        if round.count == FILES {
            round.serve(client, process, session, meanwhile);
        }
    });
    round.end_file(client);
    round.serve(client, process, session, meanwhile);
}

/// Files that are served together.
struct Round {
    files: [File; FILES],
    count: usize,
    /// The file whose mappings are being met.
    current: Option<File>,
}

impl Round {
    fn look(&mut self, client: &Client, line: &Line<'_>) {
        let same = |file: &File| file.id == line.file && line.file.inode != 0;
        if !self.current.as_ref().is_some_and(same) {
            self.end_file(client);
            self.current = begin_file(line);
        }
        if let Some(file) = &mut self.current {
            file.end = line.end;
            add_range(file, line);
        }
    }

    fn end_file(&mut self, client: &Client) {
        if let Some(file) = self.current.take()
            && is_linked(client, &file)
            && let Some(place) = self.files.get_mut(self.count)
        {
            *place = file;
            self.count += 1;
        }
    }

    fn serve(&mut self, client: &Client, process: &Process, session: &mut Session, meanwhile: &mut dyn FnMut()) {
        let files = self.files.get_mut(..self.count).unwrap_or_default();
        self.count = 0;
        open(files, session);
        map(client, files, session);
        finish(client, process, files, session);
        // Only now: answers come in the order of the requests, so all announcements' must have been read.
        for file in files.iter().filter(|file| file.mapped > 0) {
            let path = file.path.get(..file.path_length).unwrap_or_default();
            if SETTINGS.locks(path) {
                lock(client, file, session, meanwhile);
            }
        }
    }
}

/// Whether a file's mappings may begin there.
fn is_whole(line: &Line<'_>) -> bool {
    line.file.inode != 0 && line.offset == 0 && line.readable && line.private
}

fn begin_file(line: &Line<'_>) -> Option<File> {
    let own = serve as *const () as usize;
    // Served objects have no place in a directory; their names begin so.
    let served = line.path.starts_with(b"/memfd:");
    if !is_whole(line) || served || line.path.len() >= PATH || !line.path.starts_with(b"/") {
        return None;
    }
    let mut file = NO_FILE;
    file.id = line.file;
    file.start = line.start;
    file.path_length = line.path.len();
    for (to, from) in file.path.iter_mut().zip(line.path) {
        *to = *from;
    }
    // This library's own text must always be there.
    (!elf::contains(line.start, line.end - line.start, own)).then_some(file)
}

fn add_range(file: &mut File, line: &Line<'_>) {
    if line.writable || !line.private || !(line.readable || line.executable) {
        return;
    }
    let readable = if line.readable { sys::PROT_READ } else { 0 };
    let executable = if line.executable { sys::PROT_EXEC } else { 0 };
    elf::read_only_parts(file.start, line.start, line.end, |start, end| {
        if let Some(place) = file.ranges.get_mut(file.count) {
            *place = Range {
                start,
                end,
                offset: line.offset + (start - line.start),
                protection: readable | executable,
            };
            file.count += 1;
        }
    });
}

/// Whether the dynamic linker has put the file there: a program may also map one as data.
fn is_linked(client: &Client, file: &File) -> bool {
    let count = client.link_count.load(Ordering::Acquire);
    let mut links = client.links.iter().take(count).map(|link| link.load(Ordering::Relaxed));
    file.count > 0 && links.any(|link| (file.start..file.end).contains(&link))
}

/// Opens the files and asks for their objects, all before the first answer.
fn open(files: &mut [File], session: &mut Session) {
    let regime = if SETTINGS.unmanaged_sharing() {
        Regime::Unmanaged
    } else {
        Regime::Conserve
    };
    let mut packet = Outgoing::new();
    for file in files.iter_mut() {
        let length = file.path_length;
        let Ok(fd) = sys::open(file.path.get(..=length).unwrap_or_default(), false) else {
            continue;
        };
        let path = core::str::from_utf8(file.path.get(..length).unwrap_or_default()).unwrap_or("(not UTF-8)");
        // Another file may have taken the path meanwhile; the one that is mapped cannot be had any more then.
        let same = sys::identity(fd) == Ok(file.id);
        let request = Request::OpenFile { regime, path };
        if same && session.gather(&mut packet, &request, &[fd]).is_ok() {
            file.fd = fd;
        } else {
            sys::close(fd);
        }
    }
    // Where it cannot be sent there are no answers.
    let _ = session.flush(&mut packet);
    for file in files.iter_mut().filter(|file| file.fd >= 0) {
        if let Ok((Answer::Opened { object, .. }, [memory, ..])) = session.receive() {
            file.object = object;
            file.memory = memory;
        }
    }
}

/// Replaces and registers the ranges and announces them, all before the first answer.
fn map(client: &Client, files: &mut [File], session: &mut Session) {
    let mut packet = Outgoing::new();
    for file in files.iter_mut().filter(|file| file.memory >= 0) {
        let mut from = 0;
        while let Some(range) = file.ranges.get(from..file.count).and_then(<[Range]>::first).copied() {
            // Neighbours are announced together where the file is in one piece.
            let mut end = range.end;
            let mut upto = from + 1;
            while let Some(next) = file.ranges.get(upto..file.count).and_then(<[Range]>::first)
                && next.start == end
                && next.offset == range.offset + (end - range.start)
            {
                end = next.end;
                upto += 1;
            }
            let whole = Range { end, ..range };
            let parts = file.ranges.get(from..upto).unwrap_or_default();
            file.mapped += pieces(client, file, (whole, parts), session, &mut packet);
            from = upto;
        }
    }
    let _ = session.flush(&mut packet);
}

/// Replaces a run of ranges but for the pages that this library has changed; how many announcements go out.
fn pieces(
    client: &Client,
    file: &File,
    (whole, parts): (Range, &[Range]),
    session: &mut Session,
    packet: &mut Outgoing,
) -> u32 {
    let mut sent = 0;
    let mut start = whole.start;
    while start < whole.end {
        let kept = |page: usize| client.patched.iter().any(|own| own.load(Ordering::Relaxed) == page);
        if kept(start) {
            start += PAGE;
            continue;
        }
        let patched = client.patched.iter().map(|own| own.load(Ordering::Relaxed));
        let end = patched.filter(|own| *own > start).fold(whole.end, usize::min);
        let offset = whole.offset + (start - whole.start);
        if replace(client, file, (start, end), parts)
            && let Some(request) = announcement(client, file, (start, end, offset))
            && session.gather(packet, &request, &[]).is_ok()
        {
            sent += 1;
        }
        start = end;
    }
    sent
}

fn replace(client: &Client, file: &File, (start, end): (usize, usize), parts: &[Range]) -> bool {
    for part in parts {
        let (from, to) = (part.start.max(start), part.end.min(end));
        if from < to && !map_over(file.memory, part, from, to) {
            restore(file, parts, start, from);
            return false;
        }
    }
    let modes = userfault::MISSING | userfault::MINOR;
    if userfault::register(client.descriptors.shared, start, end - start, modes).is_ok() {
        return true;
    }
    restore(file, parts, start, end);
    false
}

fn map_over(fd: i32, part: &Range, from: usize, to: usize) -> bool {
    let flags = sys::MAP_PRIVATE | sys::MAP_FIXED;
    let offset = part.offset + (from - part.start);
    // SAFETY: the same content as before, at the same place, with the same protection; nobody runs it meanwhile.
    unsafe {
        sys::call(
            sys::MMAP,
            [from, to - from, part.protection, flags, sys::arg(fd), offset],
        )
    }
    .is_ok()
}

/// Puts the file itself back.
fn restore(file: &File, parts: &[Range], start: usize, end: usize) {
    for part in parts {
        let (from, to) = (part.start.max(start), part.end.min(end));
        if from < to && !map_over(file.fd, part, from, to) {
            report::say(&[b"the kernel does not map the program's text again: the program is killed"]);
            sys::kill_self();
        }
    }
}

fn announcement(client: &Client, file: &File, (start, end, offset): (usize, usize, usize)) -> Option<Request<'static>> {
    Some(Request::Map {
        task: client.task,
        object: file.object,
        address: start as u64,
        first: u32::try_from(offset / PAGE).ok()?,
        pages: u32::try_from((end - start) / PAGE).ok()?,
        writable: false,
    })
}

/// Reads the answers; a file of which anything was refused is put back as a whole, and what was refused is said.
fn finish(client: &Client, process: &Process, files: &mut [File], session: &mut Session) {
    for file in files.iter_mut() {
        let mut refused = false;
        for _ in 0..file.mapped {
            let error = match session.receive() {
                Ok((Answer::Made { .. }, _)) => continue,
                Ok(_) => SessionError::Nonsense,
                Err(error) => error,
            };
            if !refused {
                let path = file.path.get(..file.path_length).unwrap_or_default();
                report::say(&[
                    b"the server does not take the text of ",
                    path,
                    b": ",
                    session.reason(error),
                ]);
            }
            refused = true;
        }
        let parts = file.ranges.get(..file.count).unwrap_or_default();
        if refused {
            for part in parts {
                let whole = Range { ..*part };
                put_back(client, file, &whole);
            }
            file.mapped = 0;
        }
        if file.mapped == 0 {
            let bytes: usize = parts.iter().map(|part| part.end - part.start).sum();
            let [_, text, _] = &process.unmanaged;
            text.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        sys::close(file.fd);
        sys::close(file.memory);
    }
}

fn put_back(client: &Client, file: &File, part: &Range) {
    let mut start = part.start;
    while start < part.end {
        let patched = client.patched.iter().map(|own| own.load(Ordering::Relaxed));
        let end = patched.filter(|own| *own >= start).fold(part.end, usize::min);
        restore(file, core::slice::from_ref(part), start, end);
        start = end + PAGE;
    }
}

/// Locks what the program has of the file.
fn lock(client: &Client, file: &File, session: &mut Session, meanwhile: &mut dyn FnMut()) {
    for part in file.ranges.get(..file.count).unwrap_or_default() {
        let (Ok(first), Ok(pages)) = (
            u32::try_from(part.offset / PAGE),
            u32::try_from((part.end - part.start) / PAGE),
        ) else {
            continue;
        };
        let request = Request::Lock {
            reservation: client.reservation,
            object: file.object,
            first,
            pages,
        };
        if let Err(error) = session.order(&request, meanwhile) {
            let path = file.path.get(..file.path_length).unwrap_or_default();
            report::say(&[path, b" is not locked: ", session.reason(error)]);
            return;
        }
    }
}
