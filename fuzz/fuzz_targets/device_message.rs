//! Any bytes as a message about devices, in both directions: they are refused, or are the one way to write what they
//! say.
#![no_main]

use freehold_protocol::device::{DeviceAnswer, DeviceRequest, is_request};
use freehold_protocol::message::LIMIT;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut buffer = [0; LIMIT];
    if let Ok((serial, request)) = DeviceRequest::decode(bytes) {
        assert!(is_request(bytes));
        let length = request.encode(serial, &mut buffer).expect("what was read can be written");
        assert_eq!(&buffer[..length], bytes);
    }
    match DeviceAnswer::decode(bytes) {
        Ok((serial, answer)) => {
            let length = answer.encode(serial, &mut buffer).expect("what was read can be written");
            assert_eq!(&buffer[..length], bytes);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
