//! A directory of modules for one test, with a host and programs in C.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freehold_rtl::control::{self, Insert, Request};
use freehold_rtl::directory::{Directory, Kind, VARIABLE};
use freehold_rtl::list::{self, ModuleView};
use freehold_rtl::load::{self, RtlError, Space};
use freehold_rtl::{compile, process, starting};

/// Both spaces.
pub(crate) const SPACES: [Space; 2] = [Space::Shared, Space::Separate];

/// One test's own world: nothing of it is seen by others, nothing is left.
pub(crate) struct World {
    pub(crate) directory: Directory,
    host: Option<Child>,
}

impl World {
    /// A world of its own; None, and that said, where modules cannot run: without the rights.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let mut priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: valid parameters; the policy is set back at once.
        let may = unsafe {
            let set = libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0;
            priority.sched_priority = 0;
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const priority);
            set
        };
        if !may {
            println!("not tested: real-time scheduling is refused; see freehold doctor");
            return None;
        }
        let path = PathBuf::from(format!("/dev/shm/freehold-rtl-test-{name}-{}", std::process::id()));
        let directory = Directory::at(path).expect("a directory");
        Some(Self { directory, host: None })
    }

    /// Starts the time-sharing side and waits until it serves; its process.
    pub(crate) fn start_host(&mut self) -> u32 {
        let mut host = Command::new(env!("CARGO_BIN_EXE_freehold-rtl"));
        host.arg("host").env(VARIABLE, self.directory.path());
        let host = host.stdin(Stdio::null()).spawn().expect("the host starts");
        let host = self.host.insert(host);
        let socket = self.directory.socket(process::HOST);
        let serves = || control::ask_within(&socket, &Request::Ping, Duration::from_secs(1)).is_ok();
        starting::wait_until(host, serves).expect("the host serves");
        host.id()
    }

    /// Kills the time-sharing side.
    pub(crate) fn kill_host(&mut self) {
        if let Some(mut host) = self.host.take() {
            host.kill().expect("the host is there");
            host.wait().expect("the host ends");
        }
    }

    /// Ends the time-sharing side in order.
    pub(crate) fn end_host(&mut self) {
        if let Some(mut host) = self.host.take() {
            if let Ok(id) = i32::try_from(host.id()) {
                // SAFETY: the host is a child that is not waited for, so the identifier is its own.
                unsafe { libc::kill(id, libc::SIGTERM) };
            }
            let _ = host.wait();
        }
    }

    /// Compiles a program of `tests/modules`, under a name of its own.
    pub(crate) fn compile(&self, source: &str, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(source);
        let object = self.directory.path().join(format!("{name}.o"));
        let arguments = [
            "-c".into(),
            OsString::from(&source),
            "-o".into(),
            OsString::from(&object),
        ];
        let status = compile::compile(&arguments).expect("there is a C compiler");
        assert_eq!(status, 0, "{} does not compile", source.display());
        object
    }

    /// Loads a module.
    pub(crate) fn insert(&self, object: &Path, space: Space, parameters: &[(&str, &str)]) -> Result<(), RtlError> {
        let owned = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let insert = Insert {
            parameters: owned.collect(),
            ..Insert::default()
        };
        load::insert(&self.directory, object, &space.into(), insert)
    }

    /// What is listed of a module.
    pub(crate) fn module(&self, name: &str) -> ModuleView {
        let modules = list::modules(&self.directory);
        let found = modules.iter().find(|module| module.name == name);
        found
            .unwrap_or_else(|| panic!("{name} is not among {modules:?}"))
            .clone()
    }

    /// What a module has printed.
    pub(crate) fn printed(&self, name: &str) -> String {
        fs::read_to_string(self.directory.log(name)).unwrap_or_default()
    }

    /// A directory where FIFOs are files; None, and that said, where there is no FUSE.
    pub(crate) fn mount(&self) -> Option<PathBuf> {
        let path = self.directory.path().join("files");
        match load::mount(&self.directory, &path, false) {
            Ok(()) => Some(path),
            Err(error) => {
                println!("not tested: {error}");
                None
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in self.directory.names(Kind::Module) {
            let _ = load::remove(&self.directory, &name, true);
        }
        self.end_host();
        let files = self.directory.path().join("files");
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&files)
            .stderr(Stdio::null())
            .status();
        let _ = fs::remove_dir_all(self.directory.path());
    }
}

/// Waits until `condition` holds; half a minute is enough on any machine.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    eventually_within(Duration::from_secs(30), what, condition);
}

/// Waits until `condition` holds, for `most` at most.
pub(crate) fn eventually_within(most: Duration, what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + most;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {most:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
