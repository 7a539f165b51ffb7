//! 64 KiB through five components: a buffer whose name is passed, beside a socket from process to process.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use freehold_linux::PAGE_SIZE;
use freehold_tmem::channel::{ARGUMENTS, Channel};

use super::calls::{caller, served};
use super::iceoryx2::{Iceoryx2, VARIABLE};
use super::peer::{Peer, path};
use super::{URGENT, on_cpu, one_cpu, pool};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Bytes that are passed.
pub(super) const MESSAGE: usize = 64 << 10;
const COMPONENTS: usize = 5;
/// What the first of them answers: how many below it have found the buffer too.
const BELOW: i64 = 4;
const MESSAGES: u32 = 500;

/// `cbuf-passing`.
pub(in crate::bench) const PASSING: Bench = Bench {
    name: "cbuf-passing",
    about: "64 KiB written into a buffer and passed by name through five components, which copy nothing",
    floor: "the same bytes through five processes by Unix sockets",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.0,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let (mut found, cpu, count) = (Found::new()?, one_cpu()?, effort.scaled(MESSAGES));
    let buffers = pool(2, MESSAGE / PAGE_SIZE, 0)?;
    let of_buffers = path(&buffers);
    let mut links: Vec<(Channel, Peer)> = vec![served(cpu, &["--buffers", &of_buffers])?];
    while links.len() < COMPONENTS {
        let next = path(&links[links.len() - 1].0);
        links.push(served(cpu, &["--buffers", &of_buffers, "--next", &next])?);
    }
    let caller = caller(&links[COMPONENTS - 1].0)?;
    let (mut first, mut last, _relays) = relays(cpu)?;
    let (mut others, mut of_others) = (Iceoryx2::start(cpu, "passing")?, Samples::new()?);
    others.as_ref().map_or(Ok(()), Iceoryx2::urgent)?;
    let message = vec![7; MESSAGE];
    let mut answer = [0];
    found.alternate(
        effort,
        |samples| {
            if let Some(others) = &mut others {
                others.measure(count, 1, &mut of_others)?;
            }
            on_cpu(cpu, Some(URGENT), || {
                for _ in 0..count {
                    let passed = samples.time(|| first.write_all(&message).and_then(|()| last.read_exact(&mut answer)));
                    passed.map_err(refused)?;
                }
                Ok(())
            })
        },
        |samples| {
            on_cpu(cpu, Some(URGENT), || {
                for _ in 0..count {
                    let result = samples.time(|| {
                        let buffer = buffers.take(MESSAGE).map_err(refused)?;
                        buffers.write(buffer.id, &message).map_err(refused)?;
                        let mut arguments = [0; ARGUMENTS];
                        arguments[0] = buffer.id.raw();
                        let result = caller.call(0, arguments).map_err(refused)?;
                        buffers.release(buffer.start).map_err(refused)?;
                        Ok::<i64, Failure>(result)
                    })?;
                    if result != BELOW {
                        return Err(refused(format!("a component did not find the buffer: {result}")));
                    }
                }
                Ok(())
            })
        },
    )?;
    if others.is_some() {
        let ratio = found.ours.quantiles().p50 / of_others.quantiles().p50;
        found.add_side("iceoryx2 with events, which copies nothing either", &of_others);
        found.goal_row("ratio of p50 to iceoryx2", ratio, "", 1.0);
    } else {
        found
            .notes
            .push(format!("{VARIABLE} names no program: not compared with iceoryx2"));
    }
    Ok(found)
}

/// The first socket's end of this process, the last's, and the processes between.
fn relays(cpu: usize) -> Result<(UnixStream, UnixStream, Vec<Peer>), Failure> {
    let (first, mut from) = UnixStream::pair().map_err(refused)?;
    let mut peers = Vec::new();
    for at in 1..=COMPONENTS {
        let (to, next) = UnixStream::pair().map_err(refused)?;
        peers.push(Peer::relay(cpu, at == COMPONENTS, from.into(), to.into())?);
        from = next;
    }
    Ok((first, from, peers))
}
