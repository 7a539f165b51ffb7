//! Requests, answers and how they look on the socket.
//!
//! A message is a header of 16 bytes (magic `FRHD`, version, kind, serial number, length of what follows) and the
//! fields of its kind, at most [`LIMIT`] bytes in all. A packet is a message, or several ([`crate::packet`]). An answer
//! carries the serial number of its request. Handles (`u32`) are the server's and per connection; 0 is none.

pub use crate::choices::*;
use crate::field::{Field, Malformed, Reader, Writer};
pub use crate::grant::Grant;
use crate::header::{get_header, put_header};
pub use freehold_core::limits::{Regime, ReservationKind};
pub use freehold_core::pinning::{
    CapacityRule, JobReport, Judgement, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule, UnpinnedGoTo,
};
pub use freehold_core::units::{Duration, PageCount};
pub use freehold_core::view::TaskCounts;

/// The longest message, and the longest packet, in bytes.
pub const LIMIT: usize = 4096;
/// Bytes of the header.
pub const HEADER: usize = 16;
/// The most descriptors that one packet carries.
pub const DESCRIPTORS: usize = 16;
/// In place of an object's handle: what the last `OpenFile` has opened.
pub const OPENED_LAST: u32 = 0;

/// Declares messages: an enum whose variants carry fields, each variant with its number.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $number:literal $variant:ident {
            $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)?
        }),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$vdoc])* $variant { $($(#[$fdoc])* $field: $type),* }),*
        }

        impl<'a> $name<'a> {
            fn kind(&self) -> u16 {
                match self { $(Self::$variant { .. } => $number),* }
            }

            fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
                match self {
                    $(Self::$variant { $($field),* } => { $($field.put(writer)?;)* })*
                }
                let _ = &writer;
                Ok(())
            }

            fn get(kind: u16, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                match kind {
                    $($number => Ok(Self::$variant {
                        $($field: <$type as Field<'a>>::get(reader, stringify!($field))?),*
                    }),)*
                    _ => Err(Malformed::Kind { kind }),
                }
            }

            /// Writes the whole message into `buffer`; how many bytes it takes.
            ///
            /// # Errors
            /// [`Malformed::NoRoom`], [`Malformed::Text`].
            pub fn encode(&self, serial: u32, buffer: &mut [u8]) -> Result<usize, Malformed> {
                let length = {
                    let body = buffer.get_mut(HEADER..).ok_or(Malformed::NoRoom)?;
                    let mut writer = Writer::new(body);
                    self.put(&mut writer)?;
                    writer.length()
                };
                put_header(self.kind(), serial, length, buffer)?;
                Ok(HEADER + length)
            }

            /// Reads a whole message: its serial number and itself.
            ///
            /// # Errors
            /// See [`Malformed`].
            pub fn decode(bytes: &'a [u8]) -> Result<(u32, Self), Malformed> {
                let mut reader = Reader::new(bytes);
                let (kind, serial) = get_header(&mut reader)?;
                let message = Self::get(kind, &mut reader)?;
                reader.end()?;
                Ok((serial, message))
            }
        }
    };
}
pub(crate) use messages;

