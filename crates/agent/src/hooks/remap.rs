//! The C library's `mremap`, with which a program moves memory to where other memory may have been.

use core::ffi::{c_int, c_void};
use core::ops::Range;

use crate::client::attach;
use crate::forks::inheritance::{self, Alike};
use crate::hooks::locks;
use crate::hooks::locks::Call;
use crate::process::{PAGE, whole_pages};
use crate::sys::maps::Pieces;
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox::{self, Quiet};
use crate::{hooks, process, report};

const MAY_MOVE: usize = 1;
const FIXED: usize = 2;
const DONT_UNMAP: usize = 4;
/// `MREMAP_FIXED` and `MREMAP_DONTUNMAP`, with which there is a fifth argument.
const WITH_ADDRESS: usize = 6;

/// What the program asks for.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: usize,
    before: usize,
    length: usize,
    flags: usize,
    /// The fifth argument, where there is one.
    to: usize,
}

impl Move {
    const fn grows(&self) -> bool {
        self.length > self.before
    }

    const fn has(&self, flag: usize) -> bool {
        self.flags & flag != 0
    }

    fn range(&self) -> Range<usize> {
        self.from..self.from.saturating_add(whole_pages(self.before))
    }

    /// Whether there is more than one mapping, from the first page on.
    fn is_several(&self) -> bool {
        let range = self.range();
        let first = Pieces::of(range.clone()).next();
        first.is_some_and(|first| first.start == range.start && first != range)
    }

    /// Whether there is more than one mapping, of which the kernel would move each as it does one that the program has.
    /// What grows the program has to have as one.
    fn is_parted(&self) -> bool {
        self.is_several() && (!self.grows() || Pieces::of(self.range()).are_one())
    }

    /// The last mapping, or all where that cannot be told; nothing where there is nothing.
    fn last(&self) -> Option<Range<usize>> {
        let range = self.range();
        let last = Pieces::of(range.clone()).last().filter(|last| last.end == range.end);
        (!range.is_empty()).then(|| last.unwrap_or(range))
    }

    fn call(&self) -> Answer {
        let arguments = [self.from, self.before, self.length, self.flags, self.to, 0];
        hooks::giving_away(|| {
            // SAFETY: the program's own call; what may be at `to` was made for it.
            unsafe { sys::call(sys::MREMAP, arguments) }
        })
    }
}

/// In place of `mremap`.
pub(crate) extern "C" fn mremap(
    from: *mut c_void,
    before: usize,
    length: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let flags = sys::arg(flags);
    let asked = Move {
        from: from as usize,
        before,
        length,
        flags,
        to: if flags & WITH_ADDRESS == 0 { 0 } else { to as usize },
    };
    match whole(&asked) {
        Ok(at) => {
            spread([asked.from, before], [at, length], flags);
            core::ptr::with_exposed_provenance_mut(at)
        }
        Err(errno) => hooks::fail(errno, core::ptr::without_provenance_mut(usize::MAX)),
    }
}

/// The call, and the locks of what it adds.
///
/// Locked memory that has moved and grown the kernel fills before it tells the server of the move, and until it has
/// told nobody can fill anything. So what grows, the last mapping, is not locked meanwhile.
fn whole(asked: &Move) -> Answer {
    let locked = asked.grows().then(|| asked.last()).flatten();
    let locked = locked.filter(|last| hooks::is_managed() && locks::is_locked(last.end - PAGE));
    if let Some(last) = &locked {
        locks::unlock(last.start, last.len());
    }
    let grown = |at: usize| match &locked {
        Some(last) => {
            let before = last.start - asked.from;
            locks::lock_grown(at + before, asked.length - before)
        }
        None => true,
    };
    let kept = made(asked, locked.is_some() || locks::locks_future()).and_then(|at| {
        let new = || locks::lock_new(at, asked.length, sys::PROT_READ | sys::PROT_WRITE, true);
        if !asked.grows() || (new() && grown(at)) {
            return Ok(at);
        }
        if moved_back(asked, at) {
            return Err(Errno::NOMEM);
        }
        report::say(&[b"memory that grew is not all locked: the reservation is too small"]);
        Ok(at)
    });
    if let Some(last) = locked.filter(|_| kept.is_err()) {
        locks::lock_again(last.start, last.len());
    }
    kept
}

/// Has memory that has grown be where it was, and as long as it was; whether it is. The kernel may have given its place
/// to another thread's memory meanwhile, which is not moved over.
fn moved_back(asked: &Move, at: usize) -> bool {
    let range = asked.range();
    let length = whole_pages(asked.length);
    let back = Move {
        from: at,
        before: range.len(),
        length: range.len(),
        flags: MAY_MOVE | FIXED,
        to: range.start,
    };
    let moved = || told(Ok(at)).and_then(|_| with_pages_staying(|| in_pieces(&back)));
    let is_there = at == range.start || (claimed(&range) && moved().is_ok());
    if is_there {
        let _ = hooks::unmap(at + range.len(), length - range.len());
    }
    is_there
}

/// Makes room where nothing is; whether it has.
fn claimed(range: &Range<usize>) -> bool {
    const FIXED_NO_REPLACE: usize = 0x10_0000;
    match room(range.start, range.len(), FIXED_NO_REPLACE) {
        Ok(at) if at != range.start => {
            // A kernel before 4.17, which takes the address for a wish.
            let _ = hooks::unmap(at, range.len());
            false
        }
        room => room.is_ok(),
    }
}

/// New memory, which nobody can use.
fn room(wish: usize, length: usize, flags: usize) -> Answer {
    const PRIVATE: usize = 2;
    const NO_RESERVE: usize = 0x4000;
    let flags = PRIVATE | sys::MAP_ANONYMOUS | NO_RESERVE | flags;
    // SAFETY: takes the place of nothing.
    unsafe { sys::call(sys::MMAP, [wish, length, 0, flags, usize::MAX, 0]) }
}

