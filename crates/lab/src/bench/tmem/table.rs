//! The operations of paper 004's Table III, each in nanoseconds, and what else gives a thread a buffer.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use super::iceoryx2::Iceoryx2;
use super::{calls, contended, one_cpu, units};
use crate::bench::rounds::{Effort, Samples};
use freehold_command::exit_status::Failure;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Pair,
    Find,
    Contended,
    Call,
    Mutex,
    Malloc,
    Iceoryx2,
}

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pair => "cbuf_alloc and cbuf_free, a unit free",
            Self::Find => "cbuf2buf",
            Self::Contended => "cbuf_alloc, a wait with inheritance",
            Self::Call => "a call to another process",
            Self::Mutex => "a pool behind a mutex: a buffer taken and released",
            Self::Malloc => "malloc of 4096 bytes, and free",
            Self::Iceoryx2 => "iceoryx2: a buffer loaned, sent, received and released",
        }
    }
}

/// The median of each. That of iceoryx2 only where [`VARIABLE`](super::iceoryx2::VARIABLE) names its program.
pub(crate) fn operations(effort: Effort) -> Result<Vec<(Operation, f64)>, Failure> {
    let median = |samples: &Samples| samples.quantiles().p50;
    let mut medians = vec![
        (Operation::Pair, median(&units::pair(effort)?.ours)),
        (Operation::Find, median(&units::map(effort)?.ours)),
        (Operation::Contended, median(&contended::run(effort)?.ours)),
        (Operation::Call, median(&calls::separate(effort)?.ours)),
        (Operation::Mutex, median(&mutex(effort)?)),
        (Operation::Malloc, median(&malloc(effort)?)),
    ];
    if let Some(mut others) = Iceoryx2::start(one_cpu()?, "buffers")? {
        let mut samples = Samples::new()?;
        for _ in 0..effort.rounds {
            others.measure(effort.scaled(units::SAMPLES), units::BATCH, &mut samples)?;
        }
        medians.push((Operation::Iceoryx2, median(&samples)));
    }
    Ok(medians)
}

fn mutex(effort: Effort) -> Result<Samples, Failure> {
    let pool: Mutex<Vec<Box<[u8; 4096]>>> = Mutex::new((0..8).map(|_| Box::new([0; 4096])).collect());
    let locked = || pool.lock().unwrap_or_else(PoisonError::into_inner);
    let mut samples = Samples::new()?;
    for _ in 0..effort.rounds {
        units::batches(&mut samples, effort.scaled(units::SAMPLES), || {
            let Some(buffer) = locked().pop() else { return false };
            locked().push(black_box(buffer));
            true
        })?;
    }
    Ok(samples)
}

fn malloc(effort: Effort) -> Result<Samples, Failure> {
    let mut samples = Samples::new()?;
    for _ in 0..effort.rounds {
        units::batches(&mut samples, effort.scaled(units::SAMPLES), || {
            let buffer: Vec<u8> = black_box(Vec::with_capacity(4096));
            buffer.capacity() >= 4096
        })?;
    }
    Ok(samples)
}
