//! The connection to the server: packets with descriptors, by hand.

use core::ops::Range;

use freehold_protocol::message::{Answer, DESCRIPTORS, LIMIT, Request};
use freehold_protocol::packet;

use crate::client::silence::{self, Patience};
use crate::sys::{self, Errno};

/// Why a question has no answer of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionError {
    /// The kernel refused.
    Kernel(Errno),
    /// The server has gone.
    Gone,
    /// The server has not answered for as long as a program waits to become a client.
    Silent,
    /// The limit of open files leaves no room for a descriptor that the server sent.
    NoDescriptors,
    /// The server said something that is no answer to this.
    Nonsense,
    /// The server refused; its text is in the buffer of [`Connection::text`].
    Refused,
}

impl From<Errno> for ConnectionError {
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
const TRUNCATED: u32 = 0x20;

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The socket, in the table of whichever thread uses this.
    pub(crate) socket: i32,
    serial: u32,
    /// The packet that came last.
    buffer: [u8; LIMIT],
    patience: Patience,
    /// Its messages that have not been read, and the descriptors that came with it and are nobody's yet.
    unread: Range<usize>,
    descriptors: Descriptors,
    /// The text of the refusal that was read last.
    text: Range<usize>,
}

/// Questions that go together. Only those that may ([`Request::in_company`]) are gathered.
pub(crate) struct Outgoing {
    bytes: [u8; LIMIT],
    length: usize,
    control: Control,
    count: usize,
}

impl Outgoing {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; LIMIT],
            length: 0,
            control: Control {
                length: 0,
                level: SOL_SOCKET,
                kind: SCM_RIGHTS,
                descriptors: NONE,
            },
            count: 0,
        }
    }
}

/// Descriptors that came with an answer; -1 where none did.
pub(crate) type Descriptors = [i32; DESCRIPTORS];
const NONE: Descriptors = [-1; DESCRIPTORS];

impl Connection {
    /// A connection over a socket that is there.
    pub(crate) const fn over(socket: i32) -> Self {
        Self {
            socket,
            serial: 0,
            buffer: [0; LIMIT],
            patience: Patience::Endless(0),
            unread: 0..0,
            descriptors: NONE,
            text: 0..0,
        }
    }

