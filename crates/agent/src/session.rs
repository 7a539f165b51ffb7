//! The connection to the server: packets with descriptors, by hand.

use freehold_protocol::message::{Answer, DESCRIPTORS, LIMIT, Request};

use crate::sys::{self, Errno};

/// Why a question has no answer of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// The kernel refused.
    Kernel(Errno),
    /// The server has gone.
    Gone,
    /// The server said something that is no answer to this.
    Nonsense,
    /// The server refused; its text is in the buffer of [`Session::text`].
    Refused,
}

impl From<Errno> for SessionError {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

#[repr(C)]
struct Part {
    base: usize,
    length: usize,
}

#[repr(C)]
struct Header {
    name: usize,
    name_length: u32,
    parts: usize,
    part_count: usize,
    control: usize,
    control_length: usize,
    flags: u32,
}

/// `struct cmsghdr` and the descriptors behind it.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [i32; DESCRIPTORS],
}

const CONTROL_HEADER: usize = 16;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
const TRUNCATED: u32 = 0x20 | 0x8;

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// The socket, in the table of whichever thread uses this.
    pub(crate) socket: i32,
    serial: u32,
    buffer: [u8; LIMIT],
    text_length: usize,
}

/// Descriptors that came with an answer; -1 where none did.
pub(crate) type Descriptors = [i32; DESCRIPTORS];

impl Session {
    /// A connection over a socket that is there.
    pub(crate) const fn over(socket: i32) -> Self {
        Self {
            socket,
            serial: 0,
            buffer: [0; LIMIT],
            text_length: 0,
        }
    }

    /// Connects to whoever listens at `path`.
    pub(crate) fn connect(path: &[u8]) -> Result<Self, Errno> {
        const UNIX: usize = 1;
        const SEQPACKET_CLOEXEC: usize = 5 | 0o2_000_000;
        let mut address = Address {
            family: 1,
            path: [0; 108],
        };
        // One byte stays zero.
        if path.len() >= address.path.len() {
            return Err(Errno::INVAL);
        }
        for (to, from) in address.path.iter_mut().zip(path) {
            *to = *from;
        }
        // SAFETY: touches no memory.
        let socket = sys::descriptor(unsafe { sys::call5(sys::SOCKET, UNIX, SEQPACKET_CLOEXEC, 0, 0, 0) }?);
        let place = core::ptr::from_ref(&address) as usize;
        // SAFETY: reads the structure.
        match unsafe { sys::call5(sys::CONNECT, sys::arg(socket), place, size_of::<Address>(), 0, 0) } {
            Ok(_) => Ok(Self::over(socket)),
            Err(errno) => {
                sys::close(socket);
                Err(errno)
            }
        }
    }

    /// Asks, without waiting; answers come in the order of the questions. At most [`DESCRIPTORS`] descriptors go along.
    pub(crate) fn send(&mut self, request: &Request<'_>, descriptors: &[i32]) -> Result<(), SessionError> {
        let mut bytes = [0_u8; LIMIT];
        self.serial = self.serial.wrapping_add(1);
        let length = request
            .encode(self.serial, &mut bytes)
            .map_err(|_| SessionError::Nonsense)?;
        let mut control = Control {
            length: CONTROL_HEADER + 4 * descriptors.len().min(DESCRIPTORS),
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
            descriptors: [-1; DESCRIPTORS],
        };
        for (to, from) in control.descriptors.iter_mut().zip(descriptors) {
            *to = *from;
        }
        let part = Part {
            base: bytes.as_ptr() as usize,
            length,
        };
        let none = descriptors.is_empty();
        let header = Header {
            name: 0,
            name_length: 0,
            parts: core::ptr::from_ref(&part) as usize,
            part_count: 1,
            control: if none {
                0
            } else {
                core::ptr::from_ref(&control) as usize
            },
            control_length: if none { 0 } else { control.length.next_multiple_of(8) },
            flags: 0,
        };
        let place = core::ptr::from_ref(&header) as usize;
        loop {
            // SAFETY: the kernel reads the structures above, which live until it has answered.
            match unsafe { sys::call5(sys::SENDMSG, sys::arg(self.socket), place, MSG_NOSIGNAL, 0, 0) } {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(SessionError::Gone),
            }
        }
    }