/// The call without locks; `locks` says whether what it adds will be locked.
fn made(asked: &Move, locks: bool) -> Answer {
    let _way = asked.has(FIXED).then(|| hooks::make_way(asked.to, asked.length));
    if !asked.has(MAY_MOVE) {
        let answer = asked.call();
        return if asked.grows() { told(answer) } else { answer };
    }
    if !asked.has(FIXED) && asked.before != 0 && (asked.grows() || asked.has(DONT_UNMAP)) {
        return somewhere(asked, locks);
    }
    with_pages_staying(|| in_pieces(asked))
}

/// Moves what may be several mappings, of which the last may grow. Of those, where one is the server's, the kernel
/// moves the first and refuses the next, although it moves any of them alone.
fn in_pieces(asked: &Move) -> Answer {
    let (from, to) = (asked.from, asked.to);
    let range = asked.range();
    let added = whole_pages(asked.length).saturating_sub(range.len());
    let apart = to.abs_diff(from) >= range.len().saturating_add(added);
    if !asked.has(FIXED) || asked.length < asked.before || !apart || !hooks::is_managed() || !asked.is_parted() {
        return asked.call();
    }
    let part = |piece: &Range<usize>, added: usize| {
        let before = piece.len();
        let part = Move {
            from: piece.start,
            before,
            length: before + added,
            flags: asked.flags,
            to: to.wrapping_add(piece.start - from),
        };
        part.call()
    };
    let mut rest = range;
    // First what grows: where that is refused, nothing has moved.
    if let Some(last) = asked.last().filter(|_| added > 0) {
        part(&last, added)?;
        rest.end = last.start;
    }
    for piece in Pieces::of(rest) {
        part(&piece, 0)?;
    }
    Ok(to)
}

/// What children are not to have they have of nothing that has become of it: of what is added, which is the last
/// mapping's, and of each mapping that stays where it was.
fn spread([from, before]: [usize; 2], [at, length]: [usize; 2], flags: usize) {
    let [before, length] = [before, length].map(whole_pages);
    if before > 0 && length > before {
        inheritance::spread(Alike {
            start: at + before,
            length: length - before,
            other: at + before - PAGE,
        });
    }
    if flags & DONT_UNMAP == 0 || !inheritance::withholds() {
        return;
    }
    let moved = at..at.saturating_add(before);
    let stays = |piece: Range<usize>| {
        inheritance::spread(Alike {
            start: from + (piece.start - at),
            length: piece.len(),
            other: piece.start,
        });
    };
    let mut pieces = Pieces::of(moved.clone()).peekable();
    if pieces.peek().is_none() {
        // The kernel cannot be asked.
        return stays(moved);
    }
    pieces.for_each(stays);
}

/// Makes memory longer where it is or, as for `MREMAP_DONTUNMAP`, has it move to where there is room.
///
/// Where the kernel chose the place, another thread's memory may just have been there, of which it has not told the
/// server yet: it would tell of the move first. So the room is made before, and all is told before the move. What is to
/// be locked is admitted before, too: after the move another thread's memory may be where this was.
fn somewhere(asked: &Move, locks: bool) -> Answer {
    let anywhere = || with_pages_staying(|| asked.call());
    if !hooks::is_managed() {
        return anywhere();
    }
    if !asked.has(DONT_UNMAP) {
        let flags = 0;
        match (Move { flags, to: 0, ..*asked }).call() {
            Err(Errno::NOMEM) => {}
            Err(Errno::FAULT) if asked.is_parted() => {}
            answer => return told(answer),
        }
    }
    let Ok(room) = room(asked.to, asked.length, 0) else {
        // The program's limits count it beside what is moved.
        return anywhere();
    };
    let added = asked.range().len()..whole_pages(asked.length);
    let ahead = (locks && asked.grows()).then(|| Call::ahead(room + added.start, added.len()));
    if let Some(None) = ahead {
        let _ = hooks::unmap(room, asked.length);
        return Err(Errno::NOMEM);
    }
    let flags = asked.flags | FIXED;
    // Where that is refused, the room may be gone already and be another thread's: it stays.
    let moved = told(Ok(room)).and_then(|to| with_pages_staying(|| in_pieces(&Move { flags, to, ..*asked })));
    if let (Err(_), Some(Some(call))) = (moved, ahead) {
        call.take_back();
    }
    moved
}

/// What a call has made, once the server has been told of all that was there before.
fn told(answer: Answer) -> Answer {
    if let (Ok(_), Some(process)) = (answer, hooks::client_process()) {
        mailbox::ask(process, mailbox::AWAIT_TOLD, [0; 2], || ());
    }
    answer
}

/// Moves memory that is not managed to where other memory may be, which goes.
pub(crate) fn replace(from: usize, length: usize, to: usize) -> Answer {
    let way = hooks::make_way(to, length);
    let moved = Move {
        from,
        before: length,
        length,
        flags: MAY_MOVE | FIXED,
        to,
    };
    let moved = with_pages_staying(|| moved.call());
    drop(way);
    moved
}

/// Makes a call that moves memory, while the agent thread moves none ([`crate::orders::move_guard`]).
fn with_pages_staying<T>(call: impl FnOnce() -> T) -> T {
    let Some(process) = process::process() else {
        return call();
    };
    // The agent would wait for the end of the call.
    let _quiet = Quiet::begin();
    process.moves.begin();
    hooks::wait_for_moves();
    let answer = call();
    let written = attach::client_of(process).map_or(0, |client| client.channel().orders.written());
    process.moves.end(written);
    answer
}
