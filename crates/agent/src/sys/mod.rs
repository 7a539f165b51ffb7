//! System calls by hand: nothing of the C library, no thread-local storage, no `errno`.

use crate::process::PAGE;
use core::arch::asm;

pub(crate) use futex::{futex_wait, futex_wait_awhile, futex_wait_awhile_for_agent, futex_wait_for_agent, futex_wake};

mod futex;
pub(super) mod maps;
pub(super) mod memory;
pub(crate) mod own;
pub(super) mod stack;
pub(crate) mod table;
#[cfg(not(test))]
pub(super) mod unwind;

/// What the kernel answered: a number of its own, or why not.
pub(crate) type Answer = Result<usize, Errno>;

/// The kernel's number for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const NOENT: Self = Self(2);
    pub(crate) const INTR: Self = Self(4);
    pub(crate) const AGAIN: Self = Self(11);
    pub(crate) const FAULT: Self = Self(14);
    pub(crate) const BUSY: Self = Self(16);
    pub(crate) const EXIST: Self = Self(17);
    pub(crate) const NOMEM: Self = Self(12);
    pub(crate) const INVAL: Self = Self(22);
    pub(crate) const MFILE: Self = Self(24);
    pub(crate) const FBIG: Self = Self(27);
    pub(crate) const NOSYS: Self = Self(38);
    pub(crate) const CONNREFUSED: Self = Self(111);
    /// None of the kernel's to these calls: an order may mean something else by now.
    pub(crate) const STALE: Self = Self(116);
}

pub(crate) const READ: usize = 0;
pub(crate) const WRITE: usize = 1;
pub(crate) const CLOSE: usize = 3;
pub(crate) const POLL: usize = 7;
pub(crate) const MMAP: usize = 9;
pub(crate) const MPROTECT: usize = 10;
pub(crate) const MUNMAP: usize = 11;
pub(crate) const BRK: usize = 12;
pub(crate) const SIGACTION: usize = 13;
pub(crate) const SIGPROCMASK: usize = 14;
pub(crate) const IOCTL: usize = 16;
pub(crate) const PREAD: usize = 17;
pub(crate) const PWRITE: usize = 18;
pub(crate) const MREMAP: usize = 25;
pub(crate) const MINCORE: usize = 27;
pub(crate) const MADVISE: usize = 28;
pub(crate) const SHMAT: usize = 30;
pub(crate) const NANOSLEEP: usize = 35;
pub(crate) const RESTART: usize = 219;
pub(crate) const GETPID: usize = 39;
pub(crate) const SOCKET: usize = 41;
pub(crate) const CONNECT: usize = 42;
pub(crate) const SENDMSG: usize = 46;
pub(crate) const RECVMSG: usize = 47;
pub(crate) const CLONE: usize = 56;
pub(crate) const EXIT: usize = 60;
pub(crate) const KILL: usize = 62;
pub(crate) const CAPSET: usize = 126;
pub(crate) const PTRACE: usize = 101;
pub(crate) const PRCTL: usize = 157;
pub(crate) const FUTEX: usize = 202;
pub(crate) const SETAFFINITY: usize = 203;
pub(crate) const GETAFFINITY: usize = 204;
pub(crate) const OPENAT: usize = 257;
pub(crate) const NEWFSTATAT: usize = 262;
pub(crate) const UNSHARE: usize = 272;
pub(crate) const SETNS: usize = 308;
pub(crate) const GETCPU: usize = 309;
pub(crate) const USERFAULTFD: usize = 323;
pub(crate) const CLOSE_RANGE: usize = 436;
pub(crate) const PROCESS_MADVISE: usize = 440;

/// One system call.
///
/// # Safety
/// As the call asks for.
#[inline]
pub(crate) unsafe fn call(number: usize, a: [usize; 6]) -> Answer {
    let mut answer = number;
    // SAFETY: the kernel keeps all registers but those named; what the call does to memory is the caller's word.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    self::answer(answer.cast_signed())
}

fn answer(answer: isize) -> Answer {
    if (-4095..0).contains(&answer) {
        return Err(Errno(i32::try_from(-answer).unwrap_or(i32::MAX)));
    }
    Ok(answer.cast_unsigned())
}

/// A number that no other thread of the process has meanwhile: where its thread-local storage is, of which nothing is
/// used.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of a thread's control block is its own address, by the ABI of x86-64.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// A call of up to five plain arguments; the rest are zero.
///
/// # Safety
/// As the call asks for.
#[inline]
pub(crate) unsafe fn call5(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize) -> Answer {
    // SAFETY: the caller's word.
    unsafe { call(number, [a, b, c, d, e, 0]) }
}

/// A descriptor as an argument.
pub(crate) const fn arg(fd: i32) -> usize {
    (fd as isize).cast_unsigned()
}

