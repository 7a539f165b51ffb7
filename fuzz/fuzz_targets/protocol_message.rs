//! Any bytes as a message, in both directions: they are refused, or are the one way to write what they say.
#![no_main]

use freehold_protocol::message::{Answer, LIMIT, Request};
use freehold_protocol::packet::messages;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let length: usize = messages(bytes).map(<[u8]>::len).sum();
    assert_eq!(length, bytes.len(), "a packet comes apart without loss");
    let mut buffer = [0; LIMIT];
    if let Ok((serial, request)) = Request::decode(bytes) {
        let length = request.encode(serial, &mut buffer).expect("what was read can be written");
        assert_eq!(&buffer[..length], bytes);
    }
    match Answer::decode(bytes) {
        Ok((serial, answer)) => {
            let length = answer.encode(serial, &mut buffer).expect("what was read can be written");
            assert_eq!(&buffer[..length], bytes);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
