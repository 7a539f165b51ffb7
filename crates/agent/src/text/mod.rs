//! Serving text and read-only data of the program and its libraries from the server's objects.
//!
//! Runs on the agent thread: the code that is replaced here is anybody's but this library's. A range is replaced by a
//! mapping of the object that holds the same file, at the same place, with the same protection. It is announced before,
//! in one packet with the question for the object: whoever loads a library waits for one answer, not for two.
//! Only what the file's own program headers call read-only is touched, never what the dynamic linker has changed.

use core::sync::atomic::Ordering;

use freehold_protocol::message::{Answer, OPENED_LAST, Regime, Request};

use crate::client::Client;
use crate::client::connection::{Connection, ConnectionError, Outgoing};
use crate::client::settings::SETTINGS;
use crate::client::userfault;
use crate::hooks::patch::PATCHED;
use crate::process::PAGE;
use crate::report;
use crate::sys::maps::{self, Line};
use crate::sys::{self, FileId};
use run::Run;

mod elf;
mod run;
pub(crate) mod served;

/// Files that are opened before the first answer is read.
const FILES: usize = 24;
/// Ranges of one file.
const RANGES: usize = 8;
const PATH: usize = 512;
/// Announcements of one file: of its ranges, which the pages that this library has changed may cut.
const PIECES: usize = RANGES + PATCHED;

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    start: usize,
    end: usize,
    offset: usize,
    protection: usize,
}

/// What is announced together.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    end: usize,
    /// Its first page in the file, and how many.
    first: u32,
    pages: u32,
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
    object: u32,
    memory: i32,
    /// The announcements that went out, and what the server calls them; 0 where it refused.
    announced: usize,
    mappings: [u32; PIECES],
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
    object: 0,
    memory: -1,
    announced: 0,
    mappings: [0; PIECES],
    mapped: 0,
};

/// Serves what the client's table names and is not served yet. What cannot be served stays as it is, and is counted.
/// `meanwhile` carries out the server's orders: it is called while pages to be locked are brought in, for which others
/// may have to leave.
pub(crate) fn serve(client: &Client, session: &mut Connection, meanwhile: &mut dyn FnMut()) {
    let mut round = Round {
        files: [NO_FILE; FILES],
        count: 0,
        current: None,
    };
    // The kernel goes on behind the address that it came to, so what is replaced meanwhile is not met again.
    maps::for_each(is_whole, |line| {
        round.look(client, line);
        if round.count == FILES {
            round.serve(client, session, meanwhile);
        }
    });
    round.end_file(client);
    round.serve(client, session, meanwhile);
}

/// Files that are served together.
struct Round {
    files: [File; FILES],
    count: usize,
    /// The file whose mappings are being met.
    current: Option<(File, Run)>,
}

impl Round {
    fn look(&mut self, client: &Client, line: &Line<'_>) {
        // A file that begins again behind what the linker has loaded of it is mapped as data there, or loaded twice.
        let same = |(file, run): &(File, Run)| {
            file.id == line.file && line.file.inode != 0 && !(is_whole(line) && run.link(client).is_some())
        };
        if !self.current.as_ref().is_some_and(same) {
            self.end_file(client);
            self.current = begin_file(line).map(|file| (file, Run::default()));
        }
        if let Some((_, run)) = &mut self.current {
            run.add(line);
        }
    }

    fn end_file(&mut self, client: &Client) {
        if let Some((mut file, run)) = self.current.take()
            && let Some(place) = self.files.get_mut(self.count)
            && let Some(link) = run.link(client)
        {
            run.ranges(client, link, &mut file);
            if file.count > 0 {
                *place = file;
                self.count += 1;
            }
        }
    }

    fn serve(&mut self, client: &Client, session: &mut Connection, meanwhile: &mut dyn FnMut()) {
        let files = self.files.get_mut(..self.count).unwrap_or_default();
        self.count = 0;
        open(client, files, session);
        // Only now: answers come in the order of the requests, so all announcements' must have been read.
        for file in files.iter_mut() {
            map(client, file, session);
            finish(file);
        }
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
    if !is_whole(line) || served::is_served(line) || line.path.len() >= PATH || !line.path.starts_with(b"/") {
        return None;
    }
    let mut file = NO_FILE;
    file.id = line.file;
    file.path_length = line.path.len();
    for (to, from) in file.path.iter_mut().zip(line.path) {
        *to = *from;
    }
    Some(file)
}

/// Opens the files, asks for their objects and announces where they will be mapped, all before the first answer.
fn open(client: &Client, files: &mut [File], session: &mut Connection) {
    let regime = if SETTINGS.unmanaged_sharing() {
        Regime::Unmanaged
    } else {
        Regime::Conserve
    };
    if client.task == 0 {
        // A forked child of a user who has all the tasks that he may: what it loads stays as it is.
        return;
    }
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
            file.announced = announce(client, file, session, &mut packet);
        } else {
            sys::close(fd);
        }
    }
    // Where it cannot be sent there are no answers.
    let _ = session.flush(&mut packet);
    for file in files.iter_mut().filter(|file| file.fd >= 0) {
        receive(file, session);
        if file.memory >= 0 {
            served::look(client, file.memory);
        }
    }
}

