//! Trials of userfaultfd, memory objects and locking.

use super::trial::{Anonymous, Arena, ensure, say};
use super::{Finding, Item, Need, Status};
use crate::memory::{Access, Memfd, SharedMapping};
use crate::process::resource_limit;
use crate::userfault::{Features, Modes, Scope, Userfault};
use crate::{Errno, PageRange};
use rustix::mm::{MapFlags, MlockFlags, ProtFlags};
use rustix::process::Resource;

const PAGE: PageRange = PageRange::single(0);

pub(super) fn userfault() -> Vec<Finding> {
    vec![
        scope(),
        sigbus(),
        minor(),
        write_protect(),
        continue_protected(),
        poison(),
        move_pages(),
    ]
}

fn scope() -> Finding {
    let item = Item {
        name: "userfaultfd",
        need: Need::Required,
        why: "live runs learn of page faults through it; the server needs the full form to see the kernel's faults too",
        fix: "kernel with CONFIG_USERFAULTFD; for the full form run as root, set vm.unprivileged_userfaultfd=1, or \
              give the user permission on /dev/userfaultfd",
    };
    match Userfault::open(Features::NONE).map(|userfault| userfault.scope()) {
        Ok(Scope::Full) => item.found(Status::Present, "full"),
        Ok(Scope::UserModeOnly) => item.found(Status::Limited, "user-mode faults only: enough for placement embedded"),
        Err(error) => item.found(Status::Absent, error.to_string()),
    }
}

fn sigbus() -> Finding {
    let item = Item {
        name: "userfaultfd-sigbus",
        need: Need::Required,
        why: "placement embedded services faults in the faulting thread",
        fix: "kernel 4.14 or later",
    };
    item.tried((|| {
        let arena = Arena::new(Features::MISSING_SHMEM, Modes::MISSING)?;
        ensure(
            arena.write() == Err(Errno::FAULT),
            "an access to a missing page was not intercepted",
        )?;
        say("fill", arena.userfault.zeropage(arena.range()?))?;
        say("access after the fill", arena.write())?;
        Ok("a missing page faulted and was filled".to_owned())
    })())
}

fn minor() -> Finding {
    let item = Item {
        name: "userfaultfd-minor-shmem",
        need: Need::Required,
        why: "soft faults map a frame that is already in the memory object",
        fix: "kernel 5.14 or later",
    };
    item.tried((|| {
        let arena = Arena::new(
            Features::MINOR_SHMEM | Features::MISSING_SHMEM,
            Modes::MINOR | Modes::MISSING,
        )?;
        arena.fill()?;
        ensure(
            arena.write() == Err(Errno::FAULT),
            "an access to an unmapped page was not intercepted",
        )?;
        say("continue", arena.userfault.continue_(arena.range()?, false))?;
        say("access after continue", arena.write())?;
        Ok("an unmapped page faulted and was mapped".to_owned())
    })())
}

fn write_protect() -> Finding {
    let item = Item {
        name: "userfaultfd-wp-shmem",
        need: Need::Required,
        why: "writes are learned of from faults on write-protected pages, so that clean pages need no store",
        fix: "kernel 5.19 or later, x86-64",
    };
    item.tried((|| {
        let arena = Arena::new(Features::SELF_PAGING, Modes::ALL)?;
        arena.fill()?;
        let range = arena.range()?;
        say("continue", arena.userfault.continue_(range, false))?;
        say("protect", arena.userfault.write_protect(range, true))?;
        say("read of a protected page", arena.read())?;
        ensure(
            arena.write() == Err(Errno::FAULT),
            "a write to a protected page was not intercepted",
        )?;
        say("lift", arena.userfault.write_protect(range, false))?;
        say("write after lifting", arena.write())?;
        Ok("a write to a protected page faulted".to_owned())
    })())
}

fn continue_protected() -> Finding {
    let item = Item {
        name: "userfaultfd-continue-wp",
        need: Need::Recommended,
        why: "maps a page and protects it in one step; without it a second call follows, with a window between them",
        fix: "kernel 6.4 or later",
    };
    item.tried((|| {
        let arena = Arena::new(Features::SELF_PAGING, Modes::ALL)?;
        arena.fill()?;
        say("continue", arena.userfault.continue_(arena.range()?, true))?;
        say("read of a protected page", arena.read())?;
        ensure(
            arena.write() == Err(Errno::FAULT),
            "the page was mapped without protection",
        )?;
        Ok("a page was mapped write-protected".to_owned())
    })())
}

fn poison() -> Finding {
    let item = Item {
        name: "userfaultfd-poison",
        need: Need::Recommended,
        why: "after a store error the page is poisoned, so that its task gets SIGBUS and nobody else notices",
        fix: "kernel 6.6 or later; without it the fault goes to the previous SIGBUS handler",
    };
    item.tried((|| {
        let arena = Arena::new(Features::SELF_PAGING | Features::POISON, Modes::ALL)?;
        say("poison", arena.userfault.poison(arena.range()?))?;
        ensure(arena.read().is_err(), "a poisoned page could be read")?;
        Ok("a page was poisoned".to_owned())
    })())
}

