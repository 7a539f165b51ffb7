//! What clients of devices and whoever keeps device memory say to each other, over the same kind of socket and with the
//! same header as [`crate::message`], in a range of kinds of their own: so both can be served at one socket.
//!
//! A connection has at most one device open. It is closed by `Close`, or when the connection ends.

use crate::field::{Field, Malformed, Reader, Writer, choice, record};
pub use crate::grant::Grant;
use crate::header::{get_header, put_header};
use crate::message::{HEADER, messages};

/// Kinds of requests of this module.
const KINDS: core::ops::Range<u16> = 256..512;
/// Where a header has the kind.
const KIND: core::ops::Range<usize> = 6..8;

choice! {
    /// How memory lies in the machine.
    Lies {
        /// In one piece.
        Physical = 1,
        /// In several.
        Pieces = 2,
        /// Nobody may know.
        Unknown = 3,
    }
}

choice! {
    /// Why a request of a device is refused.
    DeviceRefusal {
        /// There is no such device, or the user may not open it: which of these is not told.
        Unknown = 1,
        /// Somebody has it.
        InUse = 2,
        /// It was closed, and somebody still has its memory.
        Held = 3,
        /// More is wanted than it has.
        TooLarge = 4,
        /// This connection has no device open, or has one already.
        Order = 5,
        /// The system's refusal.
        System = 6,
        /// The message is none, or the connection is one too many.
        Protocol = 7,
    }
}

record! {
    /// How memory was granted to a device.
    Opening {
        /// Pages that the device has at most.
        most: u32,
        /// Pages that it uses now.
        used: u32,
        /// How what is granted lies in the machine's memory.
        lies: Lies,
        /// In how many pieces; 0 where that is unknown.
        pieces: u32,
        /// Whether it comes as it is.
        trusted: bool,
        /// Pages filled with zeros.
        zeroed: u32,
        /// Cached pages that went for it.
        discarded: u32,
        /// Nanoseconds that the server waited for copies and for the device's own return.
        wait: u64,
        /// Nanoseconds that choosing the place took.
        choose: u64,
        /// Nanoseconds that filling with zeros took.
        zero: u64,
        /// Nanoseconds in all.
        total: u64,
    }
}

messages! {
    /// What a client asks. Each has one answer, or `Refused`.
    DeviceRequest {
        /// Opens a device. Answer: `Granted`.
        256 Open {
            /// Its name in the device file.
            name: &'a str,
            /// Pages that are to be used; 0 for all.
            used: u32,
        },
        /// Gives the open device more. Answer: `Granted`, of what is new.
        257 Grow {
            /// Pages that are to be used; 0 for all.
            used: u32,
        },
        /// Closes it; its memory is to be unmapped and its descriptors closed before. Answer: `Closed`.
        258 Close {},
        /// Asks for the status document, of what the user may know. Answer: `Document`.
        259 Status {},
    }
}

messages! {
    /// What is answered.
    DeviceAnswer {
        /// Memory. Descriptors: the first of the grant's; the others follow in `More`.
        256 Granted {
            /// What is granted: pages of the region.
            grant: Grant,
            /// How.
            opening: Opening,
        },
        /// Descriptors: the next.
        257 More {},
        /// The device is closed.
        258 Closed {},
        /// A document. Descriptor: a sealed memory object that holds it.
        259 Document {
            /// Its length in bytes.
            length: u64,
        },
        /// Nothing has changed.
        260 Refused {
            /// Why.
            reason: DeviceRefusal,
            /// In words.
            text: &'a str,
        },
    }
}

/// Whether a packet looks like a request of this module. That it is one, decoding tells.
#[must_use]
pub fn is_request(packet: &[u8]) -> bool {
    let kind = packet.get(KIND).and_then(|bytes| bytes.try_into().ok());
    kind.is_some_and(|bytes| KINDS.contains(&u16::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::{DeviceAnswer, DeviceRefusal, DeviceRequest, Grant, Lies, Opening, is_request};
    use crate::field::Malformed;
    use crate::message::{HEADER, LIMIT, Request};

    #[test]
    fn messages_survive_the_way_and_nothing_else_is_one() {
        let mut buffer = [0; LIMIT];
        let requests = [
            DeviceRequest::Open { name: "mfc0", used: 7 },
            DeviceRequest::Grow { used: 0 },
            DeviceRequest::Close {},
            DeviceRequest::Status {},
        ];
        for request in requests {
            let length = request.encode(3, &mut buffer).unwrap();
            assert!(is_request(&buffer[..length]));
            assert_eq!(DeviceRequest::decode(&buffer[..length]), Ok((3, request)));
            assert!(Request::decode(&buffer[..length]).is_err());
            for cut in 0..length {
                assert!(DeviceRequest::decode(&buffer[..cut]).is_err());
            }
        }
        let length = Request::RemoveTask { task: 1 }.encode(1, &mut buffer).unwrap();
        assert!(!is_request(&buffer[..length]));
        assert!(matches!(
            DeviceRequest::decode(&buffer[..length]),
            Err(Malformed::Kind { .. })
        ));
    }

    #[test]
    fn answers_survive_the_way() {
        let mut buffer = [0; LIMIT];
        let grant = Grant {
            first: 3,
            pages: 512,
            descriptors: 18,
        };
        let opening = Opening {
            most: 9216,
            used: 512,
            lies: Lies::Pieces,
            pieces: 2,
            trusted: true,
            zeroed: 0,
            discarded: 9,
            wait: 1,
            choose: 2,
            zero: 3,
            total: u64::MAX,
        };
        let granted = DeviceAnswer::Granted { grant, opening };
        let refused = DeviceAnswer::Refused {
            reason: DeviceRefusal::Held,
            text: "why",
        };
        let document = DeviceAnswer::Document { length: 12 };
        for answer in [
            granted,
            refused,
            document,
            DeviceAnswer::More {},
            DeviceAnswer::Closed {},
        ] {
            let length = answer.encode(9, &mut buffer).unwrap();
            assert_eq!(DeviceAnswer::decode(&buffer[..length]), Ok((9, answer)));
        }
    }

    /// A grant lies in a message as its numbers one after the other, so that older clients understand it.
    #[test]
    fn a_grant_is_its_numbers_in_order() {
        let grant = Grant {
            first: 1,
            pages: 2,
            descriptors: 3,
        };
        let opening = Opening {
            most: 4,
            used: 5,
            lies: Lies::Unknown,
            pieces: 6,
            trusted: true,
            zeroed: 7,
            discarded: 8,
            wait: 9,
            choose: 10,
            zero: 11,
            total: 12,
        };
        let (small, large) = (
            [1_u32, 2, 3, 4, 5, 6, 7, 8].map(u32::to_le_bytes),
            [9_u64, 10, 11, 12].map(u64::to_le_bytes),
        );
        let expected: [&[u8]; 6] = [
            small[..5].as_flattened(),
            &[3],
            small[5..6].as_flattened(),
            &[1],
            small[6..].as_flattened(),
            large.as_flattened(),
        ];
        let mut buffer = [0; LIMIT];
        let length = DeviceAnswer::Granted { grant, opening }.encode(1, &mut buffer).unwrap();
        assert!(buffer[HEADER..length].iter().eq(expected.iter().copied().flatten()));
        let mut bad = buffer;
        bad[HEADER + 20] = 9;
        let refused = Malformed::Value { field: "lies" };
        assert_eq!(DeviceAnswer::decode(&bad[..length]), Err(refused));
    }
}