    /// Waits for answers for so long from now on.
    pub(crate) fn wait_with(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Connects to whoever listens at `path`; `bounded`, no longer than a program waits to become a client.
    pub(crate) fn connect(path: &[u8], bounded: bool) -> Result<Self, ConnectionError> {
        const UNIX: usize = 1;
        const SEQPACKET_CLOEXEC: usize = 5 | 0o2_000_000;
        let mut address = Address {
            family: 1,
            path: [0; 108],
        };
        // One byte stays zero.
        if path.len() >= address.path.len() {
            return Err(Errno::INVAL.into());
        }
        for (to, from) in address.path.iter_mut().zip(path) {
            *to = *from;
        }
        // SAFETY: touches no memory.
        let socket = sys::descriptor(unsafe { sys::call5(sys::SOCKET, UNIX, SEQPACKET_CLOEXEC, 0, 0, 0) }?);
        let place = core::ptr::from_ref(&address) as usize;
        silence::bound_sending(socket, bounded);
        // A process that is stopped meanwhile and goes on hears of it where the wait is bounded (signal(7)).
        let connected = loop {
            // SAFETY: reads the structure.
            match unsafe { sys::call5(sys::CONNECT, sys::arg(socket), place, size_of::<Address>(), 0, 0) } {
                Err(Errno::INTR) => {}
                connected => break connected,
            }
        };
        silence::bound_sending(socket, false);
        match connected {
            Ok(_) => {
                silence::tick(socket);
                Ok(Self::over(socket))
            }
            Err(errno) => {
                sys::close(socket);
                Err(if bounded && errno == Errno::AGAIN {
                    ConnectionError::Silent
                } else {
                    errno.into()
                })
            }
        }
    }

    /// Asks, without waiting; answers come in the order of the questions. At most [`DESCRIPTORS`] descriptors go along.
    pub(crate) fn send(&mut self, request: &Request<'_>, descriptors: &[i32]) -> Result<(), ConnectionError> {
        let mut packet = Outgoing::new();
        self.put(&mut packet, request, descriptors)?;
        self.flush(&mut packet)
    }

    /// Asks with the next packet; if there is no room in this one, it goes first.
    pub(crate) fn gather(
        &mut self,
        packet: &mut Outgoing,
        request: &Request<'_>,
        descriptors: &[i32],
    ) -> Result<(), ConnectionError> {
        if self.put(packet, request, descriptors).is_ok() {
            return Ok(());
        }
        self.flush(packet)?;
        self.put(packet, request, descriptors)
    }

    fn put(
        &mut self,
        packet: &mut Outgoing,
        request: &Request<'_>,
        descriptors: &[i32],
    ) -> Result<(), ConnectionError> {
        let free = packet.bytes.get_mut(packet.length..).unwrap_or_default();
        let places = packet.control.descriptors.get_mut(packet.count..).unwrap_or_default();
        if descriptors.len() > places.len() {
            return Err(ConnectionError::Nonsense);
        }
        let serial = self.serial.wrapping_add(1);
        let length = request.encode(serial, free).map_err(|_| ConnectionError::Nonsense)?;
        self.serial = serial;
        packet.length += length;
        packet.count += descriptors.len();
        for (to, from) in places.iter_mut().zip(descriptors) {
            *to = *from;
        }
        Ok(())
    }

    /// Sends what was gathered.
    pub(crate) fn flush(&self, packet: &mut Outgoing) -> Result<(), ConnectionError> {
        if packet.length == 0 {
            return Ok(());
        }
        packet.control.length = CONTROL_HEADER + 4 * packet.count;
        let part = Part {
            base: packet.bytes.as_ptr() as usize,
            length: packet.length,
        };
        let none = packet.count == 0;
        let header = Header {
            name: 0,
            name_length: 0,
            parts: core::ptr::from_ref(&part) as usize,
            part_count: 1,
            control: if none {
                0
            } else {
                core::ptr::from_ref(&packet.control) as usize
            },
            control_length: if none {
                0
            } else {
                packet.control.length.next_multiple_of(8)
            },
            flags: 0,
        };
        (packet.length, packet.count) = (0, 0);
        let place = core::ptr::from_ref(&header) as usize;
        loop {
            // SAFETY: the kernel reads the structures above, which live until it has answered.
            match unsafe { sys::call5(sys::SENDMSG, sys::arg(self.socket), place, MSG_NOSIGNAL, 0, 0) } {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(ConnectionError::Gone),
            }
        }
    }

    /// The next answer, and what came with it. A refusal is an error, its text kept.
    pub(crate) fn receive(&mut self) -> Result<(Answer<'_>, Descriptors), ConnectionError> {
        self.text = 0..0;
        let alone = self.unread.is_empty();
        if alone {
            close_all(&core::mem::replace(&mut self.descriptors, NONE));
            let length = self.receive_packet()?;
            self.unread = 0..length;
        }
        let (first, others) = packet::split(self.buffer.get(self.unread.clone()).unwrap_or_default());
        let alone = alone && others.is_empty();
        let message = self.unread.start..self.unread.start + first.len();
        self.unread.start = message.end;
        match Answer::decode(self.buffer.get(message.clone()).unwrap_or_default()) {
            Ok((_, Answer::Refused { text, .. })) => {
                // The text is the last field of the message.
                self.text = message.end.saturating_sub(text.len())..message.end;
                Err(ConnectionError::Refused)
            }
            Ok((_, answer)) => {
                let count = if alone { DESCRIPTORS } else { answer.in_company() };
                let descriptors = take(&mut self.descriptors, count);
                Ok((answer, descriptors))
            }
            Err(_) => Err(ConnectionError::Nonsense),
        }
    }

    /// Asks for something that has only `Done` for an answer, which may take long to come: `meanwhile` is called until
    /// then, again and again.
    pub(crate) fn order(&mut self, request: &Request<'_>, meanwhile: &mut dyn FnMut()) -> Result<(), ConnectionError> {
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
            _ => Err(ConnectionError::Nonsense),
        }
    }

