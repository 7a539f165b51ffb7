//! The program to run, and whether it can be managed at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use freehold_linux::userfault::{Features, OpenError, Scope, Userfault};

use crate::exit_status::{EXEC_ABSENT, EXEC_REFUSED, Failure};

/// The dynamic linker of the GNU C library on this machine.
const LINKER: &str = "ld-linux-x86-64.so.2";
/// Interpreters of interpreters that are followed.
const MOST_SCRIPTS: usize = 4;

/// A program that is there, and its arguments.
#[derive(Debug)]
pub struct Command {
    given: OsString,
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Command {
    /// Finds a program as a shell would.
    ///
    /// # Errors
    /// It is not there, or cannot be run.
    pub fn find(command: &[OsString]) -> Result<Self, Failure> {
        let [given, arguments @ ..] = command else {
            return Err(Failure::Input("which program to run is not said".to_owned()));
        };
        let path = if given.as_bytes().contains(&b'/') {
            Some(PathBuf::from(given))
        } else {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let candidates = std::env::split_paths(&folders).map(|folder| folder.join(given));
            candidates.into_iter().find(|path| is_executable(path))
        };
        let path = path.filter(|path| path.exists());
        let path = path.ok_or_else(|| absent(&format!("there is no program {}", given.display())))?;
        if !is_executable(&path) {
            let text = format!(
                "{} is no program: it is a folder, or its mode lets nobody run it",
                given.display()
            );
            return Err(refused(EXEC_REFUSED, &text));
        }
        Ok(Self {
            given: given.clone(),
            path,
            arguments: arguments.to_vec(),
        })
    }

    /// How it was called.
    pub fn given(&self) -> &OsStr {
        &self.given
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// For messages.
    pub fn shown(&self) -> String {
        self.given.display().to_string()
    }

    /// For reports: the last part of its path.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(&self.given);
        name.to_string_lossy().chars().take(64).collect()
    }

    /// Whether an agent can be loaded into it.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn manageable(&self) -> Result<(), String> {
        let mut path = self.path.clone();
        for _ in 0..MOST_SCRIPTS {
            match look(&path)? {
                Some(interpreter) => path = interpreter,
                None => return Ok(()),
            }
        }
        Err("it is a script for a script for a script: name the interpreter".to_owned())
    }
}

fn absent(text: &str) -> Failure {
    refused(EXEC_ABSENT, text)
}

fn refused(status: u8, text: &str) -> Failure {
    Failure::Exec {
        status,
        text: text.to_owned(),
    }
}

/// Why a program that is there did not start, as `env` tells them apart.
pub fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let text = format!("cannot run {}: {error}", command.shown());
    let is_absent = error.kind() == std::io::ErrorKind::NotFound;
    refused(if is_absent { EXEC_ABSENT } else { EXEC_REFUSED }, &text)
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
}

/// Looks at an executable; a script's interpreter, or nothing where the executable will do.
fn look(path: &Path) -> Result<Option<PathBuf>, String> {
    let mut file =
        File::open(path).map_err(|error| format!("it cannot be read ({error}), so what it is is not known"))?;
    secure(path, &file)?;
    let mut head = Vec::new();
    let read = Read::by_ref(&mut file).take(4096).read_to_end(&mut head);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        let interpreter = words.next().ok_or("its first line names no interpreter")?;
        return Ok(Some(PathBuf::from(OsStr::from_bytes(interpreter))));
    }
    if !head.starts_with(b"\x7fELF") {
        return Err("it is neither a program nor a script with an interpreter: name the shell (sh FILE)".to_owned());
    }
    let is_linker = path.as_os_str().as_bytes().ends_with(LINKER.as_bytes());
    inspect(&file, &head, is_linker).map(|()| None)
}

/// The kernel has the dynamic linker ignore `LD_PRELOAD` in programs that gain rights.
fn secure(path: &Path, file: &File) -> Result<(), String> {
    let status = file.metadata().map_err(|error| error.to_string())?;
    let gains = (status.mode() & 0o4000 != 0 && status.uid() != freehold_linux::process::effective_user())
        || (status.mode() & 0o2010 == 0o2010 && status.gid() != freehold_linux::process::effective_group());
    if gains {
        return Err(
            "it is set-user-id or set-group-id, and such programs load no agent: run a copy without".to_owned(),
        );
    }
    if freehold_linux::process::has_file_capabilities(path) && freehold_linux::process::effective_user() != 0 {
        return Err("it has file capabilities, and such programs load no agent: setcap -r a copy".to_owned());
    }
    Ok(())
}

fn number(head: &[u8], at: usize, length: usize) -> usize {
    let bytes = head.get(at..at + length).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | usize::from(*byte))
}