/// A descriptor as an answer.
pub(crate) fn descriptor(answer: usize) -> i32 {
    i32::try_from(answer).unwrap_or(-1)
}

/// Closes a descriptor that is this library's own.
pub(crate) fn close(fd: i32) {
    if fd >= 0 {
        // SAFETY: touches no memory.
        let _ = unsafe { call5(CLOSE, arg(fd), 0, 0, 0, 0) };
    }
}

/// A request to a descriptor, about `argument`.
///
/// # Safety
/// `T` is the structure of the request, and what the request does to memory is as the caller wants it.
pub(crate) unsafe fn ioctl<T>(fd: i32, request: u64, argument: &mut T) -> Answer {
    // usize and u64 are the same size on the one architecture supported.
    let number = usize::try_from(request).unwrap_or(0);
    // SAFETY: the caller's word.
    unsafe { own::call(IOCTL, arg(fd), number, core::ptr::from_mut(argument) as usize, 0, 0) }
}

/// Sleeps for so many milliseconds, for what the agent thread does; as [`futex_wait_for_agent`] in everything else.
pub(crate) fn sleep_for_agent(milliseconds: usize) {
    let [fifth, sixth] = freehold_protocol::WAIT_MARK;
    // SAFETY: names no descriptors.
    let _ = unsafe { call(POLL, [0, 0, milliseconds, 0, fifth, sixth]) };
}

/// Sleeps for so many nanoseconds, less than a second. May return early.
pub(crate) fn nap(nanoseconds: usize) {
    let span = [0, nanoseconds];
    // SAFETY: reads a `struct timespec`, two words, and nobody wants to know what was left of it.
    let _ = unsafe { own::call(NANOSLEEP, span.as_ptr() as usize, 0, 0, 0, 0) };
}

/// A set of CPUs: a bit for each of the first 1024.
pub(crate) type CpuSet = [u64; 16];

/// On which CPUs a thread may run; `None` where there are more than a set holds.
pub(crate) fn affinity(thread: usize) -> Option<CpuSet> {
    let mut cpus = CpuSet::default();
    let place = cpus.as_mut_ptr() as usize;
    // SAFETY: writes inside the set.
    unsafe { call5(GETAFFINITY, thread, size_of::<CpuSet>(), place, 0, 0) }.ok()?;
    Some(cpus)
}

/// Says on which CPUs a thread of this process may run; whether it does now.
pub(crate) fn set_affinity(thread: usize, cpus: &CpuSet) -> bool {
    // SAFETY: reads the set.
    unsafe { call5(SETAFFINITY, thread, size_of::<CpuSet>(), cpus.as_ptr() as usize, 0, 0) }.is_ok()
}

/// The CPU that the calling thread runs on, which may be another a moment later.
pub(crate) fn cpu() -> Option<u32> {
    let mut cpu = 0_u32;
    // SAFETY: writes the one number.
    unsafe { call5(GETCPU, core::ptr::from_mut(&mut cpu) as usize, 0, 0, 0, 0) }.ok()?;
    Some(cpu)
}

/// Whether the kernel could read a range for the calling thread now. It reads a mask of signals on each page, and then
/// refuses what it was to do with it.
pub(crate) fn may_read(start: usize, length: usize) -> bool {
    const NOTHING: usize = usize::MAX;
    const MASK: usize = 8;
    let Some(last) = length.checked_sub(1).and_then(|rest| start.checked_add(rest)) else {
        return false;
    };
    let read = |at: usize| {
        // SAFETY: changes nothing.
        let refused = unsafe { call5(SIGPROCMASK, NOTHING, at, 0, MASK, 0) };
        refused == Err(Errno::INVAL)
    };
    let pages = (start / PAGE..=last / PAGE).map(|page| (page * PAGE).max(start));
    pages.chain([last.saturating_sub(MASK - 1)]).all(read)
}

/// Ends this process at once.
pub(crate) fn kill_self() -> ! {
    // SAFETY: touches no memory.
    let _ = unsafe {
        let pid = call5(GETPID, 0, 0, 0, 0, 0).unwrap_or(0);
        call5(KILL, pid, 9, 0, 0, 0)
    };
    // Under a filter that forbids it.
    crash()
}

/// Ends this process at once, by SIGILL and without a system call. No signal of this kind is let through in this
/// library's threads.
pub(crate) fn crash() -> ! {
    // SAFETY: ends the process, as is wanted.
    unsafe { asm!("ud2", options(nomem, nostack, noreturn)) }
}

/// Advice about memory of this library or of the program.
///
/// # Safety
/// Nobody relies on what the advice takes away.
pub(crate) unsafe fn madvise(address: usize, length: usize, advice: usize) -> Answer {
    // SAFETY: the caller's word.
    unsafe { call5(MADVISE, address, length, advice, 0, 0) }
}

