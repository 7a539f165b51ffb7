//! Connections.

use super::space::{Mapping, SLOTS};
use super::{Client, Object, Shared, Space, kernel};
use freehold_linux::socket::{Listener, PacketSocket};
use freehold_protocol::message::{Answer, Grant, LIMIT, OPENED_LAST, Refusal, Request};
use freehold_protocol::packet::messages;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) fn accept(shared: &Arc<Shared>, listener: &Listener) {
    while !shared.ending.load(Ordering::Acquire) {
        match listener.accept() {
            Ok(Some(socket)) => {
                let shared = shared.clone();
                std::thread::spawn(move || converse(&shared, &socket));
            }
            _ => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

fn converse(shared: &Shared, socket: &PacketSocket) {
    let process = socket.peer().expect("a peer").pid;
    socket.set_blocking(true).expect("a socket");
    let mut bytes = vec![0; LIMIT];
    let mut opened_last = None;
    while let Ok(Some(packet)) = socket.receive(&mut bytes) {
        let (mut passed, mut given) = (packet.descriptors, Vec::new());
        let (mut out, mut length) = ([0; LIMIT], 0);
        let mut messages = messages(&bytes[..packet.length]).peekable();
        while let Some(message) = messages.next() {
            let (serial, request) = Request::decode(message).expect("a request");
            let own = if messages.peek().is_none() {
                passed.len()
            } else {
                request.in_company().expect("one that may share a packet")
            };
            let (answer, descriptors) = answer(shared, (process, opened_last), request, passed.drain(..own).collect());
            if let Answer::Opened { object, .. } = answer {
                opened_last = Some(object);
            }
            length += answer.encode(serial, &mut out[length..]).expect("an answer");
            given.extend(descriptors);
        }
        let borrowed: Vec<_> = given.iter().map(OwnedFd::as_fd).collect();
        if socket.send(&out[..length], &borrowed).is_err() {
            break;
        }
    }
}

fn answer<'a>(
    shared: &Shared,
    (process, opened_last): (u32, Option<u32>),
    request: Request<'_>,
    descriptors: Vec<OwnedFd>,
) -> (Answer<'a>, Vec<OwnedFd>) {
    match request {
        Request::Hello { agent_thread, .. } => hello(shared, (process, agent_thread), descriptors),
        Request::Join {
            ticket_high,
            ticket_low,
        } => {
            let reserved = Answer::Reserved {
                reservation: 1,
                frames: 0,
                ticket_high,
                ticket_low,
            };
            (reserved, Vec::new())
        }
        Request::AddTask { .. } => (Answer::Made { handle: 1 }, Vec::new()),
        Request::OpenFile { .. } => open(shared, descriptors),
        Request::Map {
            object,
            address,
            first,
            pages,
            ..
        } => {
            let mut world = shared.lock();
            assert_eq!(object, OPENED_LAST, "the agent announces what it has just opened");
            let object = world.handles[opened_last.expect("an opened object") as usize].clone();
            assert!(first + pages <= object.pages, "a mapping inside its object");
            let space = world
                .spaces
                .iter_mut()
                .find(|space| space.process == Some(process) && space.client.is_some());
            space
                .expect("a client")
                .mappings
                .insert(address, Mapping { pages, first, object });
            (Answer::Made { handle: 1 }, Vec::new())
        }
        Request::Forked { .. } => forked(shared, process),
        _ => (Answer::Done {}, Vec::new()),
    }
}

fn hello<'a>(
    shared: &Shared,
    (process, agent_thread): (u32, u32),
    descriptors: Vec<OwnedFd>,
) -> (Answer<'a>, Vec<OwnedFd>) {
    let client = Client::new(agent_thread);
    let [channel, transfer] = client.handed.each_ref().map(|fd| fd.try_clone().expect("a descriptor"));
    let handed = vec![channel, transfer, client.event.try_clone().expect("a descriptor")];
    let mut world = shared.lock();
    world.counts.clients += 1;
    let mut descriptors = descriptors.into_iter();
    if let (Some(private), Some(shared)) = (descriptors.next(), descriptors.next()) {
        // A process that has become another program is another one.
        world.spaces.retain(|space| space.process != Some(process));
        world.spaces.push(Space {
            private: Arc::new(private),
            shared: Some(Arc::new(shared)),
            parent: None,
            process: Some(process),
            client: Some(client),
            pages: BTreeMap::new(),
            mappings: BTreeMap::new(),
            waiting: Vec::new(),
            ended: false,
        });
    } else {
        world.counts.children += 1;
        PENDING.lock().expect("children").insert(process, client);
    }
    drop(world);
    shared.ring();
    let welcome = Answer::Welcome {
        server: std::process::id(),
        transfer_pages: SLOTS,
        client: process,
    };
    (welcome, handed)
}

/// Forked children that have not said so yet.
static PENDING: Mutex<BTreeMap<u32, Client>> = Mutex::new(BTreeMap::new());

fn forked<'a>(shared: &Shared, process: u32) -> (Answer<'a>, Vec<OwnedFd>) {
    let mut world = shared.lock();
    let client = PENDING.lock().expect("children").remove(&process);
    let space = world.spaces.iter_mut().find(|space| space.process == Some(process));
    let (Some(space), Some(client)) = (space, client) else {
        let text = "no fork of this process was told";
        return (
            Answer::Refused {
                why: Refusal::Unknown,
                text,
            },
            Vec::new(),
        );
    };
    space.client = Some(client);
    let fds = [space.shared.as_ref().expect("both"), &space.private].map(|fd| fd.try_clone().expect("a descriptor"));
    (Answer::Done {}, fds.into())
}

fn open<'a>(shared: &Shared, descriptors: Vec<OwnedFd>) -> (Answer<'a>, Vec<OwnedFd>) {
    let file = File::from(descriptors.into_iter().next().expect("a file"));
    let status = file.metadata().expect("a file");
    let mut world = shared.lock();
    let key = (status.dev(), status.ino());
    let pages = u32::try_from(status.len().div_ceil(4096)).expect("a size");
    let object = world.objects.entry(key).or_insert_with(|| {
        Arc::new(Object {
            memory: kernel::memfd(c"file", u64::from(pages) * 4096),
            file,
            pages,
            filled: Mutex::new(vec![false; pages as usize]),
        })
    });
    let object = object.clone();
    world.handles.push(object.clone());
    let handle = u32::try_from(world.handles.len() - 1).expect("a handle");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&object.memory));
    let read_only = File::open(path).expect("a descriptor to read");
    let grant = Grant {
        first: 0,
        pages,
        descriptors: 1,
    };
    (Answer::Opened { object: handle, grant }, vec![read_only.into()])
}
