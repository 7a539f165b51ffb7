//! What can be found out only with the command's own means: the agent, a server, a place for the file store.

use std::path::Path;
use std::sync::Arc;

use freehold_client::{ConnectError, Observer, Options, Question};
use freehold_linux::available::memory_available;
use freehold_linux::probe::{Finding, Need, Status};
use freehold_store::{Completion, FileConfig, FileStore, Slot, Store};

use freehold_command::exec::agent;

/// Records of the store that is tried.
const SLOTS: u32 = 64;

/// All of it. `store` is the folder of a file store that is to be tried.
pub(super) fn all(socket: Option<&Path>, store: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![agent(), server(socket), frame_counts()];
    findings.extend(store.map(file_store));
    findings
}

/// Whether a pool of so many bytes is there: one that is not is refused, by the server too.
pub(super) fn available_memory(bytes: u64) -> Finding {
    let (status, detail) = match memory_available() {
        Some((available, limit)) if bytes > available => (
            Status::Absent,
            format!("{bytes} bytes are more than the {available} available {limit}"),
        ),
        Some((available, limit)) => (Status::Present, format!("{available} bytes {limit}")),
        None => (Status::Present, "the kernel does not say how much".to_owned()),
    };
    Finding {
        name: "available-memory",
        status,
        detail,
        need: Need::Recommended,
        why: "frames are locked: more than there are would end other processes",
        fix: "a smaller pool (--memory), or end what takes the memory",
    }
}

fn agent() -> Finding {
    let (status, detail) = match agent::find() {
        Ok(path) => (Status::Present, path.display().to_string()),
        Err(failure) => (Status::Absent, failure.to_string()),
    };
    Finding {
        name: "agent-library",
        status,
        detail,
        need: Need::Recommended,
        why: "`freehold exec` loads it into the program",
        fix: "cargo build --release -p freehold-agent, or FREEHOLD_AGENT=/path/to/libfreehold_agent.so",
    }
}

fn server(socket: Option<&Path>) -> Finding {
    let mut options = Options::named("freehold doctor");
    options.socket = socket.map(Path::to_owned);
    let asked = Observer::connect(&options).map(|observer| observer.ask(Question::Status, ""));
    let (status, detail) = match asked {
        Ok(Ok(document)) => (Status::Present, answer(&document)),
        Ok(Err(error)) => (Status::Limited, format!("it answers, but: {error}")),
        Err(error @ ConnectError::NoServer { .. }) => (Status::Absent, error.to_string()),
        Err(error) => (Status::Limited, error.to_string()),
    };
    Finding {
        name: "server",
        status,
        detail,
        need: Need::Optional,
        why: "holds reservations for several processes; `freehold exec` starts one of its own where none answers",
        fix: "freehold serve (or systemctl start freehold), and programs of the same release on both sides",
    }
}

fn answer(document: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
    let version = document["server"]["version"].as_str().unwrap_or("of unknown version");
    format!("answers: freehold {version}, protocol {}", freehold_protocol::VERSION)
}

fn frame_counts() -> Finding {
    let (status, detail) = match std::fs::File::open("/proc/kpagecount") {
        Ok(_) => (Status::Present, "/proc/kpagecount may be read".to_owned()),
        Err(error) => (Status::Limited, format!("/proc/kpagecount: {error}")),
    };
    Finding {
        name: "frame-counts",
        status,
        detail,
        need: Need::Optional,
        why: "`freehold pages` counts frame by frame; otherwise from the kernel's sums for each mapping",
        fix: "run `freehold pages` as root (CAP_SYS_ADMIN), on a kernel with CONFIG_PROC_PAGE_MONITOR",
    }
}

/// Nobody waits for transfers of a store that is only tried.
#[derive(Debug)]
struct Nobody;

impl Completion for Nobody {
    fn ended(&self, _slot: Slot) {}
}

fn file_store(folder: &Path) -> Finding {
    let config = FileConfig::new(SLOTS, folder.to_owned());
    let (status, detail) = match FileStore::new(&config, Arc::new(Nobody)) {
        Ok(store) => {
            let description = store.describe();
            let short: Vec<String> = description.shortfalls.iter().map(ToString::to_string).collect();
            match short.as_slice() {
                [] => (
                    Status::Present,
                    format!("{}: {}, direct", folder.display(), description.backend),
                ),
                short => (Status::Limited, format!("{}: {}", folder.display(), short.join("; "))),
            }
        }
        Err(error) => (Status::Absent, format!("{}: {error}", folder.display())),
    };
    Finding {
        name: "file-store",
        status,
        detail,
        need: Need::Optional,
        why: "evicted pages go to a file there, past the page cache, with room set aside",
        fix: "name a folder that you may write on ext4 or xfs of a local device: --store FOLDER",
    }
}
