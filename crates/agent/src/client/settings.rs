//! What `freehold exec` says to the agent, through the environment; read once, kept for forked children.

use core::cell::UnsafeCell;

use crate::programs::environment::Environment;

/// The most bytes that are kept of a variable.
const TEXT: usize = 512;
/// What the names of all variables begin with that are the agent's.
pub(crate) const PREFIX: &[u8] = b"FREEHOLD_";
/// Where the server listens. Without it, or where it is empty, there is no agent.
pub(crate) const SOCKET: &[u8] = b"FREEHOLD_SOCKET";
/// How urgent the task is, in decimal digits; 0 without.
const URGENCY: &[u8] = b"FREEHOLD_URGENCY";
/// `none`: text is not conserved (the paper's No-SP-Mgmt).
const SHARING: &[u8] = b"FREEHOLD_SHARING";
/// Ends of paths of libraries to lock, separated by colons.
const LOCK: &[u8] = b"FREEHOLD_LOCK";
/// The process of the command that has begun the first program.
const STARTER: &[u8] = b"FREEHOLD_STARTER";
/// How many filters of system calls that command has itself; none without.
const FILTERS: &[u8] = b"FREEHOLD_FILTERS";
/// How many seconds a program waits for the server before anything of it runs; absent or 0, as commands wait.
const PATIENCE: &[u8] = b"FREEHOLD_PATIENCE";
/// There where the first program is to go on unmanaged if it cannot be managed.
const KEEP_GOING: &[u8] = b"FREEHOLD_KEEP_GOING";

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
    starter: u32,
    filters: u32,
    keep_going: bool,
    patience: u32,
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
        starter: 0,
        filters: 0,
        keep_going: false,
        patience: 0,
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
    pub(crate) unsafe fn read(&self, environment: Environment) -> Result<(), SettingsError> {
        // SAFETY: the caller's word.
        let content = unsafe { &mut *self.content.get() };
        let number = |name, otherwise| match environment.value(name) {
            Some(text) => decimal(text).ok_or(SettingsError::Nonsense(otherwise)),
            None => Ok(0),
        };
        copy(environment, SOCKET, &mut content.socket)?;
        if content.socket.get().is_empty() {
            return Err(SettingsError::None);
        }
        content.starter = number(STARTER, b"FREEHOLD_STARTER is no number")?;
        content.keep_going = environment.value(KEEP_GOING).is_some();
        content.filters = number(FILTERS, b"FREEHOLD_FILTERS is no number")?;
        content.patience = number(PATIENCE, b"FREEHOLD_PATIENCE is no number")?;
        copy(environment, LOCK, &mut content.lock)?;
        if let Some(text) = environment.value(b"FREEHOLD_TICKET") {
            let nonsense = SettingsError::Nonsense(b"FREEHOLD_TICKET is not 32 hexadecimal digits");
            content.ticket = Some(ticket(text).ok_or(nonsense)?);
        }
        let nonsense = b"FREEHOLD_URGENCY is not a number up to 255";
        let urgency = number(URGENCY, nonsense)?;
        content.urgency = u8::try_from(urgency).map_err(|_| SettingsError::Nonsense(nonsense))?;
        content.unmanaged_sharing = environment.value(SHARING) == Some(b"none");
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

    /// The process of the command that has begun the first program; 0 where the agent was preloaded by hand.
    pub(crate) fn starter(&self) -> u32 {
        self.content().starter
    }

    /// Whether the first program is to go on unmanaged where it cannot be managed.
    pub(crate) fn keeps_going(&self) -> bool {
        self.content().keep_going
    }

    /// How many seconds a program waits to become a client.
    pub(crate) fn patience(&self) -> u64 {
        const AS_COMMANDS: u64 = 20;
        match self.content().patience {
            0 => AS_COMMANDS,
            seconds => u64::from(seconds),
        }
    }

    /// Filters of system calls under which that command itself runs.
    pub(crate) fn filters(&self) -> u32 {
        self.content().filters
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

/// Copies a variable, if there is one.
fn copy(environment: Environment, name: &[u8], text: &mut Text) -> Result<(), SettingsError> {
    let value = environment.value(name).unwrap_or_default();
    let Some(place) = text.bytes.get_mut(..value.len()) else {
        return Err(SettingsError::Nonsense(b"a variable of the environment is too long"));
    };
    for (to, from) in place.iter_mut().zip(value) {
        *to = *from;
    }
    text.length = value.len();
    Ok(())
}

fn decimal(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.parse().ok()
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
