//! A message for five processes in turn. It is written once and published to all; each looks at it when its event
//! comes, then tells the next one, and the last tells the caller. Nothing is copied.

use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use crate::own::{OwnNode, Run, node};
use crate::{Outcome, answer};

const MESSAGE: usize = 64 << 10;
const STAGES: usize = 5;
/// Look at the message, and pass it on.
const PASS: EventId = EventId::new(1);
/// Pass this on, and end.
const END: EventId = EventId::new(2);
/// How long a stage waits before it looks whether its caller still lives.
const LOOK: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

type Messages = PortFactory<ipc::Service, [u8], ()>;

/// Sends messages through all stages.
pub(crate) fn caller() -> Outcome<()> {
    let run = Run::new();
    let node = node(&run.0)?;
    let messages = messages(&node)?;
    let publisher = messages.publisher_builder().initial_max_slice_len(MESSAGE).create()?;
    let mut back = listener(&node, 0)?;
    let mut stages = Stages::start(&run.0)?;
    let began = Instant::now();
    while messages.dynamic_config().number_of_subscribers() < STAGES {
        if began.elapsed() > PATIENCE {
            return Err("the stages do not come".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let first = notifier(&node, 1)?;
    let message = vec![7; MESSAGE];
    let mut pass = || pass(&publisher, &message, &first, &mut back);
    // At the first message each process finds out what it is connected with.
    pass()?;
    answer(pass)?;
    first.notify_with_custom_event_id(END)?;
    stages.end()
}

fn pass(
    publisher: &Publisher<ipc::Service, [u8], ()>,
    message: &[u8],
    first: &Notifier<ipc::Service>,
    back: &mut Listener<ipc::Service>,
) -> Outcome<()> {
    let buffer = publisher.loan_slice_uninit(MESSAGE)?;
    let told = buffer.write_from_slice(message).send()?;
    if told != STAGES {
        return Err(format!("{told} of {STAGES} stages were sent the message").into());
    }
    first.notify_with_custom_event_id(PASS)?;
    match wait(back, PATIENCE)? {
        Some(PASS) => Ok(()),
        _ => Err("the message did not come through".into()),
    }
}

/// One process that the message passes.
pub(crate) fn stage(run: &str, at: usize) -> Outcome<()> {
    let (node, parent) = (node(run)?, parent_id());
    let mut own = listener(&node, at)?;
    let next = (at + 1) % (STAGES + 1);
    let messages = messages(&node)?.subscriber_builder().create()?;
    // Made when the first event comes: the next stage may begin later than this one.
    let mut notifier_of_next = None;
    loop {
        let Some(event) = wait(&mut own, LOOK)? else {
            if parent_id() != parent {
                return Ok(());
            }
            continue;
        };
        let notifier = match &mut notifier_of_next {
            Some(notifier) => notifier,
            absent => absent.insert(notifier(&node, next)?),
        };
        if event == END {
            if next != 0 {
                notifier.notify_with_custom_event_id(END)?;
            }
            return Ok(());
        }
        let message = messages.receive()?.ok_or("an event without a message")?;
        if message.payload().len() != MESSAGE || message.payload()[0] != 7 {
            return Err("another message than was sent".into());
        }
        drop(message);
        notifier.notify_with_custom_event_id(PASS)?;
    }
}

fn messages(node: &OwnNode) -> Outcome<Messages> {
    let service = node
        .service_builder(&"messages".try_into()?)
        .publish_subscribe::<[u8]>()
        .max_publishers(1)
        .max_subscribers(STAGES);
    Ok(service.open_or_create()?)
}

fn listener(node: &OwnNode, at: usize) -> Outcome<Listener<ipc::Service>> {
    let name = format!("stage-{at}");
    let service = node.service_builder(&name.as_str().try_into()?).event();
    Ok(service.open_or_create()?.listener_builder().create()?)
}

fn notifier(node: &OwnNode, at: usize) -> Outcome<Notifier<ipc::Service>> {
    let name = format!("stage-{at}");
    let service = node.service_builder(&name.as_str().try_into()?).event();
    Ok(service.open_or_create()?.notifier_builder().create()?)
}

/// The last event that came, if one did.
fn wait(listener: &mut Listener<ipc::Service>, patience: Duration) -> Outcome<Option<EventId>> {
    let mut event = None;
    listener.timed_wait(|activation| event = Some(activation.id), patience)?;
    Ok(event)
}

/// The processes, ended with this.
struct Stages(Vec<Child>);

impl Stages {
    fn start(run: &str) -> Outcome<Self> {
        let mut stages = Self(Vec::new());
        for at in 1..=STAGES {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["stage", run, &at.to_string()]).stdin(Stdio::null());
            // Standard output is for answers.
            stages.0.push(command.stdout(Stdio::null()).spawn()?);
        }
        Ok(stages)
    }

    /// Waits until all have ended: each takes with it what it has in shared memory.
    fn end(&mut self) -> Outcome<()> {
        for mut stage in self.0.drain(..) {
            stage.wait()?;
        }
        Ok(())
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        for mut stage in self.0.drain(..) {
            let _ = stage.kill();
            let _ = stage.wait();
        }
    }
}
