//! The process that modules are loaded into. It consists of the library that modules are linked with, and nothing else:
//! both must be one copy.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

const LIBRARY: &str = "libfreehold_rtl.so";

fn main() -> ExitCode {
    let arguments: Vec<CString> = std::env::args_os()
        .filter_map(|argument| CString::new(argument.into_vec()).ok())
        .collect();
    match load() {
        Ok(entry) => {
            let pointers: Vec<*const libc::c_char> = arguments.iter().map(|argument| argument.as_ptr()).collect();
            let count = i32::try_from(pointers.len()).unwrap_or(0);
            let status = entry(count, pointers.as_ptr());
            ExitCode::from(u8::try_from(status).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("freehold-rtl: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `freehold_rtl_main` of the library.
type Entry = extern "C" fn(i32, *const *const libc::c_char) -> i32;

fn load() -> Result<Entry, String> {
    let own = std::env::current_exe().map_err(|error| format!("its own path: {error}"))?;
    let folder = own.parent().unwrap_or_else(|| "".as_ref());
    let path = ["deps", ""].map(|place| folder.join(place).join(LIBRARY));
    let path = path.iter().find(|path| path.is_file());
    let path = path.ok_or_else(|| format!("{LIBRARY} is not beside {}: cargo build -p freehold-rtl", own.display()))?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a library of this project, whose initialisers do nothing. It stays loaded.
    let entry = unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        if library.is_null() {
            let why = libc::dlerror();
            return Err(if why.is_null() {
                "dlopen failed".to_owned()
            } else {
                CStr::from_ptr(why).to_string_lossy().into()
            });
        }
        libc::dlsym(library, c"freehold_rtl_main".as_ptr())
    };
    if entry.is_null() {
        return Err(format!("{} is of another version", path.display()));
    }
    // SAFETY: the library's function of this name has this type.
    Ok(unsafe { std::mem::transmute::<*mut libc::c_void, Entry>(entry) })
}
