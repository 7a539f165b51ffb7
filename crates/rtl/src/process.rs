//! The processes that modules run in: the host, with the modules of shared space and the service of FIFOs as files; and
//! a process for each separate task.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::{self, Answer, Insert, Request};
use crate::directory::Directory;
use crate::inject;
use crate::module::{self, Loaded};
use crate::mount::Mounts;

/// The host's name in the directory; no module can have it.
pub const HOST: &str = "host";

/// What `freehold-rtl` does. `host` serves until it is ended; `task INSERT` loads one module, says on standard output
/// how that went, and serves until the module is removed.
///
/// # Safety
/// `arguments` are `count` strings that end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_rtl_main(count: i32, arguments: *const *const libc::c_char) -> i32 {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise.
    let argument = |index: usize| unsafe {
        (index < count).then(|| std::ffi::CStr::from_ptr(*arguments.add(index)).to_string_lossy())
    };
    let result = match (argument(1).as_deref(), argument(2)) {
        (Some("host"), None) => host(),
        (Some("task"), Some(insert)) => task(&insert),
        _ => Err("this is freehold's own: use freehold rtl host, or freehold rtl insmod".to_owned()),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("freehold rtl: {error}");
            1
        }
    }
}

fn shown(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Listens at the socket of `owner`, which no living process may have. That is told by a lock: a child that a killed
/// process has forked keeps its socket, to which others can connect, but not the lock.
fn listen(directory: &Directory, owner: &str) -> Result<UnixListener, String> {
    let socket = directory.socket(owner);
    let file = directory.path().join(format!("{owner}.lock"));
    if !lock_for_life(&file).map_err(shown(&file))? {
        return Err(format!("{} is served already", socket.display()));
    }
    // Whoever served it has ended.
    let _ = fs::remove_file(&socket);
    UnixListener::bind(&socket).map_err(shown(&socket))
}

/// Takes the lock of a file, as long as this process lives; false where another process has it.
fn lock_for_life(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    // SAFETY: the structure is filled before it is passed: the whole file, for writing.
    let locked = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap_or_default();
        libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) == 0
    };
    let refused = io::Error::last_os_error();
    if locked {
        // Closing it would give the lock back.
        std::mem::forget(file);
        return Ok(true);
    }
    match refused.raw_os_error() {
        Some(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => Err(refused),
    }
}

/// What the host holds.
#[derive(Debug)]
struct Held {
    directory: Directory,
    mounts: Mounts,
    loaded: Vec<Loaded>,
}

fn host() -> Result<(), String> {
    let end = Ends::block();
    let directory = Directory::open().map_err(|error| format!("no directory for FIFOs: {error}"))?;
    let listener = listen(&directory, HOST)?;
    if let Err(why) = module::prepare() {
        eprintln!("freehold rtl: host: {why}; modules of shared space may be late");
    }
    let held = Arc::new(Mutex::new(Held {
        mounts: Mounts::take_up(&directory),
        directory: directory.clone(),
        loaded: Vec::new(),
    }));
    let ending = Arc::clone(&held);
    let thread = std::thread::Builder::new()
        .name("end".to_owned())
        .stack_size(128 * 1024);
    let waiter = thread.spawn(move || {
        end.wait();
        lock(&ending).end();
    });
    waiter.map_err(|error| error.to_string())?;
    eprintln!("freehold rtl: host: serves {}", directory.path().display());
    for stream in listener.incoming().flatten() {
        let Ok(request) = control::receive(&stream) else {
            continue;
        };
        let answer = lock(&held).perform(request);
        // Who asked may have gone.
        let _ = control::send(&mut &stream, &answer);
    }
    Ok(())
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The signals that end the host in order.
#[derive(Debug)]
struct Ends(libc::sigset_t);

impl Ends {
    /// Has them wait, in all threads that are made from here on.
    fn block() -> Self {
        // SAFETY: the set is filled before use.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Self(set)
        }
    }

    fn wait(&self) {
        let mut signal = 0;
        // SAFETY: a filled set, and where the number goes.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
    }
}

impl Held {
    fn perform(&mut self, request: Request) -> Answer {
        match request {
            Request::Insert(insert) => insert_into(&self.directory, &insert, &mut self.loaded),
            Request::Remove { name } => remove_from(&self.directory, &name, &mut self.loaded),
            Request::Ping => Answer::done(),
            Request::Inject { fault, seed } => {
                inject::inject(&self.directory, fault, seed);
                Answer::done()
            }
            Request::Mount { directory, dev } => match self.mounts.add(&directory, dev) {
                Ok(()) => Answer::done(),
                Err(error) => Answer::failed(error),
            },
        }
    }

