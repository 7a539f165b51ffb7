//! Serving another process's faults: its userfaultfd, taken over, and the messages read from it.

use super::operations::ATTEMPTS_SERVED;
use super::{Calls, Features, Scope, Stopped, Userfault, abi};
use crate::memory::{SharedMapping, Zeros};
use crate::{AddressRange, Errno, PageRange};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;

/// Nothing is done, because there is no such range.
const REFUSED: Stopped = Stopped {
    done: 0,
    errno: Errno::INVAL,
};
/// Bytes of `struct uffd_msg`.
const MESSAGE: usize = 32;
/// Messages read with one system call, at most.
const BATCH: usize = 16;
const LINK: &[u8] = b"anon_inode:[userfaultfd]";

const EVENT_FAULT: u8 = 0x12;
const EVENT_FORK: u8 = 0x13;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
const FLAG_WRITE: u64 = 1;
const FLAG_WRITE_PROTECT: u64 = 2;

/// A descriptor that was sent is no userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The sender's mistake.
    #[error("the descriptor is not a userfaultfd")]
    NotUserfault,
    /// The kernel's refusal.
    #[error("the userfaultfd could not be taken over: {0}")]
    System(Errno),
}

/// What a userfaultfd tells. Addresses are those of the process it belongs to.
#[derive(Debug)]
pub enum Message {
    /// A thread waits for a page.
    Fault {
        /// The page's first address.
        address: u64,
        /// It writes.
        write: bool,
        /// The page is there, write-protected.
        write_protected: bool,
        /// The thread, in its own numbering; 0 without [`Features::THREAD_ID`].
        thread: u32,
    },
    /// The process forks: the userfaultfd of the child.
    Fork(OwnedFd),
    /// A range has moved.
    Remap {
        /// Where it was.
        from: u64,
        /// Where it is.
        to: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Pages are being dropped.
    Remove {
        /// The first address.
        start: u64,
        /// The first address past the end.
        end: u64,
    },
    /// A range has been unmapped.
    Unmap {
        /// The first address.
        start: u64,
        /// The first address past the end.
        end: u64,
    },
    /// Something that this crate does not know.
    Unknown(u8),
}

impl Userfault {
    /// Takes over a userfaultfd that another process has opened and shaken hands on; its reads do not block from now
    /// on. What features it has cannot be asked: they are the sender's claim.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub fn adopt(fd: OwnedFd, claimed: Features) -> Result<Self, AdoptError> {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let target = rustix::fs::readlink(link, Vec::new()).map_err(AdoptError::System)?;
        if target.as_bytes() != LINK {
            return Err(AdoptError::NotUserfault);
        }
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(AdoptError::System)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(AdoptError::System)?;
        Ok(Self {
            fd,
            features: claimed,
            scope: Scope::Full,
            lets_sleep: false,
            attempts: ATTEMPTS_SERVED,
            calls: Some(Calls::default()),
        })
    }

    /// Reads what there is, at most `most` messages (and 16), in the kernel's order: faults first. Zero where there is
    /// none: never waits, though the sender shares the descriptor and may have changed its flags. Before Linux 6.10 it
    /// cannot be kept from making this wait.
    ///
    /// # Errors
    /// The kernel's refusal; `INVAL` before the handshake.
    pub fn read_messages(&self, most: usize, each: impl FnMut(Message)) -> Result<usize, Errno> {
        let read = |wanted: &mut [u8]| {
            let nowhere = u64::MAX;
            let mut parts = [IoSliceMut::new(wanted)];
            match rustix::io::preadv2(&self.fd, &mut parts, nowhere, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => rustix::io::read(&self.fd, wanted),
                read => read,
            }
        };
        Self::messages(most, read, each)
    }

    /// As [`read_messages`](Self::read_messages), and where there is none waits for one, if the descriptor's flags say
    /// so: for descriptors that nobody shares.
    ///
    /// # Errors
    /// As [`read_messages`](Self::read_messages).
    pub fn await_messages(&self, most: usize, each: impl FnMut(Message)) -> Result<usize, Errno> {
        Self::messages(most, |wanted| rustix::io::read(&self.fd, wanted), each)
    }

    fn messages(
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
        mut each: impl FnMut(Message),
    ) -> Result<usize, Errno> {
        let mut buffer = [0; MESSAGE * BATCH];
        let wanted = buffer.get_mut(..most.clamp(1, BATCH) * MESSAGE).unwrap_or_default();
        let read = match read(wanted) {
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(errno),
        };
        for message in buffer.chunks_exact(MESSAGE).take(read / MESSAGE) {
            each(decode(message));
        }
        Ok(read / MESSAGE)
    }

