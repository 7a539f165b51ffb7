//! Messages on the program's standard error, for what it must not hide.

use crate::sys;

/// Writes one line. The agent's threads have no descriptor of it and open the program's.
pub(crate) fn say(parts: &[&[u8]]) {
    let mut line = [0_u8; 1024];
    let mut length = 0;
    let pieces = [&b"freehold: "[..]]
        .into_iter()
        .chain(parts.iter().copied())
        .chain([&b"\n"[..]]);
    for byte in pieces.flatten() {
        if let Some(place) = line.get_mut(length) {
            *place = *byte;
            length += 1;
        }
    }
    // The number 2 of the calling thread may be no standard error: the program's main thread has it.
    let Ok(fd) = sys::open(b"/proc/self/fd/2\0", true) else {
        return;
    };
    // SAFETY: reads inside the line.
    let _ = unsafe { sys::call5(sys::WRITE, sys::arg(fd), line.as_ptr() as usize, length, 0, 0) };
    sys::close(fd);
}

/// A number in decimal digits, at the end of the buffer.
pub(crate) fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    for place in buffer.iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        start -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.get(start..).unwrap_or_default()
}