pub(crate) const PROT_READ: usize = 1;
pub(crate) const PROT_WRITE: usize = 2;
pub(crate) const PROT_EXEC: usize = 4;
pub(crate) const MAP_SHARED: usize = 1;
pub(crate) const MAP_PRIVATE: usize = 2;
pub(crate) const MAP_FIXED: usize = 0x10;
pub(crate) const MAP_ANONYMOUS: usize = 0x20;
pub(crate) const MAP_NORESERVE: usize = 0x4000;

/// New anonymous memory of this library's own.
pub(crate) fn anonymous(length: usize, protection: usize) -> Answer {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping, wherever there is room.
    unsafe { call(MMAP, [0, length, protection, flags, usize::MAX, 0]) }
}

/// The same between two pages that nobody may touch: the server maps pages ahead of the program's faults, upwards and
/// downwards, and must not run on into memory of the agent's that is registered too.
pub(crate) fn guarded(length: usize, protection: usize) -> Answer {
    const NONE: usize = 0;
    let guard = anonymous(PAGE + length + PAGE, NONE)?;
    // SAFETY: the mapping is new, and nobody else knows of it.
    unsafe { call5(MPROTECT, guard + PAGE, length, protection, 0, 0) }?;
    Ok(guard + PAGE)
}

/// Reads on.
pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> Answer {
    // SAFETY: the kernel writes inside the buffer.
    unsafe { call5(READ, arg(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0) }
}

/// Reads from a place.
pub(crate) fn read_at(fd: i32, buffer: &mut [u8], from: usize) -> Answer {
    // SAFETY: the kernel writes inside the buffer.
    unsafe { own::call(PREAD, arg(fd), buffer.as_mut_ptr() as usize, buffer.len(), from, 0) }
}

pub(crate) const AT_FDCWD: usize = (-100_isize).cast_unsigned();
pub(crate) const CLOEXEC: usize = 0o2_000_000;

/// Opens a file to read (`write` false) or to append to. The path ends with a zero byte.
pub(crate) fn open(path: &[u8], write: bool) -> Result<i32, Errno> {
    if path.last() != Some(&0) {
        return Err(Errno::INVAL);
    }
    let flags = CLOEXEC | if write { 0o2001 } else { 0 };
    // SAFETY: the path ends inside its slice.
    unsafe { call5(OPENAT, AT_FDCWD, path.as_ptr() as usize, flags, 0, 0) }.map(descriptor)
}

/// Which file a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
}

/// Which file a descriptor is.
pub(crate) fn identity(fd: i32) -> Result<FileId, Errno> {
    const EMPTY_PATH: usize = 0x1000;
    let mut stat = [0_u64; 18];
    let empty = [0_u8; 1];
    // SAFETY: the structure is 144 bytes on this architecture.
    unsafe {
        call5(
            NEWFSTATAT,
            arg(fd),
            empty.as_ptr() as usize,
            stat.as_mut_ptr() as usize,
            EMPTY_PATH,
            0,
        )?;
    }
    let [device, inode, ..] = stat;
    let major = (device >> 8 & 0xFFF) | (device >> 32 & 0xFFFF_F000);
    let minor = (device & 0xFF) | (device >> 12 & 0xFFFF_FF00);
    Ok(FileId {
        major: u32::try_from(major).unwrap_or(0),
        minor: u32::try_from(minor).unwrap_or(0),
        inode,
    })
}

/// Whose a file is, and its mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) mode: u64,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Whose the file of a descriptor is.
pub(crate) fn owner(fd: i32) -> Result<Owner, Errno> {
    const FSTAT: usize = 5;
    let mut stat = [0_u64; 18];
    // SAFETY: the structure is 144 bytes on this architecture.
    unsafe { call5(FSTAT, arg(fd), stat.as_mut_ptr() as usize, 0, 0, 0) }?;
    let [_, _, _, mode_and_user, group, ..] = stat;
    let half = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
    Ok(Owner {
        mode: mode_and_user & 0xFFFF_FFFF,
        user: half(mode_and_user >> 32),
        group: half(group),
    })
}

/// Whether the effective user may do this (4 read, 2 write, 1 run) to the file of a path that ends with a zero byte.
pub(crate) fn may(folder: usize, path: usize, how: usize, flags: usize) -> bool {
    const FACCESSAT2: usize = 439;
    const EFFECTIVE: usize = 0x200;
    // SAFETY: the kernel reads the path, and says so where it cannot.
    unsafe { call5(FACCESSAT2, folder, path, how, EFFECTIVE | flags, 0) }.is_ok()
}

