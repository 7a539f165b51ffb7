//! Component objects: shared libraries with the table of `include/freehold_component.h`.

use crate::board::Board;
use crate::capi::{self, cbuf2buf, take_errno};
use crate::channel::{ARGUMENTS, CallError, Caller, Request};
use crate::job;
use crate::pool::Pool;
use crate::stack::with_stack;
use freehold_linux::clock::{self, MonotonicTime};
use libc::{c_int, c_void};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const VERSION: u32 = 2;

type Function = extern "C" fn(*const Environment, *const u64) -> i64;

/// `struct freehold_component`
#[repr(C)]
struct Table {
    version: u32,
    count: u32,
    functions: *const Function,
    start: Option<extern "C" fn(*const Environment)>,
}

/// An object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The dynamic linker's refusal.
    #[error("{0}")]
    Load(String),
    /// It is none, or was compiled against another header.
    #[error("`{0}` has no table `freehold_component` of version {VERSION}")]
    NoComponent(String),
}

/// A component's code, loaded for as long as the process runs.
#[derive(Clone, Copy, Debug)]
pub struct Object(&'static Table);

// SAFETY: the table is constant, and its functions may be called from any thread, as the header says.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Object {
    /// Loads the object. Its code runs in this process from then on: it is as good as its author's word.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn load(path: &Path) -> Result<Self, ObjectError> {
        let shown = path.display().to_string();
        let name = CString::new(shown.clone()).map_err(|_| ObjectError::NoComponent(shown.clone()))?;
        // SAFETY: the name ends with a zero; what runs is the object's own code.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(ObjectError::Load(last_error()));
        }
        // SAFETY: an open handle, and a name that ends with a zero.
        let table = unsafe { libc::dlsym(handle, c"freehold_component".as_ptr()) };
        // SAFETY: the header fixes the type of what has this name, and the object is never unloaded.
        let table = unsafe { table.cast::<Table>().as_ref() };
        let table = table.filter(|table| table.version == VERSION && (table.count == 0 || !table.functions.is_null()));
        table.map(Self).ok_or(ObjectError::NoComponent(shown))
    }

    /// Runs a function of it on the calling thread's present stack.
    fn run(&self, environment: &Environment, request: Request) -> i64 {
        if request.function >= self.0.count {
            return -i64::from(libc::EINVAL);
        }
        // SAFETY: the table has `count` functions, of which this is one.
        let function = unsafe { *self.0.functions.add(request.function as usize) };
        function(environment, request.arguments.as_ptr())
    }

    /// Runs what it does on its own, until that ends; false where there is nothing.
    pub fn start(&self, environment: &Environment) -> bool {
        self.0.start.is_some_and(|start| {
            start(environment);
            true
        })
    }
}

