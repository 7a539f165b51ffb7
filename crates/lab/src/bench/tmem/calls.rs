//! Calls to components in other address spaces, and in this one.

use std::hint::black_box;
use std::time::Duration;

use freehold_linux::bare_word::BareWords;
use freehold_linux::clock;
use freehold_tmem::channel::{ARGUMENTS, Caller, Channel};
use freehold_tmem::stack::with_stack;
use std::os::fd::AsFd;

use super::peer::{Peer, path};
use super::{BOUND, URGENT, on_cpu, one_cpu, pool};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const CALLS: u32 = 2_000;
const BATCH: u64 = 1_000;
const DEPTH: usize = 5;
/// What the first of them answers: how many are below it.
const BELOW: i64 = 4;

/// `call-separate`.
pub(in crate::bench) const SEPARATE: Bench = Bench {
    name: "call-separate",
    about: "a call to an ordinary component in another process, by a thread of priority 30 on the same CPU",
    floor: "a futex round trip between two processes, both of that priority",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.3,
    run: separate,
};

/// `call-chain`.
pub(in crate::bench) const CHAIN: Bench = Bench {
    name: "call-chain",
    about: "a call through five components, each in a process of its own, on one CPU",
    floor: "a call to one",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 5.5,
    run: chain,
};

/// `call-shared`.
pub(in crate::bench) const SHARED: Bench = Bench {
    name: "call-shared",
    about: "a call to a component in the same process, on a stack of its own",
    floor: "a call of a function",
    unit: "ns",
    judged: Judged::OursP50,
    goal: 25.0,
    run: shared,
};

/// A channel whose callee serves in another process.
pub(super) fn served(cpu: usize, options: &[&str]) -> Result<(Channel, Peer), Failure> {
    let channel = Channel::create(1).map_err(refused)?;
    let of_channel = path(&channel);
    let peer = Peer::start(cpu, &[&["--channel", of_channel.as_str()], options].concat())?;
    let began = clock::now();
    while !channel.is_served() {
        if clock::now().saturating_since(began) > BOUND {
            return Err(refused("the callee does not serve"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((channel, peer))
}

pub(super) fn caller(channel: &Channel) -> Result<Caller, Failure> {
    let again = channel.as_fd().try_clone_to_owned().map_err(refused)?;
    let channel = Channel::open(again, 1).map_err(refused)?;
    Ok(Caller::new(channel, BOUND))
}

fn calls(samples: &mut Samples, caller: &Caller, count: u32, expected: i64) -> Result<(), Failure> {
    for _ in 0..count {
        let result = samples.time(|| caller.call(0, [0; ARGUMENTS]));
        if result != Ok(expected) {
            return Err(refused(format!("a call ended with {result:?}")));
        }
    }
    Ok(())
}

/// Round trips and calls in turns, by threads of this priority; the callee has these options.
fn beside_futex(effort: Effort, priority: Option<u32>, callee: &[&str], found: &mut Found) -> Result<(), Failure> {
    let (cpu, count) = (one_cpu()?, effort.scaled(CALLS));
    let words = BareWords::create().map_err(refused)?;
    let (of_words, shown) = (path(&words), priority.unwrap_or(0).to_string());
    let _bare = Peer::start(cpu, &["--bare", &of_words, &shown])?;
    let (channel, _peer) = served(cpu, callee)?;
    let caller = caller(&channel)?;
    // The first may come before the other side listens.
    words.ask();
    found.alternate(
        effort,
        |samples| {
            on_cpu(cpu, priority, || {
                (0..count).for_each(|_| samples.time(|| words.ask()));
                Ok(())
            })
        },
        |samples| on_cpu(cpu, priority, || calls(samples, &caller, count, 0)),
    )
}

pub(super) fn separate(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    beside_futex(effort, Some(URGENT), &[], &mut found)?;
    let others: [(&str, Option<u32>, &[&str], f64); 2] = [
        (
            "a callee of priority 10",
            Some(URGENT),
            &["--own-priority", "10"],
            SEPARATE.goal,
        ),
        ("ordinary threads", None, &[], 1.1),
    ];
    for (what, priority, callee, goal) in others {
        let mut other = Found::new()?;
        beside_futex(effort, priority, callee, &mut other)?;
        let (ours, floor) = (other.ours.quantiles().p50, other.floor.quantiles().p50);
        found.add_side(&format!("{what}: a call"), &other.ours);
        found.add_side(
            &format!("{what}: a futex round trip of the caller's priority"),
            &other.floor,
        );
        found.goal_row(&format!("ratio of p50, {what}"), ours / floor, "", goal);
    }
    Ok(found)
}

fn chain(effort: Effort) -> Result<Found, Failure> {
    let (mut found, cpu, count) = (Found::new()?, one_cpu()?, effort.scaled(CALLS));
    let (short, _peer) = served(cpu, &[])?;
    // The last first: each is told of the next.
    let mut links: Vec<(Channel, Peer)> = vec![served(cpu, &[])?];
    while links.len() < DEPTH {
        let next = path(&links[links.len() - 1].0);
        links.push(served(cpu, &["--next", &next])?);
    }
    let (short, long) = (caller(&short)?, caller(&links[DEPTH - 1].0)?);
    found.alternate(
        effort,
        |samples| on_cpu(cpu, Some(URGENT), || calls(samples, &short, count, 0)),
        |samples| on_cpu(cpu, Some(URGENT), || calls(samples, &long, count, BELOW)),
    )?;
    Ok(found)
}

#[inline(never)]
fn function(argument: u64) -> u64 {
    black_box(argument) + 1
}

fn shared(effort: Effort) -> Result<Found, Failure> {
    let (mut found, stacks, repeat) = (Found::new()?, pool(4, 16, 1)?, effort.scaled(400));
    let batch = |samples: &mut Samples, event: &dyn Fn(u64) -> Option<u64>| {
        for _ in 0..repeat {
            let begun = clock::now();
            let done = (0..BATCH).filter(|at| event(*at) == Some(at + 1)).count();
            samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), BATCH);
            if done as u64 != BATCH {
                return Err(refused("a call failed"));
            }
        }
        Ok(())
    };
    found.alternate(
        effort,
        |samples| batch(samples, &|at| Some(function(at))),
        |samples| batch(samples, &|at| with_stack(&stacks, || function(at)).ok()),
    )?;
    Ok(found)
}