/// As [`may`], for the real user, and without the capabilities of one that is not root (access(2)).
pub(crate) fn may_without_rights(path: usize, how: usize) -> bool {
    const FACCESSAT: usize = 269;
    // SAFETY: the kernel reads the path, and says so where it cannot.
    unsafe { call5(FACCESSAT, AT_FDCWD, path, how, 0, 0) }.is_ok()
}

/// Whether memory can be read at an address. The kernel copies the eight bytes around it before it finds that the call
/// asks for nothing that there is (sigprocmask(2)).
pub(crate) fn is_readable(address: usize) -> bool {
    const NOTHING: usize = 99;
    const SET: usize = 8;
    let around = address & !(SET - 1);
    // SAFETY: the kernel reads the memory, and says so where it cannot.
    let answer = unsafe { call5(SIGPROCMASK, NOTHING, around, 0, SET, 0) };
    answer != Err(Errno::FAULT)
}

/// Whether this thread's real user and group are the effective ones.
pub(crate) fn is_one_user() -> bool {
    const GETUID: usize = 102;
    const GETGID: usize = 104;
    (owner_by(GETUID), owner_by(GETGID)) == (effective_user(), effective_group())
}

/// The user whose rights this thread has.
pub(crate) fn effective_user() -> u32 {
    const GETEUID: usize = 107;
    owner_by(GETEUID)
}

/// The group whose rights this thread has.
pub(crate) fn effective_group() -> u32 {
    const GETEGID: usize = 108;
    owner_by(GETEGID)
}

/// A user or group of this thread's, by the call that asks for it.
fn owner_by(call: usize) -> u32 {
    // SAFETY: none of these calls touches memory.
    unsafe { call5(call, 0, 0, 0, 0, 0) }.map_or(u32::MAX, |id| u32::try_from(id).unwrap_or(u32::MAX))
}

/// This process, in its own numbering.
pub(crate) fn pid() -> u32 {
    // SAFETY: touches no memory.
    unsafe { call5(GETPID, 0, 0, 0, 0, 0) }.map_or(0, |pid| u32::try_from(pid).unwrap_or(0))
}

/// Whether this process has a thread of that number.
pub(crate) fn is_thread(thread: u32) -> bool {
    const TGKILL: usize = 234;
    const NO_SUCH: Errno = Errno(3);
    // SAFETY: no signal is sent.
    let asked = unsafe { call5(TGKILL, pid() as usize, thread as usize, 0, 0, 0) };
    asked != Err(NO_SUCH)
}

/// Device and inode of what a path leads to.
pub(crate) fn place(path: &[u8]) -> Result<[u64; 2], Errno> {
    let [device, inode, ..] = stat(path)?;
    Ok([device, inode])
}

/// How many names a file or directory has.
pub(crate) fn links(path: &[u8]) -> Result<u64, Errno> {
    let [_, _, links, ..] = stat(path)?;
    Ok(links)
}

/// What the kernel says of a path, which ends with a zero byte.
fn stat(path: &[u8]) -> Result<[u64; 18], Errno> {
    if path.last() != Some(&0) {
        return Err(Errno::INVAL);
    }
    let mut stat = [0_u64; 18];
    // SAFETY: the path ends inside its slice, and the structure is 144 bytes on this architecture.
    unsafe {
        call5(
            NEWFSTATAT,
            AT_FDCWD,
            path.as_ptr() as usize,
            stat.as_mut_ptr() as usize,
            0,
            0,
        )?
    };
    Ok(stat)
}

/// Starts a thread that shares `flags` with its maker, runs `entry(argument)` on the stack below `top`, and never ends
/// by itself. Where it has ended, whatever ended it, the kernel makes `there` 0.
///
/// # Safety
/// `top` is 16-byte aligned with enough unused memory below that stays for ever; `entry` uses neither thread-local
/// storage nor the C library. `there` stays for ever too.
pub(crate) unsafe fn spawn(
    flags: usize,
    top: usize,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
    there: Option<&core::sync::atomic::AtomicU32>,
) -> Answer {
    const CHILD_CLEARTID: usize = 0x20_0000;
    let flags = flags | there.map_or(0, |_| CHILD_CLEARTID);
    let cleared = there.map_or(0, |there| there.as_ptr() as usize);
    let mut answer = CLONE;
    // SAFETY: the new thread begins behind the call with a stack of its own and never comes back.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") answer,
            in("rdi") flags, in("rsi") top, in("rdx") 0, in("r10") cleared, in("r8") 0,
            in("r12") argument, in("r13") entry,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    let signed = answer.cast_signed();
    if signed < 0 {
        return Err(Errno(i32::try_from(-signed).unwrap_or(i32::MAX)));
    }
    Ok(answer)
}