fn last_error() -> String {
    // SAFETY: the message is the linker's, and lives until the thread's next call of it.
    let message = unsafe { libc::dlerror().cast_const().as_ref().map(|first| CStr::from_ptr(first)) };
    message.map_or_else(
        || "the object cannot be loaded".to_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// A component that another calls.
#[derive(Clone, Debug)]
pub enum Target {
    /// In another address space.
    Apart(Arc<Caller>),
    /// In this one.
    Here(Arc<Component>),
}

/// A component in this process: its code, its stacks, and what it may use.
#[derive(Debug)]
pub struct Component {
    /// The code.
    pub object: Object,
    /// Stacks for calls.
    pub stacks: Arc<Pool>,
    /// What its code sees.
    pub environment: Environment,
}

impl Component {
    /// Serves a request on the present stack, which a [`Callee`](crate::channel::Callee) has taken.
    pub fn serve(&self, request: Request) -> i64 {
        self.object.run(&self.environment, request)
    }

    /// Serves a request of a thread of this process, on a stack of the component.
    pub fn call(&self, request: Request) -> i64 {
        let result = with_stack(&self.stacks, || self.serve(request));
        result.unwrap_or_else(|error| -i64::from(take_errno(error)))
    }
}

/// `struct freehold_self`: the functions first, then what they work on.
#[derive(Debug)]
#[repr(C)]
pub struct Environment {
    version: u32,
    component: u32,
    allocate: extern "C" fn(*const Environment, usize, *mut u64) -> *mut c_void,
    free: extern "C" fn(*const Environment, *mut c_void) -> c_int,
    find: extern "C" fn(*const Environment, u64, usize) -> *const c_void,
    call: extern "C" fn(*const Environment, u32, u32, *const u64) -> i64,
    job_begin: extern "C" fn(*const Environment, u32) -> c_int,
    job_end: extern "C" fn(*const Environment) -> c_int,
    buffers: Option<&'static Pool>,
    targets: Vec<Target>,
    jobs: Option<Jobs>,
}

/// Jobs that a component does on its own.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Where they are noted.
    pub board: Arc<Board>,
    /// For each of the component's classes the number of its jobs, and how long one may take.
    pub classes: Vec<(u32, Option<Duration>)>,
}

std::thread_local! {
    /// The class of the thread's job, and when it began.
    static BEGUN: Cell<Option<(usize, MonotonicTime)>> = const { Cell::new(None) };
}

impl Environment {
    /// For a component with a pool of buffers, which is registered, components that it calls, in order, and jobs.
    #[must_use]
    pub fn new(component: u16, buffers: Option<&'static Pool>, targets: Vec<Target>, jobs: Option<Jobs>) -> Self {
        Self {
            version: VERSION,
            component: component.into(),
            allocate,
            free,
            find,
            call,
            job_begin,
            job_end,
            buffers,
            targets,
            jobs,
        }
    }
}

extern "C" fn allocate(own: *const Environment, size: usize, id: *mut u64) -> *mut c_void {
    // SAFETY: the component passes back what it was given, which lives as long as it does.
    let own = unsafe { &*own };
    // SAFETY: the component's own, or null.
    unsafe { capi::allocate(own.buffers, size, id) }
}

extern "C" fn free(own: *const Environment, buffer: *mut c_void) -> c_int {
    // SAFETY: as in `allocate`.
    match unsafe { &*own }.buffers.map(|pool| pool.release(buffer.cast())) {
        Some(Ok(())) => 0,
        Some(Err(errno)) => -errno.raw_os_error(),
        None => -libc::ENXIO,
    }
}

extern "C" fn find(_: *const Environment, id: u64, size: usize) -> *const c_void {
    cbuf2buf(id, size)
}

extern "C" fn job_begin(own: *const Environment, class: u32) -> c_int {
    // SAFETY: as in `allocate`.
    let jobs = unsafe { &*own }.jobs.as_ref();
    let Some((number, _)) = jobs.and_then(|jobs| jobs.classes.get(class as usize)) else {
        return -libc::EINVAL;
    };
    job::set(*number);
    BEGUN.set(Some((class as usize, clock::now())));
    0
}

extern "C" fn job_end(own: *const Environment) -> c_int {
    // SAFETY: as in `allocate`.
    let jobs = unsafe { &*own }.jobs.as_ref();
    let (Some(jobs), Some((class, begun))) = (jobs, BEGUN.take()) else {
        return -libc::EINVAL;
    };
    let (number, target) = jobs.classes[class];
    jobs.board.note(number, clock::now().saturating_since(begun), target);
    job::set(job::NONE);
    0
}

extern "C" fn call(own: *const Environment, target: u32, function: u32, arguments: *const u64) -> i64 {
    // SAFETY: as in `allocate`.
    let own = unsafe { &*own };
    let arguments = if arguments.is_null() {
        [0; ARGUMENTS]
    } else {
        // SAFETY: the header asks for six words.
        unsafe { arguments.cast::<[u64; ARGUMENTS]>().read() }
    };
    match own.targets.get(target as usize) {
        Some(Target::Apart(caller)) => caller
            .call(function, arguments)
            .unwrap_or_else(|error| -i64::from(errno(error))),
        Some(Target::Here(component)) => component.call(Request { function, arguments }),
        None => -i64::from(libc::EINVAL),
    }
}

/// The error of a call as a number.
#[must_use]
pub fn errno(error: CallError) -> i32 {
    match error {
        CallError::TimedOut => libc::ETIMEDOUT,
        CallError::CalleeDied => libc::EOWNERDEAD,
        CallError::Circle => libc::EDEADLK,
        CallError::Refused => libc::EIO,
    }
}