    /// Takes out what is loaded, ends what is served, and the process.
    fn end(&mut self) -> ! {
        for module in self.loaded.drain(..) {
            if let Err(busy) = module.unload(&self.directory) {
                eprintln!("freehold rtl: host: {} is busy and ends with the host", busy.name);
            }
        }
        self.mounts.end();
        // Where it is gone there is nothing to remove.
        let _ = fs::remove_file(self.directory.socket(HOST));
        std::process::exit(0)
    }
}

fn insert_into(directory: &Directory, insert: &Insert, loaded: &mut Vec<Loaded>) -> Answer {
    match module::load(directory, insert, false) {
        Ok(module) => {
            loaded.push(module);
            Answer::done()
        }
        Err(error) => Answer {
            status: error.status(),
            error: error.to_string(),
        },
    }
}

fn remove_from(directory: &Directory, name: &str, loaded: &mut Vec<Loaded>) -> Answer {
    let Some(index) = loaded.iter().position(|module| module.name == name) else {
        return Answer::failed(format!("no module {name} is loaded here"));
    };
    match loaded.swap_remove(index).unload(directory) {
        Ok(()) => Answer::done(),
        Err(busy) => {
            loaded.push(busy);
            Answer::failed(format!(
                "{name} is busy (-{}): its cleanup_module or one of its threads does not end",
                libc::EBUSY
            ))
        }
    }
}

fn task(insert: &str) -> Result<(), String> {
    let insert: Insert = serde_json::from_str(insert).map_err(|error| error.to_string())?;
    // SAFETY: touches no memory. It fails where the process leads its session already.
    unsafe { libc::setsid() };
    let (directory, listener, loaded) = match begin(&insert) {
        Ok(begun) => begun,
        Err(answer) => {
            // Who asked may have gone.
            let _ = control::send(&mut io::stdout(), &answer);
            std::process::exit(i32::from(answer.status));
        }
    };
    control::send(&mut io::stdout(), &Answer::done()).map_err(|error| error.to_string())?;
    leave_terminal();
    let result = serve_task(&directory, &listener, loaded);
    let _ = fs::remove_file(directory.socket(&insert.name));
    result
}

fn begin(insert: &Insert) -> Result<(Directory, UnixListener, Loaded), Answer> {
    let directory = Directory::open().map_err(Answer::failed)?;
    let listener = listen(&directory, &insert.name)
        .map_err(|_| Answer::failed(format!("a module called {} is loaded already", insert.name)))?;
    if insert.pageable {
        module::prepare_pageable().map_err(Answer::failed)?;
    } else {
        module::prepare().map_err(Answer::failed)?;
    }
    let loaded = module::load(&directory, insert, true).map_err(|error| {
        let _ = fs::remove_file(directory.socket(&insert.name));
        Answer {
            status: error.status(),
            error: error.to_string(),
        }
    })?;
    Ok((directory, listener, loaded))
}

fn serve_task(directory: &Directory, listener: &UnixListener, mut loaded: Loaded) -> Result<(), String> {
    for stream in listener.incoming().flatten() {
        let Ok(request) = control::receive(&stream) else {
            continue;
        };
        match request {
            Request::Remove { name } if name == loaded.name => match loaded.unload(directory) {
                Ok(()) => {
                    let _ = control::send(&mut &stream, &Answer::done());
                    return Ok(());
                }
                Err(busy) => {
                    loaded = busy;
                    let busy = format!(
                        "{name} is busy (-{}): its cleanup_module or one of its threads does not end; --force kills it",
                        libc::EBUSY
                    );
                    let _ = control::send(&mut &stream, &Answer::failed(busy));
                }
            },
            _ => {
                let _ = control::send(&mut &stream, &Answer::failed("this is a separate task: only rmmod"));
            }
        }
    }
    Ok(())
}

/// Lets go of what the command gave this process: nobody reads it any more.
fn leave_terminal() {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    for descriptor in 0..3 {
        if let Some(null) = null.as_ref().ok().map(File::as_raw_fd) {
            // SAFETY: both are descriptors of this process; the standard ones are nobody's in particular.
            unsafe { libc::dup2(null, descriptor) };
        }
    }
}
