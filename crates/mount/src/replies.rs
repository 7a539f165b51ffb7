//! Answers to requests.

use crate::attributes::Extended;
use crate::tree::Entry;
use fuser::{
    Errno as Refusal, FileHandle, FopenFlags, Generation, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    ReplyXattr,
};
use rustix::io::Errno;
use std::time::Duration;

/// How long the kernel may believe names and attributes.
pub(crate) const NEVER: Duration = Duration::ZERO;

pub(crate) fn refusal(error: Errno) -> Refusal {
    Refusal::from_i32(error.raw_os_error())
}

pub(crate) fn tell(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(refusal(error)),
    }
}

pub(crate) fn tell_open(reply: ReplyOpen, outcome: Result<(u64, FopenFlags), Errno>) {
    match outcome {
        Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(refusal(error)),
    }
}

pub(crate) fn tell_created(reply: ReplyCreate, outcome: Result<(Entry, u64, FopenFlags), Errno>) {
    let told =
        outcome.and_then(|((inode, status), handle, answer)| Ok((status.attributes(inode.number)?, handle, answer)));
    match told {
        Ok((attributes, handle, answer)) => {
            reply.created(&NEVER, &attributes, Generation(0), FileHandle(handle), answer);
        }
        Err(error) => reply.error(refusal(error)),
    }
}

pub(crate) fn tell_written(reply: ReplyWrite, outcome: Result<usize, Errno>) {
    match outcome.and_then(|done| u32::try_from(done).map_err(|_| Errno::OVERFLOW)) {
        Ok(done) => reply.written(done),
        Err(error) => reply.error(refusal(error)),
    }
}

pub(crate) fn tell_extended(reply: ReplyXattr, outcome: Result<Extended, Errno>) {
    match outcome {
        Ok(Extended::Length(length)) => reply.size(length),
        Ok(Extended::Bytes(bytes)) => reply.data(&bytes),
        Err(error) => reply.error(refusal(error)),
    }
}

pub(crate) fn tell_entry(reply: ReplyEntry, outcome: Result<Entry, Errno>) {
    let outcome = outcome.and_then(|(inode, status)| status.attributes(inode.number));
    match outcome {
        Ok(attributes) => reply.entry(&NEVER, &attributes, Generation(0)),
        Err(error) => reply.error(refusal(error)),
    }
}
