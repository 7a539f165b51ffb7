//! Whether the C library's memory functions can be hooked, as the agent in an unmodified program does.

use super::trial::{ensure, say};
use super::{Finding, Item, Need};
use crate::{PAGE_SIZE, sys};
use std::ffi::{CStr, c_void};

/// The functions that make private memory.
const FUNCTIONS: [&CStr; 3] = [c"mmap", c"mmap64", c"brk"];
/// Bytes that a jump takes.
const ENTRY: usize = 16;

pub(super) fn c_library() -> Finding {
    let item = Item {
        name: "c-library",
        need: Need::Recommended,
        why: "private memory of a program under `freehold exec` is managed by hooks in its C library",
        fix: "programs linked dynamically with glibc; under SELinux: setsebool -P selinuxuser_execmod 1",
    };
    item.tried((|| {
        let mut found = Vec::new();
        for name in FUNCTIONS {
            let shown = name.to_string_lossy();
            let entry = symbol(name);
            ensure(!entry.is_null(), &format!("{shown} is not among its dynamic symbols"))?;
            say(&shown, make_writable_and_back(entry))?;
            found.push(shown.into_owned());
        }
        Ok(format!("glibc {}: {} can be hooked", version(), found.join(", ")))
    })())
}

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: looks a name up in what is loaded; the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

fn version() -> String {
    // SAFETY: returns a static text that ends with a zero byte.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }
        .to_string_lossy()
        .into_owned()
}

/// Makes the pages of a function's entry writable too, and takes that back. Nothing is written.
fn make_writable_and_back(entry: *mut c_void) -> Result<(), crate::Errno> {
    let start = entry.addr() & !(PAGE_SIZE - 1);
    let end = (entry.addr() + ENTRY).next_multiple_of(PAGE_SIZE);
    let page = entry.with_addr(start);
    let code = libc::PROT_READ | libc::PROT_EXEC;
    for protection in [code | libc::PROT_WRITE, code] {
        // SAFETY: the pages hold the C library's code, which stays readable and executable throughout and unchanged.
        sys::check_int(unsafe { libc::mprotect(page, end - start, protection) })?;
    }
    Ok(())
}
