//! The wire format of protocol buffers, as much of it as a trace needs: variable-length integers, strings, messages.

/// A message under construction. Fields are written in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// Wire type of integers.
const VARINT: u64 = 0;
/// Wire type of strings and messages.
const LENGTH: u64 = 2;

impl Message {
    /// An unsigned integer, a boolean or an enumeration.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// A string.
    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.block(field, text.as_bytes())
    }

    /// A message inside this one.
    pub(super) fn message(self, field: u64, inner: &Self) -> Self {
        self.block(field, &inner.bytes)
    }

    /// What was written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn block(mut self, field: u64, block: &[u8]) -> Self {
        self.varint(field << 3 | LENGTH);
        // A slice is never longer than 2⁶³ bytes.
        self.varint(block.len() as u64);
        self.bytes.extend_from_slice(block);
        self
    }

    /// Seven bits a byte, the lowest first; the eighth bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value & 0x7f).to_le_bytes()[0];
            value >>= 7;
            if value == 0 {
                self.bytes.push(low);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_as_many_bytes_as_they_need() {
        let cases: [(u64, &[u8]); 5] = [
            (0, &[8, 0]),
            (1, &[8, 1]),
            (127, &[8, 0x7f]),
            (300, &[8, 0xac, 0x02]),
            (u64::MAX, &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ];
        for (value, bytes) in cases {
            assert_eq!(Message::default().number(1, value).bytes(), bytes, "{value}");
        }
    }

    #[test]
    fn strings_and_messages_carry_their_length() {
        let inner = Message::default().text(2, "ab");
        assert_eq!(inner.bytes(), [0x12, 2, b'a', b'b']);
        let outer = Message::default().message(60, &inner).number(1, 5);
        assert_eq!(outer.bytes(), [0xe2, 0x03, 4, 0x12, 2, b'a', b'b', 8, 5]);
    }
}