/// Announces where the file that is asked for will be mapped; how many announcements go out.
fn announce(client: &Client, file: &File, session: &mut Connection, packet: &mut Outgoing) -> usize {
    let mut sent = 0;
    for_each_piece(client, file, |piece, _| {
        if session.gather(packet, &announcement(client, piece), &[]).is_ok() {
            sent += 1;
        }
    });
    sent
}

/// Reads the answers about a file; the first refusal is said.
fn receive(file: &mut File, session: &mut Connection) {
    if let Ok((Answer::Opened { object, .. }, [memory, ..])) = session.receive() {
        file.object = object;
        file.memory = memory;
    }
    let mut refused = false;
    for place in file.mappings.iter_mut().take(file.announced) {
        let error = match session.receive() {
            Ok((Answer::Made { handle }, _)) => {
                *place = handle;
                continue;
            }
            Ok(_) => ConnectionError::Nonsense,
            Err(error) => error,
        };
        // Of what is not opened nothing can be announced.
        if !refused && file.memory >= 0 {
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
}

/// Replaces what was announced, and registers it. A file of which anything was refused stays as it is as a whole.
fn map(client: &Client, file: &mut File, session: &mut Connection) {
    let announced = file.mappings.get(..file.announced).unwrap_or_default();
    let taken = file.memory >= 0 && !announced.contains(&0);
    let mut mappings = announced.iter().copied();
    let mut mapped = 0;
    for_each_piece(client, file, |piece, parts| {
        let mapping = mappings.next().filter(|mapping| *mapping != 0);
        if taken && mapping.is_some() && replace(client, file, piece, parts) {
            mapped += 1;
        } else if let Some(mapping) = mapping {
            withdraw(mapping, session);
        }
    });
    file.mapped = mapped;
}

/// What was announced is not mapped after all.
fn withdraw(mapping: u32, session: &mut Connection) {
    if session.send(&Request::Unmap { mapping }, &[]).is_ok() {
        // The server has no reason to refuse, and there is nothing to do about it.
        let _ = session.receive();
    }
}

/// Calls `each` with what is announced together, and the ranges that it lies in: neighbours where the file is in one
/// piece, but for the pages that this library has changed.
fn for_each_piece(client: &Client, file: &File, mut each: impl FnMut(Piece, &[Range])) {
    let mut from = 0;
    while let Some(range) = file.ranges.get(from..file.count).and_then(<[Range]>::first).copied() {
        let mut end = range.end;
        let mut upto = from + 1;
        while let Some(next) = file.ranges.get(upto..file.count).and_then(<[Range]>::first)
            && next.start == end
            && next.offset == range.offset + (end - range.start)
        {
            end = next.end;
            upto += 1;
        }
        let parts = file.ranges.get(from..upto).unwrap_or_default();
        cut_out_changed(client, Range { end, ..range }, |piece| each(piece, parts));
        from = upto;
    }
}

fn cut_out_changed(client: &Client, whole: Range, mut each: impl FnMut(Piece)) {
    let mut start = whole.start;
    while start < whole.end {
        let kept = |page: usize| client.patched.iter().any(|own| own.load(Ordering::Relaxed) == page);
        if kept(start) {
            start += PAGE;
            continue;
        }
        let patched = client.patched.iter().map(|own| own.load(Ordering::Relaxed));
        let end = patched.filter(|own| *own > start).fold(whole.end, usize::min);
        let first = u32::try_from((whole.offset + (start - whole.start)) / PAGE);
        // Nor what lies further in a file than the protocol can say.
        if let (Ok(first), Ok(pages)) = (first, u32::try_from((end - start) / PAGE)) {
            each(Piece {
                start,
                end,
                first,
                pages,
            });
        }
        start = end;
    }
}

fn replace(client: &Client, file: &File, Piece { start, end, .. }: Piece, parts: &[Range]) -> bool {
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

fn announcement(client: &Client, piece: Piece) -> Request<'static> {
    Request::Map {
        task: client.task,
        object: OPENED_LAST,
        address: piece.start as u64,
        first: piece.first,
        pages: piece.pages,
        writable: false,
    }
}

/// Closes what is not needed any more.
fn finish(file: &File) {
    sys::close(file.fd);
    sys::close(file.memory);
}

/// Locks what the program has of the file.
fn lock(client: &Client, file: &File, session: &mut Connection, meanwhile: &mut dyn FnMut()) {
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
