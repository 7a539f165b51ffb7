//! Devices: memory that a program gets whole and at once, and that caches file pages while nobody has it. Served by
//! `freehold mount` and `freehold serve --devices`.
//!
//! ```no_run
//! use freehold_client::device::Device;
//!
//! let mut camera = Device::open(&freehold_client::default_socket(), "camera", 0)?;
//! println!("{} bytes at {:#x}", camera.length(), camera.address());
//! camera.grow(0)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use freehold_linux::memory::{Chunk, MemfdError, Window, read_document};
use freehold_linux::socket::{Packet, PacketSocket};
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use freehold_protocol::device::{DeviceAnswer, DeviceRequest};
use freehold_protocol::field::Malformed;
use freehold_protocol::message::LIMIT;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use freehold_protocol::device::{DeviceRefusal, Grant, Lies, Opening};

/// The longest status document that is read.
const LONGEST: usize = 1 << 24;

/// A device could not be opened, or not be given more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Nobody listens there, or it may not be used.
    #[error("no server of devices answers at {}: {errno}", path.display())]
    NoServer {
        /// The socket tried.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// The server refused; its text says why.
    #[error("{text}")]
    Refused {
        /// Why.
        reason: DeviceRefusal,
        /// In words.
        text: String,
    },
    /// The server is gone, or ends.
    #[error("the server of devices is gone")]
    Gone,
    /// The device was opened by the process that this one was forked from.
    #[error("the device belongs to the parent of a fork: open it anew")]
    Forked,
    /// What answers says something else than was asked: it serves no devices.
    #[error("the server at the socket does not serve devices: start it with `--devices FILE`")]
    Protocol,
    /// The kernel's refusal.
    #[error("the connection to the server of devices: {0}")]
    System(#[from] Errno),
    /// What came is no memory of a device, or cannot be mapped.
    #[error("the device's memory: {0}")]
    Memory(#[from] MemfdError),
}

impl From<Malformed> for DeviceError {
    fn from(_: Malformed) -> Self {
        Self::Protocol
    }
}

/// An open device, its memory mapped in one piece of addresses. Dropped, it is closed.
#[derive(Debug)]
pub struct Device {
    socket: PacketSocket,
    /// Room for all of it on either side of what came first.
    window: Window,
    /// Memory objects in order of address.
    chunks: Vec<Chunk>,
    /// The page of the window where it begins.
    begin: usize,
    /// All of it.
    grant: Grant,
    opening: Opening,
    /// Who opened it: a child of a fork has none of its memory.
    owner: u32,
}

impl Device {
    /// Opens a device with `used` pages of its memory, all where that is zero, and maps it.
    ///
    /// # Errors
    /// See [`DeviceError`]; nothing is open then.
    pub fn open(socket: &Path, name: &str, used: u32) -> Result<Self, DeviceError> {
        let connection = connect(socket)?;
        let asked = ask(&connection, &DeviceRequest::Open { name, used });
        let (grant, opening, fds) = asked.map_err(without_devices)?;
        let pages = usize::try_from(opening.most).unwrap_or(usize::MAX);
        let window = Window::reserve(pages.saturating_mul(2))?;
        let mut device = Self {
            socket: connection,
            window,
            chunks: Vec::new(),
            begin: pages,
            grant,
            opening,
            owner: std::process::id(),
        };
        device.place(pages, fds)?;
        Ok(device)
    }

    /// Gives it more, up to its size: it uses `used` pages then, all where that is zero. What is new can lie before
    /// what there was: [`address`](Self::address) changes then, and what was mapped stays where it is.
    ///
    /// # Errors
    /// See [`DeviceError`]; the device has what it had.
    pub fn grow(&mut self, used: u32) -> Result<Opening, DeviceError> {
        if !self.is_own() {
            return Err(DeviceError::Forked);
        }
        let (grant, opening, fds) = ask(&self.socket, &DeviceRequest::Grow { used })?;
        let before = self.pages();
        let chunks: Result<Vec<Chunk>, MemfdError> = fds.into_iter().map(Chunk::adopt).collect();
        let chunks = chunks?;
        let more: usize = chunks.iter().map(Chunk::pages).sum();
        if more > 0 && grant.first < self.grant.first {
            let begin = self.begin.checked_sub(more).ok_or(DeviceError::Protocol)?;
            self.map(begin, &chunks)?;
            (self.begin, self.grant.first) = (begin, grant.first);
            self.chunks.splice(..0, chunks);
        } else {
            self.map(self.begin + before, &chunks)?;
            self.chunks.extend(chunks);
        }
        self.grant.pages = self.grant.pages.saturating_add(grant.pages);
        self.grant.descriptors = self.grant.descriptors.saturating_add(grant.descriptors);
        self.opening.used = opening.used;
        Ok(opening)
    }

    /// Closes it, and waits until the server knows: the server takes the memory back as soon as nobody else has it. In
    /// a child of a fork only the child's descriptors are closed.
    ///
    /// # Errors
    /// [`DeviceError::Gone`], [`DeviceError::System`]: the device is closed all the same, as its connection ends.
    pub fn close(self) -> Result<(), DeviceError> {
        let own = self.is_own();
        let Self {
            socket, window, chunks, ..
        } = self;
        drop(window);
        drop(chunks);
        if !own {
            return Ok(());
        }
        send(&socket, &DeviceRequest::Close {})?;
        let mut buffer = [0; LIMIT];
        let packet = receive(&socket, &mut buffer)?;
        match answer(&buffer, &packet)? {
            DeviceAnswer::Closed {} => Ok(()),
            _ => Err(DeviceError::Protocol),
        }
    }

    fn is_own(&self) -> bool {
        std::process::id() == self.owner
    }

    /// The memory that it has, in the region of all devices.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// What the server said when it was opened; `used` is as it is now.
    #[must_use]
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// Where its memory begins in this process: as good as mapped memory is, while the device is open.
    #[must_use]
    pub fn address(&self) -> usize {
        let range = PageRange::new(self.begin, self.pages());
        self.window.addresses(range).map_or(0, |range| range.start())
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pages() * PAGE_SIZE
    }

    /// Its memory objects in order of address, each with its length in bytes: to be passed to a driver, or to another
    /// process.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, usize)> {
        self.chunks
            .iter()
            .map(|chunk| (chunk.as_fd(), chunk.pages() * PAGE_SIZE))
    }

    fn pages(&self) -> usize {
        self.chunks.iter().map(Chunk::pages).sum()
    }

    fn place(&mut self, begin: usize, fds: Vec<OwnedFd>) -> Result<(), DeviceError> {
        let chunks: Result<Vec<Chunk>, MemfdError> = fds.into_iter().map(Chunk::adopt).collect();
        let chunks = chunks?;
        self.map(begin, &chunks)?;
        self.chunks = chunks;
        Ok(())
    }

    fn map(&self, mut page: usize, chunks: &[Chunk]) -> Result<(), DeviceError> {
        for chunk in chunks {
            self.window.place(page, chunk)?;
            page += chunk.pages();
        }
        Ok(())
    }
}

/// The status document of whoever serves devices at `socket`, as JSON: of what this user may know.
///
/// # Errors
/// See [`DeviceError`].
pub fn status(socket: &Path) -> Result<String, DeviceError> {
    let connection = connect(socket)?;
    send(&connection, &DeviceRequest::Status {})?;
    let mut buffer = [0; LIMIT];
    let packet = receive(&connection, &mut buffer).map_err(without_devices)?;
    match answer(&buffer, &packet)? {
        DeviceAnswer::Document { length } => {
            let fd = packet.descriptors.first().ok_or(DeviceError::Protocol)?;
            let bytes = read_document(fd, length, LONGEST).map_err(|_| DeviceError::Protocol)?;
            String::from_utf8(bytes).map_err(|_| DeviceError::Protocol)
        }
        _ => Err(DeviceError::Protocol),
    }
}

fn connect(path: &Path) -> Result<PacketSocket, DeviceError> {
    PacketSocket::connect(path).map_err(|errno| DeviceError::NoServer {
        path: path.to_owned(),
        errno,
    })
}

/// Asks for memory, and takes all of its descriptors.
fn ask(connection: &PacketSocket, request: &DeviceRequest<'_>) -> Result<(Grant, Opening, Vec<OwnedFd>), DeviceError> {
    send(connection, request)?;
    let mut buffer = [0; LIMIT];
    let mut packet = receive(connection, &mut buffer)?;
    let (grant, opening) = granted(answer(&buffer, &packet)?)?;
    let wanted = usize::try_from(grant.descriptors).unwrap_or(usize::MAX);
    let mut fds = std::mem::take(&mut packet.descriptors);
    while fds.len() < wanted {
        let mut packet = receive(connection, &mut buffer)?;
        if answer(&buffer, &packet)? != (DeviceAnswer::More {}) || packet.descriptors.is_empty() {
            return Err(DeviceError::Protocol);
        }
        fds.append(&mut packet.descriptors);
    }
    Ok((grant, opening, fds))
}

fn granted(answer: DeviceAnswer<'_>) -> Result<(Grant, Opening), DeviceError> {
    match answer {
        DeviceAnswer::Granted { grant, opening } => Ok((grant, opening)),
        _ => Err(DeviceError::Protocol),
    }
}

fn send(connection: &PacketSocket, request: &DeviceRequest<'_>) -> Result<(), DeviceError> {
    let mut buffer = [0; LIMIT];
    let length = request.encode(1, &mut buffer)?;
    connection
        .send(buffer.get(..length).unwrap_or_default(), &[])
        .map_err(ended)
}

fn receive(connection: &PacketSocket, buffer: &mut [u8]) -> Result<Packet, DeviceError> {
    match connection.receive(buffer).map_err(ended)? {
        Some(packet) if packet.cut_off => Err(DeviceError::Protocol),
        Some(packet) => Ok(packet),
        None => Err(DeviceError::Gone),
    }
}

/// What the kernel says of a connection whose other side has ended.
fn ended(errno: Errno) -> DeviceError {
    match errno {
        Errno::PIPE | Errno::CONNRESET => DeviceError::Gone,
        errno => DeviceError::System(errno),
    }
}

/// A server without devices ends the connection when it is first asked.
fn without_devices(error: DeviceError) -> DeviceError {
    match error {
        DeviceError::Gone => DeviceError::Protocol,
        error => error,
    }
}

/// Reads an answer; a refusal is an error.
fn answer<'a>(buffer: &'a [u8], packet: &Packet) -> Result<DeviceAnswer<'a>, DeviceError> {
    let (_, answer) = DeviceAnswer::decode(buffer.get(..packet.length).unwrap_or_default())?;
    match answer {
        DeviceAnswer::Refused { reason, text } => Err(DeviceError::Refused {
            reason,
            text: text.to_owned(),
        }),
        answer => Ok(answer),
    }
}