fn move_pages() -> Finding {
    let item = Item {
        name: "userfaultfd-move",
        need: Need::Optional,
        why: "private memory of unmodified programs is evicted and filled without a copy",
        fix: "kernel 6.8 or later; without it pages are copied",
    };
    item.tried((|| {
        let userfault = say("open", Userfault::open(Features::SIGBUS | Features::MOVE))?;
        let pages = say("map", Anonymous::new())?;
        let (Some(to), Some(source)) = (pages.page(0), pages.page(1)) else {
            return Err("no pages to move".to_owned());
        };
        pages.touch_second();
        // SAFETY: the page belongs to `pages` and no reference into it exists.
        say("register", unsafe { userfault.register(to, Modes::MISSING) })?;
        // SAFETY: as above, for the source.
        say("move", unsafe { userfault.move_pages(to, source) })?;
        Ok("a page was moved".to_owned())
    })())
}

pub(super) fn memfd() -> Finding {
    let item = Item {
        name: "memfd",
        need: Need::Required,
        why: "memory objects and the reserve are memfds; punching a hole gives a frame back",
        fix: "kernel with CONFIG_MEMFD_CREATE and CONFIG_SHMEM",
    };
    item.tried((|| {
        let object = say("create", Memfd::create(c"freehold-probe", 2))?;
        let mapping = say("map", SharedMapping::of_whole(&object, Access::ReadWrite))?;
        say("populate", mapping.populate(mapping.whole()))?;
        say("punch", object.punch_hole(PAGE))?;
        let left = say("count", object.resident(mapping.whole()))?.pages;
        ensure(left == 1, &format!("{left} pages left after punching one of two"))?;
        Ok("a hole was punched".to_owned())
    })())
}

pub(super) fn cachestat() -> Finding {
    let item = Item {
        name: "cachestat",
        need: Need::Recommended,
        why: "residency is measured from what the kernel holds, without a mapping",
        fix: "kernel 6.5 or later; without it mincore is used, which needs a byte per page",
    };
    item.tried((|| {
        let object = say("create", Memfd::create(c"freehold-probe", 2))?;
        let mapping = say("map", SharedMapping::of_whole(&object, Access::ReadWrite))?;
        say("populate", mapping.populate(PAGE))?;
        let counted = say("cachestat", object.cachestat(mapping.whole()))?;
        ensure(counted == 1, &format!("counted {counted} pages where one is resident"))?;
        Ok("counted right".to_owned())
    })())
}

pub(super) fn locked_zap() -> Finding {
    let item = Item {
        name: "madv-dontneed-locked",
        need: Need::Recommended,
        why: "pages of a locked mapping can be unmapped one by one",
        fix: "kernel 5.18 or later; without it only mappings that are not locked are managed",
    };
    item.tried((|| {
        let object = say("create", Memfd::create(c"freehold-probe", 1))?;
        let mut mapping = say("map", SharedMapping::of_whole(&object, Access::ReadWrite))?;
        say("lock", mapping.lock_on_fault())?;
        say("populate", mapping.populate(PAGE))?;
        say("zap", mapping.zap(PAGE))?;
        Ok("a locked page was unmapped".to_owned())
    })())
}

pub(super) fn lock_limit(wanted: usize) -> Finding {
    let item = Item {
        name: "locked-memory",
        need: Need::Recommended,
        why: "frames of a reservation are locked, so that the kernel does not take them for swap",
        fix: "raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK= in systemd) or grant CAP_IPC_LOCK",
    };
    let limit = match resource_limit(Resource::Memlock).map(|limit| limit.current) {
        Ok(Some(bytes)) => format!("RLIMIT_MEMLOCK {bytes} bytes"),
        Ok(None) => "RLIMIT_MEMLOCK unlimited".to_owned(),
        Err(errno) => format!("RLIMIT_MEMLOCK cannot be read: {errno}"),
    };
    match lock(wanted) {
        Ok(()) => item.found(Status::Present, format!("{wanted} bytes can be locked ({limit})")),
        Err(errno) => item.found(
            Status::Absent,
            format!("{wanted} bytes cannot be locked: {errno} ({limit})"),
        ),
    }
}

/// Locks `wanted` bytes on fault, which counts them all but takes no frame, and lets them go.
fn lock(wanted: usize) -> Result<(), Errno> {
    if wanted == 0 {
        return Ok(());
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), wanted, ProtFlags::READ, flags) }?;
    // SAFETY: the range is our new mapping, which nobody accesses.
    let result = unsafe { rustix::mm::mlock_with(base, wanted, MlockFlags::ONFAULT) };
    // SAFETY: as above.
    unsafe { rustix::mm::munmap(base, wanted) }?;
    result
}
