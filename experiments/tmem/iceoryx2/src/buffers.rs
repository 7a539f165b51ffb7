//! One buffer loaned, sent, received and released in one process.

use std::hint::black_box;

use crate::own::{Run, node};
use crate::{Outcome, answer};

/// Bytes of a buffer.
const BUFFER: usize = 4096;
/// Buffers in each time that is answered: a clock takes as long as one of them.
const BATCH: u32 = 1_000;

/// Each time that is answered is of [`BATCH`] buffers.
pub(crate) fn perform() -> Outcome<()> {
    let run = Run::new();
    let node = node(&run.0)?;
    let service = node
        .service_builder(&"buffers".try_into()?)
        .publish_subscribe::<[u8]>()
        .create()?;
    let publisher = service.publisher_builder().initial_max_slice_len(BUFFER).create()?;
    let subscriber = service.subscriber_builder().create()?;
    answer(|| {
        for _ in 0..BATCH {
            let mut buffer = publisher.loan_slice(1)?;
            buffer.payload_mut()[0] = black_box(7);
            buffer.send()?;
            let received = subscriber.receive()?.ok_or("nothing was received")?;
            black_box(received.payload()[0]);
        }
        Ok(())
    })
}
