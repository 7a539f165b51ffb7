//! Whether a program that is about to be begun can be managed, by what its file says and by whom it is begun.

use freehold_protocol::message::Stranger;

use crate::client::settings::SETTINGS;
use crate::programs::environment;
use crate::programs::{Text, agent};
use crate::sys::{self, AT_FDCWD};

/// Bytes of a file that are looked at together.
const BLOCK: usize = 4096;
/// Interpreters of interpreters that are followed.
const MOST_SCRIPTS: usize = 4;
/// The longest path of an interpreter.
const PATH: usize = 256;
/// Bytes kept of a program's name, the last one zero.
pub(super) const NAME: usize = 64;
/// The dynamic linker that loads the agent.
const LINKER: &[u8] = b"ld-linux-x86-64.so.2";
/// Names of a program's that are looked through for a sanitizer, in bytes.
const MOST_NAMES: usize = 1 << 20;

/// What is about to be begun, as the call names it.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) folder: usize,
    pub(super) path: Text,
    /// The folder's descriptor is the program's, where the path is empty.
    pub(super) empty: bool,
}

/// What is known of it.
pub(super) enum Verdict {
    /// Nothing: it cannot be begun, or not be read.
    Unknown,
    /// It can be managed.
    Managed,
    /// It cannot.
    Stranger(Stranger),
}

/// A file that is closed when this is dropped.
struct File(i32);

impl Drop for File {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

impl File {
    fn open(target: Target) -> Option<Self> {
        const NONBLOCK: usize = 0o4000;
        const DUPFD_CLOEXEC: usize = 1030;
        const FCNTL: usize = 72;
        if target.path.is_null() {
            return None;
        }
        if target.empty && environment::bytes(target.path).is_empty() {
            // SAFETY: touches no memory.
            return unsafe { sys::call5(FCNTL, target.folder, DUPFD_CLOEXEC, 0, 0, 0) }
                .map(|fd| Self(sys::descriptor(fd)))
                .ok();
        }
        let flags = sys::CLOEXEC | NONBLOCK;
        // SAFETY: the path ends, as the program says.
        let opened = unsafe { sys::call5(sys::OPENAT, target.folder, target.path as usize, flags, 0, 0) };
        opened.map(|fd| Self(sys::descriptor(fd))).ok()
    }

    /// What is at `offset`, as much as there is room for.
    fn read<'a>(&self, offset: u64, room: &'a mut [u8]) -> Option<&'a [u8]> {
        let (place, length) = (room.as_mut_ptr() as usize, room.len());
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: the kernel writes inside the room.
        let read = unsafe { sys::call5(sys::PREAD, sys::arg(self.0), place, length, offset, 0) };
        room.get(..read.ok()?)
    }

    /// Whether the program gains rights by being begun: then the linker loads nothing that is preloaded.
    fn gains_rights(&self) -> bool {
        const FGETXATTR: usize = 193;
        const SET_USER: u64 = 0o4000;
        const SET_GROUP: u64 = 0o2010;
        let user = sys::effective_user();
        let Ok(owner) = sys::owner(self.0) else {
            return false;
        };
        let by_user = owner.mode & SET_USER != 0 && owner.user != user;
        let by_group = owner.mode & SET_GROUP == SET_GROUP && owner.group != sys::effective_group();
        let name = c"security.capability".as_ptr() as usize;
        // SAFETY: reads the name, writes nothing.
        let capabilities = unsafe { sys::call5(FGETXATTR, sys::arg(self.0), name, 0, 0, 0) };
        by_user || by_group || user != 0 && capabilities.is_ok_and(|length| length > 0)
    }
}

/// Judges what is about to be begun; its name is the last part of its path.
pub(super) fn judge(target: Target, name: &mut [u8; NAME]) -> Verdict {
    // The kernel reads the path first, and says so where it cannot be read.
    if !may_run(target) {
        return Verdict::Unknown;
    }
    if !target.path.is_null() {
        let path = environment::bytes(target.path);
        let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        for (to, from) in name.iter_mut().take(NAME - 1).zip(last) {
            *to = *from;
        }
    }
    let Some(file) = File::open(target) else {
        return Verdict::Unknown;
    };
    let why = match look(target, file) {
        None => return Verdict::Unknown,
        Some(why) => why.or_else(whose),
    };
    why.map_or(Verdict::Managed, Verdict::Stranger)
}