messages! {
    /// What a client asks. Every request has one answer: the one named, or `Refused`; where none is named, `Done`.
    Request {
        /// The first message of every connection. Answer: `Welcome`.
        1 Hello {
            /// Who connects.
            role: Role,
            /// The thread that answers the channel, in the client's own numbering; 0 for an observer.
            agent_thread: u32,
            /// What the client is called in reports: the program's name.
            name: &'a str,
        },
        /// Makes a reservation that this connection holds. Answer: `Reserved`.
        2 Reserve {
            /// What it is called in reports.
            name: &'a str,
            /// Frames promised.
            frames: u32,
            /// Hard or firm.
            kind: ReservationKind,
        },
        /// Joins the reservation or the pinned page pool of a ticket: another process, or a child. It ends when the
        /// last that holds or joined it is gone. Answer: `Reserved`; of a pinned page pool with no frames, as none are
        /// promised, and with its handle where a reservation's would be.
        3 Join {
            /// The ticket's first half.
            ticket_high: u64,
            /// The ticket's second half.
            ticket_low: u64,
        },
        /// Gives up what this connection holds of a reservation or of a pinned page pool.
        4 Release {
            /// Its handle.
            reservation: u32,
        },
        /// Makes a task. A program has one for the whole process, and the server as many more as threads of it wait at
        /// once. Answer: `Made`.
        5 AddTask {
            /// The reservation whose frames it uses, or the pinned page pool whose pages are its; 0 is none.
            membership: u32,
            /// How urgent its faults and transfers are: 0 background to 255. Above 0 needs the right to be real-time.
            urgency: u8,
            /// What it is called in reports.
            name: &'a str,
        },
        /// Ends a task; its mappings go.
        6 RemoveTask {
            /// Its handle.
            task: u32,
        },
        /// Opens the object that holds a file's content. Descriptor: the file, open for reading. Objects are one for
        /// each identity: device, inode, size, change time; an object that this connection has open already keeps its
        /// handle. Answer: `Opened`, with a read-only descriptor.
        7 OpenFile {
            /// How it is shared; the first to open it decides.
            regime: Regime,
            /// Its path; a claim that is never looked up nor shown.
            path: &'a str,
        },
        /// Opens a region of memory, zero at first. Answer: `Opened`, with a descriptor to read and write.
        8 OpenRegion {
            /// Its name, among the asking user's; with `UID:` before it, among another user's, for who may do
            /// everything.
            name: &'a str,
            /// Its size.
            pages: u32,
            /// Who it is for.
            kind: RegionKind,
            /// How it is shared; the first to open it decides.
            regime: Regime,
        },
        /// Says that an object is mapped, and registered with the userfaultfd of shared objects, or is about to be:
        /// nobody else uses the place meanwhile. Answer: `Made`.
        9 Map {
            /// The task.
            task: u32,
            /// The object; [`OPENED_LAST`] is what the last `OpenFile` of this connection has opened, if it has.
            object: u32,
            /// Where in the client's address space.
            address: u64,
            /// The object's first page there.
            first: u32,
            /// How many pages.
            pages: u32,
            /// Whether writes through this mapping change the object.
            writable: bool,
        },
        /// Ends a mapping, which the client has unmapped.
        10 Unmap {
            /// Its handle.
            mapping: u32,
        },
        /// Locks pages of an object (the eviction lock; of a private region, a pin): answered when all are resident.
        11 Lock {
            /// The reservation that locks.
            reservation: u32,
            /// The object.
            object: u32,
            /// The first page.
            first: u32,
            /// How many pages.
            pages: u32,
        },
        /// Unlocks pages.
        12 Unlock {
            /// The reservation that locked.
            reservation: u32,
            /// The object.
            object: u32,
            /// The first page.
            first: u32,
            /// How many pages.
            pages: u32,
        },
        /// A periodic task has ended a job.
        13 JobEnd {
            /// The task.
            task: u32,
            /// Its response time in nanoseconds.
            response: u64,
            /// Whether it missed its deadline.
            missed: bool,
        },
        /// What happened to a task so far. Answer: `Counts`.
        14 Count {
            /// The task.
            task: u32,
        },
        /// A question. Answer: `Document`, with a descriptor.
        15 Ask {
            /// What about.
            question: Question,
            /// Which target, or nothing.
            target: &'a str,
        },
        /// Samples which pages of shared objects a client references in each period, until told 0.
        16 Sample {
            /// The period in nanoseconds; 0 ends it.
            period: u64,
            /// Another process of the same user, in the client's own numbering; 0 is this connection's own.
            process: u32,
        },
        /// This connection is the child of a fork. Answer: `Done`, with the userfaultfds made for it: shared, private.
        17 Forked {
            /// The parent's process id, in the client's own numbering.
            parent: u32,
        },
        /// Leaves a range of private memory alone from now on, because the kernel or the program needs it where it is:
        /// its pages are brought in and stay.
        18 Keep {
            /// Where it begins.
            address: u64,
            /// Its length in bytes.
            length: u64,
        },
        /// Closes an object once, and gives up its handle when it has been closed as often as it was opened. Its
        /// mappings stay; an object that nobody maps or has opened is forgotten.
        19 CloseObject {
            /// Its handle.
            object: u32,
        },
        /// What happened to all tasks of a process of the same user so far. Answer: `Counts`.
        20 CountProcess {
            /// The process, in the server's numbering.
            process: u32,
        },
        /// Opens a pinned page pool (Adaptive Page Pinning) that this connection holds, for one periodic program
        /// without a reservation. All of it is a claim; what cannot be is refused. Answer: `Reserved`, with no frames.
        21 OpenPool {
            /// What it is called in reports.
            name: &'a str,
            /// What it is opened with. A highest capacity of 0 is as many pages as the user's quota leaves: they count
            /// as frames that he reserves.
            settings: PinningSettings,
        },
        /// A job of the program whose pages a pinned page pool pins has ended. Times are nanoseconds, and claims.
        /// Answer: `Judged`.
        22 ReportJob {
            /// The pool's handle.
            pool: u32,
            /// The job.
            job: JobReport,
            /// When the next job is released, by the monotonic clock: until then pages are brought back, where the
            /// pool was opened for that. 0 for nobody knows; more than a period from now is not believed.
            next_release: u64,
        },
        /// A program is about to lock managed memory that it has (`mlock`): its pages stay from when they are there. If
        /// that cannot be admitted it is refused, and all that the same call has locked is unlocked.
        27 LockMemory {
            /// The call of the program, in the client's own numbering, above 0.
            call: u32,
            /// Where it begins.
            address: u64,
            /// How many pages.
            pages: u32,
        },
        /// A program has unlocked memory.
        28 UnlockMemory {
            /// The only call whose locks end, wherever they are; 0 for a range, whatever call locked it.
            call: u32,
            /// Where the range begins.
            address: u64,
            /// Its length in bytes.
            length: u64,
        },
        /// Says what children of forks to come are to have of a range of private memory, as the kernel was told too.
        30 Inherit {
            /// Where it begins.
            address: u64,
            /// Its length in bytes.
            length: u64,
            /// What they are to have.
            how: Inheritance,
        },
        /// Says that children of forks to come are to have of a range what they are to have of other memory.
        32 InheritAlike {
            /// Where the range begins.
            address: u64,
            /// Its length in bytes.
            length: u64,
            /// An address in the other memory.
            other: u64,
        },
        /// Gives private memory back to the kernel for good: what is elsewhere is brought in, in frames of the
        /// machine's, and the range is managed no more. Answered when all is there.
        31 Relinquish {
            /// Another process of the same user, in the server's numbering; 0 is this connection's own.
            process: u32,
            /// Where the range begins.
            address: u64,
            /// Its length in bytes; 0 for all private memory, also what is to come.
            length: u64,
        },
        /// Tells of a program that runs unmanaged: one that this client has begun, or itself from now on.
        40 Stranger {
            /// Its process, in the client's own numbering.
            process: u32,
            /// Why.
            why: Stranger,
            /// What it is called.
            name: &'a str,
        },
        /// A connection for a child that is about to be forked. Answer: `Done`, with the child's end.
        41 Lend {},
        /// Another thread answers the channel from now on.
        42 AnswerBy {
            /// The thread, in the client's own numbering.
            agent_thread: u32,
        },
    }
}