    /// The next answer, and what came with it. A refusal is an error, its text kept.
    pub(crate) fn receive(&mut self) -> Result<(Answer<'_>, Descriptors), SessionError> {
        self.text_length = 0;
        let (length, descriptors) = self.receive_packet()?;
        let refused = match Answer::decode(self.buffer.get(..length).unwrap_or_default()) {
            Ok((_, Answer::Refused { text, .. })) => Some(text.len()),
            _ => None,
        };
        if let Some(text) = refused {
            // The text is the last field of the message.
            self.text_length = text;
            self.buffer.copy_within(length.saturating_sub(text)..length, 0);
            close_all(&descriptors);
            return Err(SessionError::Refused);
        }
        match Answer::decode(self.buffer.get(..length).unwrap_or_default()) {
            Ok((_, answer)) => Ok((answer, descriptors)),
            Err(_) => {
                close_all(&descriptors);
                Err(SessionError::Nonsense)
            }
        }
    }

    /// Asks for something that has only `Done` for an answer, which may take long to come: `meanwhile` is called until
    /// then, again and again.
    pub(crate) fn order(&mut self, request: &Request<'_>, meanwhile: &mut dyn FnMut()) -> Result<(), SessionError> {
        const READABLE: u64 = 1 << 32;
        const MILLISECONDS: usize = 1;
        self.send(request, &[])?;
        loop {
            // `struct pollfd`: the descriptor, and what it is asked for.
            let mut wanted = u64::from(self.socket.cast_unsigned()) | READABLE;
            let place = core::ptr::from_mut(&mut wanted) as usize;
            // SAFETY: the one structure of this call.
            match unsafe { sys::call5(sys::POLL, place, 1, MILLISECONDS, 0, 0) } {
                Ok(0) | Err(Errno::INTR) => meanwhile(),
                _ => break,
            }
        }
        match self.receive()? {
            (Answer::Done {}, _) => Ok(()),
            _ => Err(SessionError::Nonsense),
        }
    }

    /// The next answer, to a request for something that is made.
    pub(crate) fn made(&mut self) -> Result<u32, SessionError> {
        match self.receive()? {
            (Answer::Made { handle }, _) => Ok(handle),
            _ => Err(SessionError::Nonsense),
        }
    }

    /// What the server said to the last refusal.
    pub(crate) fn text(&self) -> &[u8] {
        self.buffer.get(..self.text_length).unwrap_or_default()
    }

    /// The same, or in words why there is no answer.
    pub(crate) fn reason(&self, error: SessionError) -> &[u8] {
        match error {
            SessionError::Refused if self.text_length > 0 => self.text(),
            SessionError::Refused => b"the server refuses and gives no reason",
            SessionError::Kernel(_) => b"the kernel refuses",
            SessionError::Gone => b"the server has closed the connection",
            SessionError::Nonsense => b"the server's answer is none to what was asked",
        }
    }

    fn receive_packet(&mut self) -> Result<(usize, Descriptors), SessionError> {
        let mut control = Control {
            length: 0,
            level: 0,
            kind: 0,
            descriptors: [-1; DESCRIPTORS],
        };
        let part = Part {
            base: self.buffer.as_mut_ptr() as usize,
            length: self.buffer.len(),
        };
        let mut header = Header {
            name: 0,
            name_length: 0,
            parts: core::ptr::from_ref(&part) as usize,
            part_count: 1,
            control: core::ptr::from_mut(&mut control) as usize,
            control_length: size_of::<Control>(),
            flags: 0,
        };
        let place = core::ptr::from_mut(&mut header) as usize;
        let length = loop {
            // SAFETY: the kernel writes inside the structures and the buffer they name, no more than their lengths.
            match unsafe { sys::call5(sys::RECVMSG, sys::arg(self.socket), place, MSG_CMSG_CLOEXEC, 0, 0) } {
                Ok(0) => return Err(SessionError::Gone),
                Ok(length) => break length,
                Err(Errno::INTR) => {}
                Err(_) => return Err(SessionError::Gone),
            }
        };
        let count = if header.control_length >= CONTROL_HEADER && control.kind == SCM_RIGHTS {
            control.length.saturating_sub(CONTROL_HEADER) / 4
        } else {
            0
        };
        let mut descriptors = [-1; DESCRIPTORS];
        for (to, from) in descriptors.iter_mut().zip(control.descriptors).take(count) {
            *to = from;
        }
        if header.flags & TRUNCATED != 0 {
            close_all(&descriptors);
            return Err(SessionError::Nonsense);
        }
        Ok((length, descriptors))
    }
}

/// Closes what came with an answer that is of no use.
pub(crate) fn close_all(descriptors: &Descriptors) {
    for fd in descriptors {
        sys::close(*fd);
    }
}