fn may_run(target: Target) -> bool {
    const EXECUTABLE: usize = 1;
    const EMPTY_PATH: usize = 0x1000;
    let flags = if target.empty { EMPTY_PATH } else { 0 };
    sys::may(target.folder, target.path as usize, EXECUTABLE, flags)
}

/// Why the file cannot be managed, or its interpreter; `None` where it is no program at all.
fn look(target: Target, mut file: File) -> Option<Option<Stranger>> {
    let mut is_linker = !target.path.is_null() && environment::bytes(target.path).ends_with(LINKER);
    for _ in 0..=MOST_SCRIPTS {
        let mut head = [0_u8; BLOCK];
        let head = file.read(0, &mut head)?;
        let Some(line) = head.strip_prefix(b"#!") else {
            return head.starts_with(b"\x7fELF").then(|| {
                if file.gains_rights() {
                    return Some(Stranger::GainsRights);
                }
                inspect(&file, head, is_linker)
            });
        };
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let path = words.next()?;
        let mut interpreter = [0_u8; PATH];
        let place = interpreter.get_mut(..path.len()).filter(|_| path.len() < PATH)?;
        for (to, from) in place.iter_mut().zip(path) {
            *to = *from;
        }
        is_linker = path.ends_with(LINKER);
        file = File::open(Target {
            folder: AT_FDCWD,
            path: interpreter.as_ptr().cast(),
            empty: false,
        })?;
    }
    None
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Where a program's names are in its file, as its headers are read.
#[derive(Default)]
struct Layout {
    /// Offset and length of the dynamic section.
    dynamic: Option<(u64, u64)>,
    /// Address, offset and length of the parts that are mapped.
    parts: [(u64, u64, u64); 8],
}

impl Layout {
    fn offset(&self, address: u64) -> Option<u64> {
        let part = self
            .parts
            .iter()
            .find(|(start, _, length)| (*start..start.saturating_add(*length)).contains(&address));
        part.map(|(start, offset, _)| address - start + offset)
    }
}

/// Why a program in the kernel's format cannot be managed.
fn inspect(file: &File, head: &[u8], is_linker: bool) -> Option<Stranger> {
    const X86_64: u64 = 62;
    const WIDE: u64 = 2;
    const HEADER: usize = 56;
    if number(head, 4, 1) != WIDE || number(head, 18, 2) != X86_64 {
        return Some(Stranger::OtherMachine);
    }
    let (mut table, mut path) = ([0_u8; BLOCK], [0_u8; PATH]);
    let count = usize::try_from(number(head, 56, 2)).unwrap_or(0);
    let headers = file.read(number(head, 32, 8), &mut table).unwrap_or_default();
    let (mut layout, mut known) = (Layout::default(), None);
    let mut parts = layout.parts.iter_mut();
    for entry in headers.chunks_exact(HEADER).take(count) {
        let (offset, address, length) = (number(entry, 8, 8), number(entry, 16, 8), number(entry, 32, 8));
        match number(entry, 0, 4) {
            1 => {
                if let Some(part) = parts.next() {
                    *part = (address, offset, length);
                }
            }
            2 => layout.dynamic = Some((offset, length)),
            3 => {
                let length = usize::try_from(length).unwrap_or(PATH).min(PATH);
                let path = path.get_mut(..length).unwrap_or_default();
                let path = file.read(offset, path).unwrap_or_default();
                known = Some(path.strip_suffix(b"\0").unwrap_or(path).ends_with(LINKER));
            }
            _ => {}
        }
    }
    match known {
        // The linker itself, which is told what to load, has none.
        None if is_linker => None,
        None => Some(Stranger::Static),
        Some(false) => Some(Stranger::OtherLibrary),
        Some(true) => has_sanitizer(file, &layout).then_some(Stranger::Sanitizer),
    }
}

/// Whether a program was built with a sanitizer, by the names that it shares with libraries. A sanitizer wants to be
/// the first library, and has its own ways with memory.
fn has_sanitizer(file: &File, layout: &Layout) -> bool {
    const ENTRY: usize = 16;
    let Some((offset, length)) = layout.dynamic else {
        return false;
    };
    let mut table = [0_u8; BLOCK];
    let length = usize::try_from(length).unwrap_or(BLOCK).min(BLOCK);
    let table = table.get_mut(..length).unwrap_or_default();
    let (mut names, mut size) = (None, 0);
    for entry in file.read(offset, table).unwrap_or_default().chunks_exact(ENTRY) {
        match number(entry, 0, 8) {
            5 => names = layout.offset(number(entry, 8, 8)),
            10 => size = usize::try_from(number(entry, 8, 8)).unwrap_or(0).min(MOST_NAMES),
            _ => {}
        }
    }
    names.is_some_and(|names| tells_of_sanitizer(file, names, size))
}

fn tells_of_sanitizer(file: &File, offset: u64, size: usize) -> bool {
    const LONGEST: usize = 16;
    let mut room = [0_u8; BLOCK];
    for at in (0..size).step_by(BLOCK - LONGEST) {
        let Some(names) = file
            .read(offset + at as u64, &mut room)
            .filter(|names| !names.is_empty())
        else {
            return false;
        };
        let mut rest = names;
        while let [first, behind @ ..] = rest {
            let is_one = matches!(first, b'a' | b'l' | b'm' | b't');
            let is_any = *first == b'_' && behind.starts_with(b"_sanitizer_");
            if is_any || is_one && (behind.starts_with(b"san.so") || behind.starts_with(b"san_init")) {
                return true;
            }
            rest = behind;
        }
    }
    false
}

/// Why a program that this process begins now cannot be managed, whatever it is.
fn whose() -> Option<Stranger> {
    const READABLE: usize = 4;
    const WRITABLE: usize = 2;
    if !keeps_rights() {
        return Some(Stranger::LacksRights);
    }
    let mut socket = [0_u8; 108];
    for (to, from) in socket.iter_mut().take(107).zip(SETTINGS.socket()) {
        *to = *from;
    }
    // What is kept of the agent's path ends with a zero byte.
    (!reaches(agent(), READABLE) || !reaches(&socket, WRITABLE)).then_some(Stranger::OutOfReach)
}

/// Whether the new program may do this to the file of a path that ends with a zero byte. A caller that has left root's
/// user behind can still have root's capabilities for files, and the new program has them no more.
fn reaches(path: &[u8], how: usize) -> bool {
    const OVERRIDE: usize = 1;
    let path = path.as_ptr() as usize;
    let as_now = sys::may(AT_FDCWD, path, how, 0);
    as_now && (keeps(OVERRIDE) || !sys::is_one_user() || sys::may_without_rights(path, how))
}

/// Whether the new program has what the agent needs: CAP_SYS_PTRACE, over all users.
fn keeps_rights() -> bool {
    const PTRACE: usize = 19;
    keeps(PTRACE) && is_among_first_users()
}

/// Whether a program that gains no rights by its file has a capability (capabilities(7), transformation during
/// execve): an ambient one, or as root, whom SECBIT_NOROOT makes a user like others.
fn keeps(capability: usize) -> bool {
    const BOUNDING_READ: usize = 23;
    const SECURE_BITS: usize = 27;
    const NO_ROOT: usize = 1;
    const AMBIENT: usize = 47;
    const IS_SET: usize = 1;
    // SAFETY: these requests touch no memory.
    let asked = |request, first, second| unsafe { sys::call5(sys::PRCTL, request, first, second, 0, 0) };
    let is_root = sys::effective_user() == 0 && asked(SECURE_BITS, 0, 0).is_ok_and(|bits| bits & NO_ROOT == 0);
    is_root && asked(BOUNDING_READ, capability, 0) == Ok(1) || asked(AMBIENT, IS_SET, capability) == Ok(1)
}

/// Whether this process is in the first name space of users: in another one it has capabilities over those only. Where
/// that cannot be read, it is taken to be.
fn is_among_first_users() -> bool {
    const READLINK: usize = 89;
    /// `PROC_USER_INIT_INO`
    const FIRST: &[u8] = b"user:[4026531837]";
    let (path, mut text) = (c"/proc/self/ns/user".as_ptr() as usize, [0_u8; 32]);
    let (place, room) = (text.as_mut_ptr() as usize, text.len());
    // SAFETY: the path ends, and the kernel writes inside the room.
    let length = unsafe { sys::call5(READLINK, path, place, room, 0, 0) };
    length.map_or(true, |length| text.get(..length) == Some(FIRST))
}