messages! {
    /// What the server answers.
    Answer {
        /// Done; nothing more to say.
        1 Done {},
        /// Refused; nothing has changed.
        2 Refused {
            /// Why.
            why: Refusal,
            /// The same for people: who is at fault and what to do next.
            text: &'a str,
        },
        /// The answer to `Hello`. Descriptors for a program or library: the channel, the transfer memory (see
        /// [`crate::channel`]), and the event descriptor that wakes the server.
        3 Welcome {
            /// The server's process id, in its own numbering; for messages.
            server: u32,
            /// Pages of the transfer memory.
            transfer_pages: u32,
            /// What the server calls this client.
            client: u32,
        },
        /// A reservation, made or joined.
        4 Reserved {
            /// Its handle on this connection.
            reservation: u32,
            /// Its frames.
            frames: u32,
            /// The ticket's first half.
            ticket_high: u64,
            /// The ticket's second half.
            ticket_low: u64,
        },
        /// A task or mapping was made.
        5 Made {
            /// Its handle on this connection.
            handle: u32,
        },
        /// An object was opened. Descriptor: the object.
        6 Opened {
            /// Its handle on this connection.
            object: u32,
            /// All of its pages.
            grant: Grant,
        },
        /// What happened to a task.
        7 Counts {
            /// So far.
            counts: TaskCounts,
        },
        /// A document. Descriptor: a sealed memory object that holds it.
        8 Document {
            /// Its length in bytes.
            length: u64,
        },
        /// What follows from a job for its pinned page pool.
        9 Judged {
            /// What was decided.
            judgement: Judgement,
            /// Pages pinned now.
            pinned: PageCount,
            /// Pages brought back before releases so far.
            restored: u64,
        },
    }
}
