//! The thread that reads what the kernel tells.

use super::kernel::{self, Message};
use super::{PAGE, Place, Shared, Space, World, torment};
use freehold_protocol::channel::Outcome;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const EAGAIN: i32 = libc::EAGAIN;
const EEXIST: i32 = libc::EEXIST;

pub(crate) fn serve(shared: &Shared) {
    let mut last = Instant::now();
    while !shared.ending.load(Ordering::Acquire) {
        let fds = descriptors(&shared.lock(), shared);
        let raw: Vec<i32> = fds
            .iter()
            .map(|fd| fd.as_raw_fd())
            .chain([shared.event.as_raw_fd()])
            .collect();
        kernel::poll(&raw, 1);
        kernel::quiet(&shared.event);
        dawdle(shared);
        let mut world = shared.lock();
        for at in 0..world.spaces.len() {
            turn(&mut world, at);
        }
        world.spaces.retain(|space| !space.ended);
        if world.dawdles.is_none() && last.elapsed() > Duration::from_millis(1) {
            torment::round(&mut world);
            last = Instant::now();
        }
    }
}

/// Where a process is unmapping memory, orders pages of it and lets some time pass: until the kernel's message has been
/// read, it moves no page.
fn dawdle(shared: &Shared) {
    let mut world = shared.lock();
    let Some(time) = world.dawdles else { return };
    if world.spaces.iter().any(unmaps) {
        world.counts.dawdled += 1;
        torment::take_all(&mut world);
        drop(world);
        std::thread::sleep(time);
    }
}

/// Whether the main thread of a process is in `munmap`.
fn unmaps(space: &Space) -> bool {
    let process = space.process.filter(|_| space.client.is_some());
    let call = process.map(|process| std::fs::read_to_string(format!("/proc/{process}/syscall")));
    call.and_then(Result::ok)
        .is_some_and(|call| call.split(' ').next() == Some(&libc::SYS_munmap.to_string()))
}

fn descriptors(world: &World, _shared: &Shared) -> Vec<Arc<OwnedFd>> {
    let mut all = Vec::new();
    for space in &world.spaces {
        all.push(space.private.clone());
        all.extend(space.shared.clone());
    }
    all
}

fn turn(world: &mut World, at: usize) {
    answers(world, at);
    for _ in 0..64 {
        let space = &world.spaces[at];
        let (private, shared) = (space.private.clone(), space.shared.clone());
        let mut any = false;
        if let Some(message) = kernel::read(&private) {
            private_message(world, at, message);
            any = true;
        }
        if let Some(shared) = shared
            && let Some(message) = kernel::read(&shared)
        {
            shared_message(world, at, message);
            any = true;
        }
        if !any {
            break;
        }
    }
    let waiting = std::mem::take(&mut world.spaces[at].waiting);
    for (address, thread) in waiting {
        fill(world, at, address, thread);
    }
    end_if_gone(&mut world.spaces[at]);
}

fn end_if_gone(space: &mut Space) {
    if let Some(process) = space.process
        && !std::path::Path::new(&format!("/proc/{process}")).exists()
    {
        space.ended = true;
    }
}

/// Takes the agent's answers.
pub(crate) fn answers(world: &mut World, at: usize) {
    let World { spaces, counts, .. } = world;
    let space = &mut spaces[at];
    let Some(client) = &mut space.client else { return };
    kernel::quiet(&client.event);
    let mut replies = Vec::new();
    while let Some(reply) = client.answer() {
        replies.push(reply);
    }
    for reply in replies {
        let Some(client) = &mut space.client else { return };
        let Some(order) = client.under_way.remove(&reply.sequence) else {
            counts.zapped += u64::from(reply.outcome == Outcome::Done);
            continue;
        };
        let place = match reply.outcome {
            Outcome::Done | Outcome::Dropped => {
                counts.surrendered += 1;
                Some(Place::Slot(order.slot))
            }
            Outcome::Zero => {
                counts.zeros += 1;
                None
            }
            Outcome::Absent => {
                counts.absent += 1;
                // Moved away by the program before the agent came: it is where it was moved to.
                (order.now != Some(order.at)).then_some(Place::Client)
            }
            Outcome::Busy | Outcome::Refused => {
                counts.busy += u64::from(reply.outcome == Outcome::Busy);
                counts.refused += u64::from(reply.outcome == Outcome::Refused);
                Some(Place::Client)
            }
        };
        let kept = order.now.is_some() && place == Some(Place::Slot(order.slot));
        if !kept {
            client.free.push(order.slot);
        }
        if let Some(now) = order.now {
            match place {
                Some(place) => space.pages.insert(now, place),
                None => space.pages.remove(&now),
            };
            if order.dropped > u32::from(reply.outcome == Outcome::Dropped) {
                space.forget(now, now + PAGE);
            }
        }
    }
}

