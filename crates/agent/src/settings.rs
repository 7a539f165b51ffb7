//! What `freehold exec` says to the agent, through the environment; read once, kept for forked children.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};

/// The most bytes that are kept of a variable.
const TEXT: usize = 512;
/// How urgent the task is, in decimal digits; 0 without.
pub(crate) const URGENCY: &CStr = c"FREEHOLD_URGENCY";
/// `none`: text is not conserved (the paper's No-SP-Mgmt).
pub(crate) const SHARING: &CStr = c"FREEHOLD_SHARING";
/// Ends of paths of libraries to lock, separated by colons.
pub(crate) const LOCK: &CStr = c"FREEHOLD_LOCK";

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; TEXT],
    length: usize,
}

impl Text {
    const EMPTY: Self = Self {
        bytes: [0; TEXT],
        length: 0,
    };

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

struct Content {
    socket: Text,
    lock: Text,
    ticket: Option<(u64, u64)>,
    urgency: u8,
    unmanaged_sharing: bool,
}

/// The settings of this process and its forked children.
pub(crate) struct Settings {
    content: UnsafeCell<Content>,
}

// SAFETY: written once, before there is any other thread of this library, and only read afterwards.
unsafe impl Sync for Settings {}

/// The settings.
pub(crate) static SETTINGS: Settings = Settings {
    content: UnsafeCell::new(Content {
        socket: Text::EMPTY,
        lock: Text::EMPTY,
        ticket: None,
        urgency: 0,
        unmanaged_sharing: false,
    }),
};

/// Why the environment is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsError {
    /// It does not ask for an agent.
    None,
    /// A variable holds what cannot be.
    Nonsense(&'static [u8]),
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Safety
    /// The calling thread is the only one that uses this library so far.
    pub(crate) unsafe fn read(&self) -> Result<(), SettingsError> {
        // SAFETY: the caller's word.
        let content = unsafe { &mut *self.content.get() };
        if !copy(c"FREEHOLD_SOCKET", &mut content.socket)? {
            return Err(SettingsError::None);
        }
        copy(LOCK, &mut content.lock)?;
        let mut text = Text::EMPTY;
        if copy(c"FREEHOLD_TICKET", &mut text)? {
            let nonsense = SettingsError::Nonsense(b"FREEHOLD_TICKET is not 32 hexadecimal digits");
            content.ticket = Some(ticket(text.get()).ok_or(nonsense)?);
        }
        if copy(URGENCY, &mut text)? {
            let nonsense = SettingsError::Nonsense(b"FREEHOLD_URGENCY is not a number up to 255");
            let number = core::str::from_utf8(text.get()).ok().and_then(|text| text.parse().ok());
            content.urgency = number.ok_or(nonsense)?;
        }
        content.unmanaged_sharing = copy(SHARING, &mut text)? && text.get() == b"none";
        Ok(())
    }

    fn content(&self) -> &Content {
        // SAFETY: written before anybody reads, see `read`.
        unsafe { &*self.content.get() }
    }

    /// Where the server listens.
    pub(crate) fn socket(&self) -> &[u8] {
        self.content().socket.get()
    }

    /// The reservation to join; none for a task of the pool.
    pub(crate) fn ticket(&self) -> Option<(u64, u64)> {
        self.content().ticket
    }

    /// How urgent faults are.
    pub(crate) fn urgency(&self) -> u8 {
        self.content().urgency
    }

    /// Whether text is shared without management.
    pub(crate) fn unmanaged_sharing(&self) -> bool {
        self.content().unmanaged_sharing
    }

    /// Whether the file at `path` is to be locked.
    pub(crate) fn locks(&self, path: &[u8]) -> bool {
        let mut wanted = self.content().lock.get().split(|byte| *byte == b':');
        wanted.any(|end| !end.is_empty() && path.ends_with(end))
    }
}

/// Copies a variable; whether there is one.
fn copy(name: &CStr, text: &mut Text) -> Result<bool, SettingsError> {
    // SAFETY: the name ends; the program is not changing its environment before it begins.
    let value = unsafe { getenv(name.as_ptr()) };
    if value.is_null() {
        return Ok(false);
    }
    // SAFETY: what getenv returns ends.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let Some(place) = text.bytes.get_mut(..value.len()) else {
        return Err(SettingsError::Nonsense(b"a variable of the environment is too long"));
    };
    for (to, from) in place.iter_mut().zip(value) {
        *to = *from;
    }
    text.length = value.len();
    Ok(true)
}

fn ticket(text: &[u8]) -> Option<(u64, u64)> {
    let text = core::str::from_utf8(text).ok()?;
    let (high, low) = (text.len() == 32).then(|| text.split_at_checked(16))??;
    Some((u64::from_str_radix(high, 16).ok()?, u64::from_str_radix(low, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::ticket;

    #[test]
    fn a_ticket_has_two_halves_of_sixteen_digits() {
        assert_eq!(ticket(b"00000000000000010000000000000002"), Some((1, 2)));
        assert_eq!(ticket(b"0000000000000001000000000000000"), None);
        assert_eq!(ticket(b"g0000000000000010000000000000002"), None);
    }
}
