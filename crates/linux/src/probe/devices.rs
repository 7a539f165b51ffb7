//! What device memory, mounts over it and recordings of file pages need.

use super::trial::{ensure, say};
use super::{Finding, Item, Need};
use crate::file_lease::{self, BreakWaiter};
use crate::freed_frames::FreedFrames;
use crate::memory::{Chunk, HUGE_PAGES, Window};
use crate::physical::{self, Pins};
use crate::tracepoints::{Trace, Tracepoint};
use crate::{PageRange, sched, tracefs};
use rustix::fs::ftruncate;
use std::fs::{File, OpenOptions};
use std::io::Write;

const NAME: &std::ffi::CStr = c"freehold-probe";
/// What a recording of file pages is made of.
const PAGE_ADDED: Tracepoint = Tracepoint {
    system: "filemap",
    name: "mm_filemap_add_to_page_cache",
};

pub(super) fn all() -> Vec<Finding> {
    vec![
        huge_pages(),
        sealing(),
        page_map(),
        pins(),
        leases(),
        fuse(),
        tracepoints(),
    ]
}

fn huge_pages() -> Finding {
    let item = Item {
        name: "device-huge-pages",
        need: Need::Optional,
        why: "device memory on huge pages is handed over faster, and in few pieces",
        fix: "`freehold region prepare` (physically contiguous), or echo NUMBER > /proc/sys/vm/nr_hugepages; small \
              pages are used otherwise",
    };
    item.tried((|| {
        let chunk = Chunk::create(NAME, HUGE_PAGES, true).map_err(|error| error.to_string())?;
        resident(&chunk)?;
        Ok("a page of 2 MiB was to be had".to_owned())
    })())
}

fn sealing() -> Finding {
    let item = Item {
        name: "device-sealing",
        need: Need::Recommended,
        why: "a device's client gets its own frames and nothing else, and they come back when nobody has them",
        fix: "kernel with CONFIG_MEMFD_CREATE, /proc mounted, and CAP_LEASE where another user made the memory",
    };
    item.tried((|| {
        let chunk = Chunk::create(NAME, 1, false).map_err(|error| error.to_string())?;
        ensure(!say("probe", chunk.is_held())?, "memory that nobody has counts as held")?;
        let client = say("reopen", chunk.reopen())?;
        ensure(ftruncate(&client, 0).is_err(), "a client can shrink its memory")?;
        ensure(
            say("probe", chunk.is_held())?,
            "memory that a client has counts as free",
        )?;
        drop(client);
        ensure(!say("probe", chunk.is_held())?, "memory that came back counts as held")?;
        Ok("sealed, told apart held and free".to_owned())
    })())
}

fn page_map() -> Finding {
    let item = Item {
        name: "device-page-map",
        need: Need::Optional,
        why: "tells whether device memory is physically contiguous; `contiguity` is `unknown` otherwise",
        fix: "run the server as root (CAP_SYS_ADMIN), on a kernel with CONFIG_PROC_PAGE_MONITOR",
    };
    item.tried((|| {
        let chunk = Chunk::create(NAME, 1, false).map_err(|error| error.to_string())?;
        let window = resident(&chunk)?;
        let addresses = window.addresses(PageRange::new(0, 1)).ok_or("no addresses")?;
        let frames = say("/proc/self/pagemap", physical::frames(addresses, 1))?;
        ensure(
            frames.first().copied().flatten().is_some(),
            "/proc/self/pagemap hides the frames' numbers",
        )?;
        Ok("numbers of frames are told".to_owned())
    })())
}

fn pins() -> Finding {
    let item = Item {
        name: "device-pins",
        need: Need::Optional,
        why: "tells what the kernel keeps of a device's memory after its client is gone (buffers of io_uring)",
        fix: "run the server as root (CAP_SYS_ADMIN), on a kernel with CONFIG_PROC_PAGE_MONITOR and CONFIG_FTRACE",
    };
    item.tried(say("/proc/kpageflags", Pins::open()).and_then(|_| {
        ensure(
            FreedFrames::open().is_some(),
            "the tracepoint kmem:mm_page_free cannot be read",
        )?;
        Ok("flags of frames are told, and when frames become free".to_owned())
    }))
}

fn leases() -> Finding {
    let item = Item {
        name: "file-leases",
        need: Need::Optional,
        why: "`freehold mount` caches only files on which it has a lease, so that no change goes unseen",
        fix: "mount a local file system, as the files' owner or with CAP_LEASE; /proc/sys/fs/leases-enable is 1",
    };
    // The kernel's word about a lease goes to the thread that asked for it: one that ends here.
    let tried = std::thread::spawn(|| {
        let path = std::env::temp_dir().join(format!("freehold-probe-{}", std::process::id()));
        let lease = lease_on(&path);
        let _ = std::fs::remove_file(&path);
        lease.map(|()| format!("a file in {} was leased", std::env::temp_dir().display()))
    });
    item.tried(tried.join().unwrap_or_else(|_| Err("the trial failed".to_owned())))
}

fn lease_on(path: &std::path::Path) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(path).map_err(text)?;
    file.write_all(b"probe").map_err(text)?;
    drop(file);
    let file = File::open(path).map_err(text)?;
    let waiter = say("signals", BreakWaiter::on_this_thread())?;
    say("lease", waiter.owner().take(&file))?;
    ensure(file_lease::is_held(&file), "the lease is not held")?;
    file_lease::release(&file);
    Ok(())
}

fn fuse() -> Finding {
    let item = Item {
        name: "fuse",
        need: Need::Optional,
        why: "`freehold mount` gives programs a file system with a cache of a size of its own",
        fix: "modprobe fuse, and run `freehold mount` as root",
    };
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    item.tried(match opened {
        Ok(_) => Ok("/dev/fuse may be opened".to_owned()),
        Err(error) => Err(format!("/dev/fuse: {error}")),
    })
}

fn tracepoints() -> Finding {
    let item = Item {
        name: "page-cache-tracepoints",
        need: Need::Optional,
        why: "`freehold cache record` records which file pages programs use",
        fix: "run as root, on a kernel with CONFIG_FTRACE; kernel.perf_event_paranoid to -1 for others",
    };
    // The tracing file system is mounted for a thread that ends here, and for nobody else.
    let tried = std::thread::spawn(|| {
        let mounted = tracefs::mount_for_this_thread();
        let cpus: Vec<usize> = sched::online_cpus().into_iter().take(1).collect();
        let opened = Trace::open(&cpus, &[PAGE_ADDED], 1);
        match (opened, mounted) {
            (Ok(_), _) => Ok("they can be recorded".to_owned()),
            (Err(error), Ok(())) => Err(error.to_string()),
            (Err(error), Err(errno)) => Err(format!("{error}; tracefs cannot be mounted: {errno}")),
        }
    });
    item.tried(tried.join().unwrap_or_else(|_| Err("the trial failed".to_owned())))
}

fn resident(chunk: &Chunk) -> Result<Window, String> {
    let window = say("reserve", Window::reserve(chunk.pages()))?;
    say("map", window.place(0, chunk))?;
    say("populate", window.populate(PageRange::new(0, chunk.pages())))?;
    Ok(window)
}