fn private_message(world: &mut World, at: usize, message: Message) {
    match message {
        Message::Fault {
            address,
            thread,
            protection,
        } => {
            world.counts.private_faults += 1;
            identify(&mut world.spaces[at], thread);
            if protection {
                let _ = kernel::unprotect(&world.spaces[at].private, address);
            } else {
                fill(world, at, address, thread);
            }
        }
        Message::Fork { child } => fork(world, at, child),
        Message::Remap { from, to, length } => world.spaces[at].remap(from, to, length),
        Message::Remove { start, end } => {
            if !world.spaces[at].note_dropped(start, end) {
                world.spaces[at].forget(start, end);
            }
        }
        Message::Unmap { start, end } => world.spaces[at].forget(start, end),
    }
}

fn identify(space: &mut Space, thread: u32) {
    if space.process.is_some() {
        return;
    }
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    space.process = line.and_then(|number| number.trim().parse().ok());
}

/// Puts a private page where a thread waits for it. The agent, which carries an order about it out, finds that it has
/// been dropped meanwhile.
fn fill(world: &mut World, at: usize, address: u64, thread: u32) {
    let World { spaces, counts, .. } = world;
    let space = &mut spaces[at];
    let agent = space.client.as_ref().map(|client| client.agent_thread);
    if agent == Some(thread) && thread != 0 {
        match kernel::zero(&space.private, address) {
            Ok(()) => {}
            Err(EAGAIN) => space.waiting.push((address, thread)),
            Err(_) => kernel::wake(&space.private, address),
        }
        return;
    }
    if space.is_ordered(address) || matches!(space.pages.get(&address), Some(Place::Ordered { .. })) {
        space.waiting.push((address, thread));
        return;
    }
    let before = space.pages.get(&address).copied();
    let done = match (before, &space.client) {
        (Some(Place::Slot(slot)), Some(client)) => kernel::copy(&space.private, address, client.slot(slot)),
        _ => kernel::zero(&space.private, address),
    };
    match done {
        Err(EAGAIN) => space.waiting.push((address, thread)),
        Err(EEXIST) => kernel::wake(&space.private, address),
        // The address space or the mapping has gone; whoever waits is told by the kernel.
        Err(_) => kernel::wake(&space.private, address),
        Ok(()) => {
            if before == Some(Place::Client) {
                println!("lost: {address:#x} of process {:?}", space.process);
                counts.lost += 1;
            }
            if let Some(Place::Slot(slot)) = before {
                space.free_slot(slot);
            }
            space.pages.insert(address, Place::Client);
        }
    }
}

fn shared_message(world: &mut World, at: usize, message: Message) {
    match message {
        Message::Fault { address, thread, .. } => {
            world.counts.shared_faults += 1;
            let space = &mut world.spaces[at];
            identify(space, thread);
            let Some(fd) = space.shared.clone() else { return };
            let done = match space.mapping(address) {
                Some((page, object)) => object.with_page(page, || kernel::proceed(&fd, address)),
                None => kernel::zero(&fd, address),
            };
            if done.is_err() {
                kernel::wake(&fd, address);
            }
        }
        Message::Fork { child } => {
            let child = Arc::new(child);
            let parent = world.spaces[at].private.clone();
            let waits = |space: &&mut Space| {
                space.shared.is_none() && space.parent.as_ref().is_some_and(|one| Arc::ptr_eq(one, &parent))
            };
            match world.spaces.iter_mut().find(waits) {
                Some(space) => space.shared = Some(child),
                None => world.halves.push((parent, child)),
            }
        }
        Message::Remap { .. } => {}
        Message::Remove { start, end } | Message::Unmap { start, end } => world.spaces[at].unmap(start, end),
    }
}

/// A child: it has what its parent had, and gets copies of what the parent had not in its own memory.
fn fork(world: &mut World, at: usize, child: OwnedFd) {
    world.counts.forks += 1;
    let started = Instant::now();
    while world.spaces[at]
        .client
        .as_ref()
        .is_some_and(|client| !client.under_way.is_empty())
    {
        answers(world, at);
        if started.elapsed() > Duration::from_secs(2) {
            break;
        }
        std::thread::yield_now();
    }
    let parent = &world.spaces[at];
    let mut pages = std::collections::BTreeMap::new();
    for (address, place) in &parent.pages {
        if let (Place::Slot(slot), Some(client)) = (place, &parent.client) {
            let _ = kernel::copy(&child, *address, client.slot(*slot));
        }
        pages.insert(*address, Place::Client);
    }
    let half = world.halves.iter().position(|(of, _)| Arc::ptr_eq(of, &parent.private));
    let space = Space {
        private: Arc::new(child),
        shared: half.map(|half| world.halves.remove(half).1),
        parent: Some(parent.private.clone()),
        process: None,
        client: None,
        pages,
        mappings: parent.mappings.clone(),
        waiting: Vec::new(),
        ended: false,
    };
    world.spaces.push(space);
}