fn inspect(file: &File, head: &[u8], is_linker: bool) -> Result<(), String> {
    const X86_64: usize = 62;
    const WIDE: usize = 2;
    if number(head, 4, 1) != WIDE || number(head, 18, 2) != X86_64 {
        return Err("it is for another machine than x86-64, and the agent is for that one".to_owned());
    }
    let (offset, size, count) = (number(head, 32, 8), number(head, 54, 2), number(head, 56, 2));
    let mut table = vec![0; size * count];
    file.read_exact_at(&mut table, offset as u64)
        .map_err(|error| format!("its program headers cannot be read: {error}"))?;
    let mut interpreter = None;
    for entry in table.chunks_exact(size.max(1)) {
        let (kind, at, length) = (number(entry, 0, 4), number(entry, 8, 8), number(entry, 32, 8));
        let mut content = vec![0; length.min(4096)];
        match kind {
            3 if file.read_exact_at(&mut content, at as u64).is_ok() => interpreter = Some(content),
            2 if has_sanitizer(file, &table, (at, length)) => {
                let text = "it was built with a sanitizer, which has its own ways with memory: use a build without";
                return Err(text.to_owned());
            }
            4 if file.read_exact_at(&mut content, at as u64).is_ok() && names_go(&content) => {
                let text =
                    "it is a Go program, which makes its memory past the C library: it runs without `freehold exec`";
                return Err(text.to_owned());
            }
            _ => {}
        }
    }
    let Some(interpreter) = interpreter else {
        if is_linker {
            // It is told what to load.
            return Ok(());
        }
        return Err("it is linked statically and loads no agent: use a dynamically linked build".to_owned());
    };
    let interpreter = String::from_utf8_lossy(&interpreter);
    let interpreter = interpreter.trim_end_matches('\0');
    if interpreter.ends_with(LINKER) {
        Ok(())
    } else {
        Err(format!(
            "its dynamic linker is {interpreter}, and the agent knows the GNU C library's ({LINKER}) only"
        ))
    }
}

/// Whether the names that a program shares with libraries are a sanitizer's. Its dynamic section is at an offset, of a
/// length; `headers` say what of the file is where in memory.
fn has_sanitizer(file: &File, headers: &[u8], (offset, length): (usize, usize)) -> bool {
    const MOST: usize = 1 << 20;
    let mut dynamic = vec![0; length.min(4096)];
    if file.read_exact_at(&mut dynamic, offset as u64).is_err() {
        return false;
    }
    let value = |tag| {
        let mut entries = dynamic.chunks_exact(16);
        entries
            .find(|entry| number(entry, 0, 8) == tag)
            .map(|entry| number(entry, 8, 8))
    };
    let (Some(address), Some(size)) = (value(5), value(10)) else {
        return false;
    };
    let place = headers.chunks_exact(56).find_map(|part| {
        let (start, length) = (number(part, 16, 8), number(part, 32, 8));
        let within = number(part, 0, 4) == 1 && (start..start.saturating_add(length)).contains(&address);
        within.then(|| address - start + number(part, 8, 8))
    });
    let mut names = vec![0; size.min(MOST)];
    let read = place.is_some_and(|place| file.read_exact_at(&mut names, place as u64).is_ok());
    let signs: [&[u8]; 6] = [
        b"libasan.so",
        b"libtsan.so",
        b"liblsan.so",
        b"__tsan_init",
        b"__msan_init",
        b"__sanitizer_",
    ];
    let contains = |sign: &&[u8]| names.windows(sign.len()).any(|name| name == *sign);
    read && signs.iter().any(contains)
}

/// Go's build identifier is a note whose owner is `Go`.
fn names_go(note: &[u8]) -> bool {
    note.get(12..16) == Some(b"Go\0\0")
}

/// What every managed program needs of the kernel, tried before anything is started.
///
/// # Errors
/// What is missing, and what to do.
pub fn rights() -> Result<(), Failure> {
    let refused = |what: &str| {
        Err(Failure::Run(format!(
            "{what}: run as root, or give this command CAP_SYS_PTRACE (see `freehold doctor`)"
        )))
    };
    match Userfault::open(Features::EVENT_FORK | Features::MOVE) {
        Ok(userfault) if userfault.scope() == Scope::Full => Ok(()),
        Ok(_) => {
            refused("userfaultfd is allowed for user-mode faults only, so system calls would fail on absent pages")
        }
        Err(OpenError::Lacks(features)) => Err(Failure::Run(format!(
            "the kernel's userfaultfd lacks {features}: Linux 6.8 or later is needed"
        ))),
        Err(OpenError::System(_) | OpenError::Refused) => {
            refused("userfaultfd with fork events, without which children would lose pages, is not allowed")
        }
        Err(error) => Err(Failure::Run(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    fn find(name: &str) -> Command {
        Command::find(&[name.into()]).unwrap()
    }

    #[test]
    fn a_shell_and_a_script_of_it_can_be_managed() {
        assert_eq!(find("sh").manageable(), Ok(()));
        let script = std::env::temp_dir().join(format!("freehold-script-{}", std::process::id()));
        std::fs::write(&script, "#! /bin/sh -e\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let found = find(script.to_str().unwrap()).manageable();
        std::fs::remove_file(&script).unwrap();
        assert_eq!(found, Ok(()));
    }

    #[test]
    fn a_program_that_is_not_there_is_the_users_mistake() {
        assert!(Command::find(&["no-such-program".into()]).is_err());
        assert!(Command::find(&["/etc/passwd".into()]).is_err());
    }
}