    /// Whether the sender has changed the descriptor's flags so that reads of it wait: what is waited for is then
    /// always ready.
    #[must_use]
    pub fn waits(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.fd).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
    }

    /// Fills the missing pages from `start` on, of the process it belongs to, with pages of a mapping of this one.
    ///
    /// # Errors
    /// See [`Stopped`]; `INVAL` where the range leaves the mapping.
    pub fn copy_pages(
        &self,
        start: usize,
        source: &SharedMapping,
        pages: PageRange,
        write_protect: bool,
    ) -> Result<(), Stopped> {
        let from = source.addresses(pages).ok_or(REFUSED)?;
        self.copy_from(start, from, write_protect)
    }

    /// Fills so many missing pages from `start` on, of the process it belongs to, with frames of zeros of their own.
    ///
    /// # Errors
    /// See [`Stopped`]; `INVAL` for no pages, and for more than there are `zeros`.
    pub fn copy_zeros(&self, start: usize, zeros: &Zeros, pages: usize, write_protect: bool) -> Result<(), Stopped> {
        let from = zeros.addresses(pages).ok_or(REFUSED)?;
        self.copy_from(start, from, write_protect)
    }

    fn copy_from(&self, start: usize, from: AddressRange, write_protect: bool) -> Result<(), Stopped> {
        let to = AddressRange::new(start, from.length()).ok_or(REFUSED)?;
        let mode = if write_protect { abi::COPY_MODE_WP } else { 0 };
        self.transfer(to, from.start(), abi::COPY, mode)
    }
}

fn decode(message: &[u8]) -> Message {
    let (words, _) = message.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word));
    let [first, one, two, three] = [0, 1, 2, 3].map(word);
    match first.to_le_bytes()[0] {
        EVENT_FAULT => Message::Fault {
            address: two,
            write: one & FLAG_WRITE != 0,
            write_protected: one & FLAG_WRITE_PROTECT != 0,
            thread: low(three),
        },
        EVENT_FORK => match i32::try_from(low(one)) {
            // SAFETY: the kernel has just put this descriptor into our table, for whoever read the message.
            Ok(raw) => Message::Fork(unsafe { OwnedFd::from_raw_fd(raw) }),
            Err(_) => Message::Unknown(EVENT_FORK),
        },
        EVENT_REMAP => Message::Remap {
            from: one,
            to: two,
            length: three,
        },
        EVENT_REMOVE => Message::Remove { start: one, end: two },
        EVENT_UNMAP => Message::Unmap { start: one, end: two },
        other => Message::Unknown(other),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::{AdoptError, Message};
    use crate::memory::{Access, Memfd, SharedMapping, Zeros};
    use crate::userfault::{Features, Modes, OpenError, Userfault};
    use crate::{PAGE_SIZE, PageRange};
    use rustix::fd::AsFd;
    use rustix::fs::OFlags;
    use std::time::Duration;

    #[test]
    fn what_is_no_userfaultfd_is_refused() {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(
            Userfault::adopt(pipe, Features::SERVED).err(),
            Some(AdoptError::NotUserfault)
        );
    }

    fn open() -> Option<Userfault> {
        match Userfault::open(Features::SERVED) {
            Ok(userfault) => Some(userfault),
            Err(OpenError::Refused | OpenError::Absent | OpenError::Lacks(_)) => {
                eprintln!("skipped: no userfaultfd with {}", Features::SERVED);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn reading_never_waits_whatever_the_sender_does_to_the_flags() {
        let Some(userfault) = open() else { return };
        let served = Userfault::adopt(userfault.as_fd().try_clone_to_owned().unwrap(), Features::SERVED).unwrap();
        assert!(!served.waits());
        rustix::fs::fcntl_setfl(&userfault, OFlags::empty()).unwrap();
        assert!(served.waits());
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(served.read_messages(1, |_| ())));
        let ended = ended.recv_timeout(Duration::from_secs(10));
        assert_eq!(ended.expect("it waits"), Ok(0));
    }

    #[test]
    fn a_fault_is_told_and_answered() {
        let Some(userfault) = open() else { return };
        let served = Userfault::adopt(userfault.as_fd().try_clone_to_owned().unwrap(), Features::SERVED).unwrap();
        let memory = Memfd::create(c"served", 2).unwrap();
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).unwrap();
        let source = Memfd::create(c"source", 3).unwrap();
        rustix::io::pwrite(&source, &[9; PAGE_SIZE], 2 * PAGE_SIZE as u64).unwrap();
        let source = SharedMapping::of_whole(&source, Access::Read).unwrap();
        let registered = crate::memory::ServedMapping::new(mapping, &userfault, Modes::ALL).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| registered.read_word(PAGE_SIZE / 8));
            let mut seen = None;
            while seen.is_none() {
                served.read_messages(1, |message| seen = Some(message)).unwrap();
            }
            let Some(Message::Fault {
                address,
                write,
                write_protected,
                thread,
            }) = seen
            else {
                panic!("{seen:?}");
            };
            assert_eq!(address, (registered.base().addr() + PAGE_SIZE) as u64);
            assert!(!write && !write_protected && thread != 0);
            let start = usize::try_from(address).unwrap();
            served.copy_pages(start, &source, PageRange::single(2), false).unwrap();
            assert_eq!(reader.join().unwrap(), Some(0x0909_0909_0909_0909));
        });
        assert!(served.copy_pages(0, &source, PageRange::new(2, 2), false).is_err());
        let zeros = Zeros::create(4).unwrap();
        let start = registered.base().addr();
        assert_eq!(served.copy_zeros(start, &zeros, 5, false).err(), Some(super::REFUSED));
        served.copy_zeros(start, &zeros, 1, false).unwrap();
        assert_eq!(registered.read_word(0), Some(0));
    }
}
