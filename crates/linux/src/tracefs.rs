//! The tracing file system, whose files tell the numbers of tracepoints.

use crate::{Errno, sys};

/// Where it lies when the system has mounted it.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Whether the calling thread sees it.
#[must_use]
pub fn is_mounted() -> bool {
    FOLDERS
        .iter()
        .any(|folder| std::path::Path::new(folder).join("events").is_dir())
}

/// The number of a tracepoint; none where the calling thread may not read it, or the kernel has none such.
pub(crate) fn number(system: &str, name: &str) -> Option<u64> {
    read(&format!("events/{system}/{name}/id"))?.trim().parse().ok()
}

/// A file of it, by its path in it.
pub(crate) fn read(path: &str) -> Option<String> {
    let mut files = FOLDERS.iter().map(|folder| std::path::Path::new(folder).join(path));
    files.find_map(|file| std::fs::read_to_string(file).ok())
}

/// Mounts it for the calling thread and the threads and processes that it begins from now on, and for nobody else:
/// in a name space of mounts of their own, which goes with them. Nothing is done where it is mounted already.
///
/// # Errors
/// `PERM` without CAP_SYS_ADMIN; `NODEV` where the kernel has no tracing. The thread may then have a name space of
/// mounts of its own, which shows what the other one shows.
pub fn mount_for_this_thread() -> Result<(), Errno> {
    if is_mounted() {
        return Ok(());
    }
    // SAFETY: gives the calling thread a copy of its name space of mounts; no memory is involved.
    sys::check_int(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_SLAVE)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"tracefs", c"/sys/kernel/tracing", c"tracefs", flags)
}

fn mount(source: &std::ffi::CStr, target: &std::ffi::CStr, kind: &std::ffi::CStr, flags: u64) -> Result<(), Errno> {
    // SAFETY: three texts that end with a zero, which the kernel only reads, and no data.
    sys::check_int(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::{is_mounted, mount_for_this_thread};

    #[test]
    fn it_is_mounted_for_nobody_else() {
        let before = is_mounted();
        let inside = std::thread::spawn(|| mount_for_this_thread().map(|()| is_mounted()));
        match inside.join().unwrap() {
            Ok(seen) => assert!(seen),
            Err(error) => println!("NOT CHECKED: {error}"),
        }
        assert_eq!(is_mounted(), before);
    }
}
