//! Shared memory by name: `mbuff.h`. Programs on the time-sharing side call the same functions.

use std::sync::Mutex;

use crate::directory::Directory;
use crate::memory::NamedMemory;
use crate::runtime::call::Call;
use crate::runtime::modules;

/// What this process holds, with its name and the module that asked for it.
static HELD: Mutex<Vec<(String, usize, NamedMemory)>> = Mutex::new(Vec::new());

fn hold(name: *const libc::c_char, size: i32, create: bool) -> *mut libc::c_void {
    if name.is_null() {
        return std::ptr::null_mut();
    }
    let _call = Call::enter();
    // SAFETY: not null, so a string that ends, as the C API wants it of both callers.
    let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let Ok(size) = usize::try_from(size) else {
        return std::ptr::null_mut();
    };
    let module = modules::status_descriptor();
    let held = Directory::open().and_then(|directory| NamedMemory::hold(&directory, &name, size, create, module));
    match held {
        Ok(memory) => {
            let start = memory.area().start().as_ptr().cast();
            if let Ok(mut table) = HELD.lock() {
                table.push((name, modules::current(), memory));
            }
            start
        }
        Err(error) => {
            modules::say(&format!("freehold rtl: mbuff {name}: {error}\n"));
            std::ptr::null_mut()
        }
    }
}

/// `mbuff_alloc`: null when there is none to be had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mbuff_alloc(name: *const libc::c_char, size: i32) -> *mut libc::c_void {
    hold(name, size, true)
}

/// `mbuff_attach`: null when nobody has allocated it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mbuff_attach(name: *const libc::c_char, size: i32) -> *mut libc::c_void {
    hold(name, size, false)
}

/// `mbuff_free`, `mbuff_detach`: the memory is gone when the last that holds it has called it or ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mbuff_free(_name: *const libc::c_char, memory: *mut libc::c_void) -> i32 {
    let _call = Call::enter();
    let Ok(mut table) = HELD.lock() else {
        return -libc::EINVAL;
    };
    let is_it = |(_, _, held): &(String, usize, NamedMemory)| held.area().start().as_ptr().cast() == memory;
    match table.iter().position(is_it) {
        Some(index) => {
            table.swap_remove(index);
            0
        }
        None => -libc::EINVAL,
    }
}

/// `kmalloc`, `vmalloc`. A thread that is deleted in it leaves the C library's lock free.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_kmalloc(size: usize) -> *mut libc::c_void {
    let _call = Call::enter();
    // SAFETY: any size may be asked for.
    unsafe { libc::malloc(size) }
}

/// `kfree`, `vfree`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_kfree(memory: *mut libc::c_void) {
    let _call = Call::enter();
    // SAFETY: null or from `rtl_kmalloc`, and not freed, as the C API wants it.
    unsafe { libc::free(memory) };
}

/// Gives back what a module has left.
pub(crate) fn free_all_of(module: usize) {
    if let Ok(mut table) = HELD.lock() {
        table.retain(|(_, owner, _)| *owner != module);
    }
}
