//! Modules: an object that is loaded, its parameters, its `init_module` and `cleanup_module`.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use freehold_linux::address_space;

use crate::control::Insert;
use crate::directory::{Directory, Kind};
use crate::runtime::{cpus, fifos, life, lines, modules, nudge, timers};
use crate::status::Status;

/// How long `cleanup_module` may take before the module is called busy.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(3);

/// Why a module is not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The dynamic linker refuses it; symbols that nobody has are named.
    #[error("{0}")]
    Object(String),
    /// No `init_module` is in it.
    #[error("{0} has no init_module: it is no module")]
    NoInit(String),
    /// A parameter that it does not have, or a value of another type.
    #[error("{0}")]
    Parameter(String),
    /// A file of `--irq` or `--port`.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// A module of that name is loaded.
    #[error("a module called {0} is loaded already")]
    Exists(String),
    /// No memory, or no room in the table.
    #[error("there is no room for another module: {0}")]
    NoRoom(String),
    /// Its `init_module` returned another value than 0.
    #[error("init_module of {name} returned {value}")]
    Init {
        /// The module.
        name: String,
        /// The value.
        value: i32,
    },
}

impl LoadError {
    /// The exit status of the command: 1 where the module itself fails, 2 for what cannot be loaded.
    #[must_use]
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Init { .. } | Self::NoRoom(_) | Self::Exists(_) => 1,
            Self::Object(_) | Self::NoInit(_) | Self::Parameter(_) | Self::File { .. } => 2,
        }
    }
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    index: usize,
    library: Library,
    writer: Option<JoinHandle<()>>,
}

/// An object of the dynamic linker's, and its path.
#[derive(Debug)]
struct Library {
    handle: *mut libc::c_void,
    path: CString,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Library {}

impl Library {
    fn open(insert: &Insert) -> Result<Self, LoadError> {
        let path = CString::new(insert.object.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the user wants this object's initialisers and functions to run in this process.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(Self { handle, path });
        }
        // SAFETY: null, or a string that is valid until the next call.
        let why = unsafe {
            let why = libc::dlerror();
            (!why.is_null()).then(|| CStr::from_ptr(why).to_string_lossy().into_owned())
        };
        Err(LoadError::Object(
            why.unwrap_or_else(|| "it cannot be loaded".to_owned()),
        ))
    }

    /// What the object itself has under this name; null where it has nothing. The C library has an `init_module` too.
    fn symbol(&self, name: &str) -> *mut libc::c_void {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: an open library and a string that ends; the structure is filled before it is read.
        unsafe {
            let symbol = libc::dlsym(self.handle, name.as_ptr());
            let mut found: libc::Dl_info = std::mem::zeroed();
            let known = !symbol.is_null() && libc::dladdr(symbol, &raw mut found) != 0 && !found.dli_fname.is_null();
            if known && CStr::from_ptr(found.dli_fname) == self.path.as_c_str() {
                symbol
            } else {
                std::ptr::null_mut()
            }
        }
    }