    /// Whether the server still has its end of the connection.
    pub(crate) fn is_connected(&self) -> bool {
        // `struct pollfd` that asks for nothing: the end of a connection is told all the same.
        let mut wanted = u64::from(self.socket.cast_unsigned());
        let place = core::ptr::from_mut(&mut wanted) as usize;
        // SAFETY: the one structure of this call.
        let told = unsafe { sys::call5(sys::POLL, place, 1, 0, 0, 0) };
        matches!(told, Ok(0) | Err(Errno::INTR))
    }

    /// The next answer, to a request for something that is made.
    pub(crate) fn made(&mut self) -> Result<u32, ConnectionError> {
        match self.receive()? {
            (Answer::Made { handle }, _) => Ok(handle),
            _ => Err(ConnectionError::Nonsense),
        }
    }

    /// What the server said to the last refusal.
    pub(crate) fn text(&self) -> &[u8] {
        self.buffer.get(self.text.clone()).unwrap_or_default()
    }

    /// The same, or in words why there is no answer.
    pub(crate) fn reason(&self, error: ConnectionError) -> &[u8] {
        match error {
            ConnectionError::Refused if !self.text.is_empty() => self.text(),
            ConnectionError::Refused => b"the server refuses and gives no reason",
            ConnectionError::Kernel(_) => b"the kernel refuses",
            ConnectionError::Silent => b"the server does not answer",
            ConnectionError::Gone => b"the server has closed the connection",
            ConnectionError::NoDescriptors => b"the limit of open files leaves no room",
            ConnectionError::Nonsense => b"the server's answer is none to what was asked",
        }
    }

    /// The next packet: its length.
    fn receive_packet(&mut self) -> Result<usize, ConnectionError> {
        let mut control = Control {
            length: 0,
            level: 0,
            kind: 0,
            descriptors: NONE,
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
                Ok(0) => return Err(ConnectionError::Gone),
                Ok(length) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.patience.goes_on() => {}
                Err(Errno::AGAIN) => return Err(ConnectionError::Silent),
                Err(_) => return Err(ConnectionError::Gone),
            }
        };
        self.patience.is_answered();
        let count = if header.control_length >= CONTROL_HEADER && control.kind == SCM_RIGHTS {
            control.length.saturating_sub(CONTROL_HEADER) / 4
        } else {
            0
        };
        for (to, from) in self.descriptors.iter_mut().zip(control.descriptors).take(count) {
            *to = from;
        }
        // Descriptors that found no room below the limit of open files are missing (MSG_CTRUNC). Other answers of the
        // packet are as they were: who read no further would wait for them again.
        if header.flags & TRUNCATED != 0 {
            return Err(ConnectionError::Nonsense);
        }
        Ok(length)
    }
}

impl Drop for Connection {
    /// The socket is the client's, which may have it in another table by now.
    fn drop(&mut self) {
        close_all(&self.descriptors);
    }
}

/// The first so many of these that are there.
fn take(all: &mut Descriptors, count: usize) -> Descriptors {
    let mut taken = NONE;
    let there = all.iter_mut().filter(|fd| **fd >= 0).take(count);
    for (to, from) in taken.iter_mut().zip(there) {
        *to = core::mem::replace(from, -1);
    }
    taken
}

/// Closes what came with an answer that is of no use.
pub(crate) fn close_all(descriptors: &Descriptors) {
    for fd in descriptors {
        sys::close(*fd);
    }
}
