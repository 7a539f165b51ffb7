//! Unix sockets that keep packets apart (`SOCK_SEQPACKET`), with descriptors passed along, and who is at the other end.
//!
//! Whatever a peer sends is taken with limits: at most [`MOST_DESCRIPTORS`] descriptors, closed on exec from the start,
//! and never more bytes than the caller's buffer has. What exceeds them is cut off by the kernel and said.

use crate::{Errno, sys};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;

/// The most descriptors taken or sent with one packet.
pub const MOST_DESCRIPTORS: usize = 16;
const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS));
const SO_PEERPIDFD: libc::c_int = 77;
const SO_PASSPIDFD: libc::c_int = 76;
const SCM_PIDFD: libc::c_int = 4;

/// A socket that others connect to.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

/// One end of a connection that keeps packets apart. Closed on exec.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// A packet that arrived; its bytes are in the caller's buffer.
#[derive(Debug)]
pub struct Packet {
    /// Bytes written to the buffer.
    pub length: usize,
    /// The descriptors that came along, closed on exec; at most [`MOST_DESCRIPTORS`].
    pub descriptors: Vec<OwnedFd>,
    /// What did not fit: bytes beyond the buffer, or descriptors beyond the limit. Both are lost.
    pub cut_off: bool,
}

/// Who is at the other end, as the kernel noted it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process, in the caller's numbering; 0 where it has none there.
    pub pid: u32,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Listener {
    /// Listens at `path`, which must not exist, with room for `backlog` connections that nobody has accepted yet.
    ///
    /// # Errors
    /// `ADDRINUSE` where something is at `path`; `INVAL` or `NAMETOOLONG` for a path of more than 107 bytes; other
    /// refusals of the kernel.
    pub fn bind(path: &Path, backlog: i32) -> Result<Self, Errno> {
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags(), None)?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&fd, backlog)?;
        Ok(Self { fd })
    }

    /// The next connection, which does not block; `None` where nobody waits.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn accept(&self) -> Result<Option<PacketSocket>, Errno> {
        match rustix::io::retry_on_intr(|| rustix::net::accept_with(&self.fd, flags())) {
            Ok(fd) => Ok(Some(PacketSocket { fd })),
            Err(Errno::AGAIN | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl PacketSocket {
    /// Connects to whoever listens at `path`. Sending and receiving block.
    ///
    /// # Errors
    /// `NOENT` where nothing is there, `CONNREFUSED` where nobody listens, `AGAIN` where the backlog is full, `ACCESS`
    /// without the right to write there; other refusals of the kernel.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let kind = SocketType::SEQPACKET;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd })
    }

    /// Two ends that are connected with each other and block.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn pair() -> Result<(Self, Self), Errno> {
        let kind = SocketType::SEQPACKET;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self { fd: one }, Self { fd: other }))
    }

    /// Takes a descriptor that is such a socket; the caller has seen to that.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The same end once more, on a descriptor of its own, closed on exec.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0).map(|fd| Self { fd })
    }

    /// Makes sending and receiving block, or fail with `AGAIN`.
    ///
    /// # Errors
    /// The kernel's refusal, which nothing is known to cause.
    pub fn set_blocking(&self, blocking: bool) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&self.fd, !blocking)
    }

    /// Sends one packet, whole, with descriptors. A peer that is gone raises no signal.
    ///
    /// # Errors
    /// `INVAL` for an empty packet or too many descriptors; `AGAIN` where the peer does not read and the socket does
    /// not block; `PIPE` or `CONNRESET` where it is gone; other refusals of the kernel.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        if bytes.is_empty() || descriptors.len() > MOST_DESCRIPTORS {
            return Err(Errno::INVAL);
        }
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::INVAL);
        }
        let parts = [IoSlice::new(bytes)];
        let send = || rustix::net::sendmsg(&self.fd, &parts, &mut control, SendFlags::NOSIGNAL);
        rustix::io::retry_on_intr(send).map(|_| ())
    }

    /// Takes the next packet into `buffer`; `None` when the peer will send no more (it closed, or shut down, or sent an
    /// empty packet, which is the same to the kernel).
    ///
    /// # Errors
    /// `AGAIN` where nothing is there and the socket does not block; `CONNRESET` where the peer went with packets
    /// unread; other refusals of the kernel.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Packet>, Errno> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = rustix::io::retry_on_intr(|| rustix::net::recvmsg(&self.fd, &mut parts, &mut control, flags))?;
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = part {
                descriptors.extend(passed);
            }
        }
        let mut cut_off = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        if descriptors.len() > MOST_DESCRIPTORS {
            descriptors.truncate(MOST_DESCRIPTORS);
            cut_off = true;
        }
        if message.bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Packet {
            length: message.bytes,
            descriptors,
            cut_off,
        }))
    }

    /// Who connected, or who listens, at the other end.
    ///
    /// # Errors
    /// The kernel's refusal, which nothing is known to cause.
    pub fn peer(&self) -> Result<Peer, Errno> {
        // Read by hand: a process without a number here (another namespace) has pid 0, which rustix's type excludes.
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        self.option(libc::SO_PEERCRED, &mut peer)?;
        Ok(Peer {
            pid: u32::try_from(peer.pid).unwrap_or(0),
            uid: peer.uid,
            gid: peer.gid,
        })
    }

    /// A descriptor of the peer's process, closed on exec: readable when it has ended, and never another process's.
    ///
    /// From 6.5 on the kernel gives the very process. Before, the process is looked up by its number, and is the peer
    /// as long as the connection has not been closed meanwhile: check that before it is relied upon.
    ///
    /// # Errors
    /// `SRCH` where the process has ended or has no number here; other refusals of the kernel.
    pub fn peer_pidfd(&self) -> Result<OwnedFd, Errno> {
        let mut raw: libc::c_int = -1;
        match self.option(SO_PEERPIDFD, &mut raw) {
            // SAFETY: the kernel has just made this descriptor for the caller, and nothing else knows of it.
            Ok(()) => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
            Err(Errno::NOPROTOOPT) => {
                let pid = i32::try_from(self.peer()?.pid).map_err(|_| Errno::SRCH)?;
                let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::SRCH)?;
                // The kernel sets close-on-exec itself.
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            }
            Err(Errno::INVAL | Errno::SRCH) => Err(Errno::SRCH),
            Err(errno) => Err(errno),
        }
    }

    /// Has the kernel say who sent a packet, or no longer, for [`sender`](Self::sender). Meanwhile packets are not to
    /// be received.
    ///
    /// # Errors
    /// `NOPROTOOPT` before Linux 6.5.
    pub fn set_names_sender(&self, names: bool) -> Result<(), Errno> {
        self.set_option(libc::SO_PASSCRED, libc::c_int::from(names))?;
        self.set_option(SO_PASSPIDFD, libc::c_int::from(names))
    }

    /// Who sent the next packet, which stays, and a descriptor of that process, closed on exec; `None` where there is
    /// none yet, or it cannot be known.
    ///
    /// # Errors
    /// `CONNRESET` where the peer is gone; other refusals of the kernel.
    pub fn sender(&self) -> Result<Option<(Peer, OwnedFd)>, Errno> {
        const CONTROL: usize = 256;
        #[repr(align(8))]
        struct Room([u8; CONTROL]);
        let (mut byte, mut room) = ([0_u8; 1], Room([0; CONTROL]));
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: byte.len(),
        };
        // SAFETY: all zeros is a header without any part.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = room.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the kernel writes inside the byte and the room, no more than their lengths.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags) };
        if length < 0 {
            return match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                code => Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO))),
            };
        }
        if length == 0 {
            return Err(Errno::CONNRESET);
        }
        let (mut peer, mut process) = (None, None);
        // SAFETY: the kernel has just written the header and the messages that it names.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        // SAFETY: a message inside the room, or none.
        while let Some(head) = unsafe { message.as_ref() } {
            // SAFETY: behind its head.
            let data = unsafe { libc::CMSG_DATA(message) };
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    // SAFETY: such a message holds this structure, which any bytes are valid for.
                    let found = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                    peer = Some(Peer {
                        pid: u32::try_from(found.pid).unwrap_or(0),
                        uid: found.uid,
                        gid: found.gid,
                    });
                }
                (libc::SOL_SOCKET, SCM_PIDFD) => {
                    // SAFETY: such a message holds a number.
                    let raw = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                    // SAFETY: the kernel has just made this descriptor for the caller, and nothing else knows of it.
                    process = (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) });
                }
                _ => {}
            }
            // SAFETY: as above.
            message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
        }
        Ok(peer.zip(process))
    }

    fn set_option(&self, name: libc::c_int, value: libc::c_int) -> Result<(), Errno> {
        let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(|_| Errno::INVAL)?;
        let place = (&raw const value).cast();
        // SAFETY: the kernel reads the one number.
        let result = unsafe { libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, name, place, length) };
        sys::check_int(result).map(|_| ())
    }

    /// Reads an option of the socket that is a plain structure of integers.
    fn option<T: Copy>(&self, name: libc::c_int, value: &mut T) -> Result<(), Errno> {
        let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)?;
        // SAFETY: `value` is valid for `length` bytes, of which the kernel writes at most that many; both types used
        // (`ucred`, `int`) are valid for any bytes.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                std::ptr::from_mut(value).cast(),
                &raw mut length,
            )
        };
        sys::check_int(result).map(|_| ())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<PacketSocket> for OwnedFd {
    fn from(socket: PacketSocket) -> Self {
        socket.fd
    }
}

const fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::FdFlags;

    fn socket_path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("freehold-socket-test-{}-{name}", std::process::id()))
    }

    #[test]
    fn packets_stay_apart_and_descriptors_come_along() {
        let (one, other) = PacketSocket::pair().unwrap();
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        one.send(b"first", &[]).unwrap();
        one.send(b"second", &[writing.as_fd(), one.as_fd()]).unwrap();
        let mut buffer = [0; 16];
        let packet = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..packet.length], packet.descriptors.len()), (&b"first"[..], 0));
        let packet = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..packet.length], packet.cut_off), (&b"second"[..], false));
        assert_eq!(packet.descriptors.len(), 2);
        for descriptor in &packet.descriptors {
            let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
        rustix::io::write(&packet.descriptors[0], b"x").unwrap();
        assert_eq!(rustix::io::read(&reading, &mut buffer).unwrap(), 1);
    }

    #[test]
    fn what_exceeds_the_limits_is_cut_off_and_said() {
        let (one, other) = PacketSocket::pair().unwrap();
        one.send(&[7; 100], &[]).unwrap();
        let mut buffer = [0; 16];
        let packet = other.receive(&mut buffer).unwrap().unwrap();
        assert!(packet.cut_off && packet.length <= buffer.len());
        let five = [one.as_fd(); MOST_DESCRIPTORS + 1];
        assert_eq!(one.send(b"x", &five), Err(Errno::INVAL));
        assert_eq!(one.send(b"", &[]), Err(Errno::INVAL));
        // Past this module's own limit, as a hostile peer would.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let many = [one.as_fd(); 200];
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        rustix::net::sendmsg(&one, &[IoSlice::new(b"many")], &mut control, SendFlags::empty()).unwrap();
        let packet = other.receive(&mut buffer).unwrap().unwrap();
        assert!(packet.cut_off);
        assert!(packet.descriptors.len() <= MOST_DESCRIPTORS);
    }

    #[test]
    fn the_end_is_no_packet_and_a_reader_that_is_gone_raises_no_signal() {
        let (one, other) = PacketSocket::pair().unwrap();
        other.set_blocking(false).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(other.receive(&mut buffer).err(), Some(Errno::AGAIN));
        one.send(b"last", &[]).unwrap();
        drop(one);
        assert!(other.receive(&mut buffer).unwrap().is_some());
        assert!(other.receive(&mut buffer).unwrap().is_none());
        assert_eq!(other.send(b"x", &[]), Err(Errno::PIPE));
    }

    #[test]
    fn a_packet_names_its_sender_and_stays() {
        let (one, other) = PacketSocket::pair().unwrap();
        other.set_names_sender(true).unwrap();
        assert!(other.sender().unwrap().is_none());
        one.send(b"hello", &[]).unwrap();
        for _ in 0..2 {
            let (peer, process) = other.sender().unwrap().unwrap();
            assert_eq!(
                (peer.pid, peer.uid),
                (std::process::id(), rustix::process::getuid().as_raw())
            );
            assert!(rustix::io::fcntl_getfd(&process).unwrap().contains(FdFlags::CLOEXEC));
        }
        other.set_names_sender(false).unwrap();
        let mut buffer = [0; 16];
        let packet = other.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((packet.length, packet.descriptors.len(), packet.cut_off), (5, 0, false));
        drop(one);
        assert_eq!(other.sender().err(), Some(Errno::CONNRESET));
    }

    #[test]
    fn a_connection_knows_its_peer() {
        let path = socket_path("peer");
        assert_eq!(PacketSocket::connect(&path).err(), Some(Errno::NOENT));
        let listener = Listener::bind(&path, 4).unwrap();
        assert_eq!(Listener::bind(&path, 4).err(), Some(Errno::ADDRINUSE));
        assert!(listener.accept().unwrap().is_none());
        let client = PacketSocket::connect(&path).unwrap();
        let served = listener.accept().unwrap().unwrap();
        for end in [&client, &served] {
            let peer = end.peer().unwrap();
            assert_eq!(peer.pid, std::process::id());
            assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
            end.peer_pidfd().unwrap();
        }
        drop(listener);
        assert_eq!(PacketSocket::connect(&path).err(), Some(Errno::CONNREFUSED));
        std::fs::remove_file(&path).unwrap();
    }
}
