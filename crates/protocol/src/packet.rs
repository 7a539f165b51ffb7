//! Packets. As a rule a packet is one message; requests that many come of at once ([`Request::in_company`]) may come
//! several in a packet, and then so do their answers, because each packet costs its sender a wake-up of the other side.
//!
//! A request in company takes its descriptors from those of the packet, in order. So does an answer.

use crate::message::{Answer, HEADER, Request};

/// Where a header has the length of what follows it.
const LENGTH: usize = 12;

/// The first message of a packet, and the others. What is no message is all of it the first.
#[must_use]
pub fn split(packet: &[u8]) -> (&[u8], &[u8]) {
    let field = packet.get(LENGTH..HEADER).and_then(|field| field.try_into().ok());
    let length = field.and_then(|field| usize::try_from(u32::from_le_bytes(field)).ok());
    let end = length.and_then(|length| length.checked_add(HEADER));
    end.and_then(|end| packet.split_at_checked(end))
        .unwrap_or((packet, &[]))
}

/// The messages of a packet, in order.
pub fn messages(packet: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packet;
    core::iter::from_fn(move || {
        let (message, others) = split(rest);
        rest = others;
        (!message.is_empty()).then_some(message)
    })
}

impl Request<'_> {
    /// Whether it may share a packet with others: then how many of the packet's descriptors are its own.
    #[must_use]
    pub const fn in_company(&self) -> Option<usize> {
        match self {
            Self::OpenFile { .. } => Some(1),
            Self::Map { .. } => Some(0),
            _ => None,
        }
    }
}

impl Answer<'_> {
    /// How many descriptors of a packet are its own, where it shares it with others.
    #[must_use]
    pub const fn in_company(&self) -> usize {
        match self {
            Self::Opened { .. } => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{messages, split};
    use crate::message::{HEADER, LIMIT, Request};

    #[test]
    fn messages_of_a_packet_are_told_apart() {
        let (mut packet, mut length) = ([0; LIMIT], 0);
        let requests = [3, 4, 5].map(|task| Request::RemoveTask { task });
        for request in &requests {
            length += request.encode(9, &mut packet[length..]).unwrap();
        }
        let found = messages(&packet[..length]).map(Request::decode);
        assert!(found.eq(requests.map(|request| Ok((9, request)))));
        // The last is cut off.
        let (_, others) = split(&packet[..length - 1]);
        let (_, last) = split(others);
        assert_eq!(split(last), (last, &[][..]));
    }

    #[test]
    fn every_packet_comes_to_an_end() {
        for bytes in [
            &[][..],
            &[7; HEADER - 1],
            &[0; HEADER],
            &[0; 3 * HEADER + 1],
            &[0xff; 99],
        ] {
            let all: usize = messages(bytes).map(<[u8]>::len).sum();
            assert_eq!(all, bytes.len());
        }
    }
}
