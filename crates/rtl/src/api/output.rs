//! `rtl_printf`, `printk`: the headers put the text together, this takes it to the module's log.

use crate::runtime::modules;

/// Prints `length` bytes, all or none. Never waits for the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_log(text: *const u8, length: i32) {
    let Ok(length) = usize::try_from(length) else { return };
    if !text.is_null() {
        // SAFETY: not null, so as long as the header says.
        modules::say_bytes(unsafe { std::slice::from_raw_parts(text, length) });
    }
}