    fn close(self) {
        // SAFETY: open, and nothing of it runs any more.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// Loads a module and calls its `init_module`. `log` is where what it prints goes.
pub(crate) fn load(directory: &Directory, insert: &Insert, separate: bool) -> Result<Loaded, LoadError> {
    let name = &insert.name;
    open_files(insert)?;
    let library = Library::open(insert)?;
    let init = library.symbol("init_module");
    if init.is_null() {
        return Err(LoadError::NoInit(name.clone()));
    }
    for (parameter, value) in &insert.parameters {
        set_parameter(&library, parameter, value)?;
    }
    let no_room = |error: std::io::Error| LoadError::NoRoom(error.to_string());
    let status = Status::create(separate).map_err(no_room)?;
    let published = directory.publish(Kind::Module, name, status.area());
    published.map_err(|_| LoadError::Exists(name.clone()))?;
    let log = open_log(directory, name).map_err(no_room)?;
    let index = modules::add(status).ok_or_else(|| LoadError::NoRoom("the table is full".to_owned()))?;
    let writer = std::thread::Builder::new()
        .name("log".to_owned())
        .stack_size(128 * 1024)
        .spawn(move || write_log(index, log))
        .map_err(no_room)?;
    let loaded = Loaded {
        name: name.clone(),
        index,
        library,
        writer: Some(writer),
    };
    // SAFETY: a module's `init_module` takes nothing and returns a number.
    let init: extern "C-unwind" fn() -> i32 = unsafe { std::mem::transmute(init) };
    let value = modules::on_behalf(index, || init());
    if value != 0 {
        loaded.take_out(directory);
        return Err(LoadError::Init {
            name: name.clone(),
            value,
        });
    }
    if let Some(module) = modules::at(index) {
        module.status.set_ready();
    }
    Ok(loaded)
}

fn write_log(index: usize, mut log: File) {
    if let Some(module) = modules::at(index) {
        module.output.write_to(&mut log);
    }
}

fn open_log(directory: &Directory, name: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    options.open(directory.log(name))
}

fn open_files(insert: &Insert) -> Result<(), LoadError> {
    let failed = |path: &std::path::Path| {
        let path = path.display().to_string();
        move |error| LoadError::File { path, error }
    };
    for (line, path) in &insert.lines {
        let mut options = OpenOptions::new();
        // A pipe that is opened for reading alone would wait for a writer.
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(failed(path))?;
        let kind = file.metadata().map_err(failed(path))?;
        if kind.is_file() {
            let always = std::io::Error::new(std::io::ErrorKind::InvalidInput, "a plain file is always readable");
            return Err(failed(path)(always));
        }
        lines::attach(*line, file);
    }
    for (port, path) in &insert.ports {
        let log = OpenOptions::new().create(true).append(true).open(path);
        lines::log_port(*port, log.map_err(failed(path))?);
    }
    Ok(())
}

/// Sets what `MODULE_PARM(name, kind)` declares: letters of the kernel's own, with counts in front.
fn set_parameter(library: &Library, name: &str, text: &str) -> Result<(), LoadError> {
    let pointer: *mut *mut libc::c_void = library.symbol(&format!("rtl_parameter_{name}")).cast();
    let kind: *const libc::c_char = library.symbol(&format!("rtl_parameter_kind_{name}")).cast();
    if pointer.is_null() || kind.is_null() {
        return Err(LoadError::Parameter(format!("the module has no parameter {name}")));
    }
    // SAFETY: the header's macro defines both: a pointer to the variable, and a string.
    let (variable, kind) = unsafe { (*pointer, CStr::from_ptr(kind).to_string_lossy()) };
    let letter = kind.chars().last().unwrap_or('i');
    let most = kind
        .trim_end_matches(letter)
        .rsplit('-')
        .next()
        .and_then(|most| most.parse::<usize>().ok());
    let wrong = |value: &str| LoadError::Parameter(format!("{name}={value} is no value of kind {kind}"));
    let values: Vec<&str> = match most {
        Some(_) => text.split(',').collect(),
        None => vec![text],
    };
    if values.len() > most.unwrap_or(1) {
        return Err(wrong(text));
    }
    for (index, value) in values.into_iter().enumerate() {
        // SAFETY: the variable has the kind that the module declared, and so many elements.
        unsafe { store(variable, index, letter, value) }.ok_or_else(|| wrong(value))?;
    }
    Ok(())
}

/// # Safety
/// `variable` has elements of the kind that `letter` names, and more than `index`.
unsafe fn store(variable: *mut libc::c_void, index: usize, letter: char, value: &str) -> Option<()> {
    let number = || {
        let (sign, digits) = value.strip_prefix('-').map_or((1, value), |digits| (-1, digits));
        let magnitude = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        magnitude.ok().map(|magnitude| sign * magnitude)
    };
    // SAFETY: the caller's promise.
    unsafe {
        match letter {
            'b' => variable.cast::<i8>().add(index).write(i8::try_from(number()?).ok()?),
            'h' => variable.cast::<i16>().add(index).write(i16::try_from(number()?).ok()?),
            'i' => variable.cast::<i32>().add(index).write(i32::try_from(number()?).ok()?),
            'l' => variable.cast::<i64>().add(index).write(number()?),
            's' => {
                // The module keeps it for as long as it likes.
                let text = CString::new(value).ok()?.into_raw();
                variable.cast::<*mut libc::c_char>().add(index).write(text);
            }
            _ => return None,
        }
    }
    Some(())
}

impl Loaded {
    /// Calls `cleanup_module` and takes the module out. Not done, and said so, when that does not end, or a thread of
    /// it does not.
    pub(crate) fn unload(self, directory: &Directory) -> Result<(), Self> {
        let clean_up = self.library.symbol("cleanup_module");
        if !clean_up.is_null() {
            // SAFETY: a module's `cleanup_module` takes nothing and returns nothing.
            let clean_up: extern "C-unwind" fn() = unsafe { std::mem::transmute(clean_up) };
            let index = self.index;
            let (done, ended) = mpsc::channel();
            let cleaner = std::thread::Builder::new().name("cleanup".to_owned()).spawn(move || {
                modules::on_behalf(index, || clean_up());
                let _ = done.send(());
            });
            if cleaner.is_err() || ended.recv_timeout(CLEAN_UP_WITHIN).is_err() {
                return Err(self);
            }
        }
        if !life::delete_all_of(self.index) {
            return Err(self);
        }
        self.take_out(directory);
        Ok(())
    }

    /// Takes out a module that is cleaned up, with all that it left.
    fn take_out(mut self, directory: &Directory) {
        // A thread that does not end keeps the object: its instructions are there.
        let ended = life::delete_all_of(self.index);
        timers::delete_all_of(self.index);
        lines::free_all_of(self.index);
        fifos::destroy_all_of(self.index);
        crate::api::memory::free_all_of(self.index);
        directory.withdraw(Kind::Module, &self.name);
        if let Some(module) = modules::at(self.index) {
            module.output.end();
        }
        if let Some(writer) = self.writer.take() {
            // Where the log could not be written, that was said.
            let _ = writer.join();
        }
        if ended {
            self.library.close();
            // SAFETY: no thread of the module is left, nor any that acts on its behalf: they were joined above.
            unsafe { modules::remove(self.index) };
        }
    }
}

/// Prepares this process for modules, and leaves its memory to the kernel. Before the first is loaded.
///
/// # Errors
/// No process can be started: what would have to be allowed.
pub(crate) fn prepare_pageable() -> Result<(), String> {
    // While the calling thread may still use all of them.
    let _ = cpus::all();
    nudge::install();
    // However this process ends, its memory is not freed at the priority of a module's thread.
    let helper = address_space::leave_to_helper();
    helper
        .map(|_| ())
        .map_err(|error| format!("no process can be started ({error}): see ulimit -u"))
}

/// Prepares this process for modules: its memory is there, and stays. Before the first is loaded.
///
/// # Errors
/// As [`prepare_pageable`], or memory cannot be locked: what would have to be allowed.
pub(crate) fn prepare() -> Result<(), String> {
    prepare_pageable()?;
    // SAFETY: options of the C library's allocator: what it gives back stays, so that no page of it comes anew.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    let heap = vec![1_u8; 1 << 20];
    drop(std::hint::black_box(heap));
    // SAFETY: locks the pages of this process, which are all meant to stay.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!(
            "memory cannot be locked ({error}): run as root, or allow it with ulimit -l; see freehold doctor"
        ));
    }
    Ok(())
}
