//! The thread that sleeps until the server is gone.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use freehold_linux::event::Event;
use freehold_linux::peer_exit::{self, Noticed};

use crate::agent::Table;
use crate::link::Link;

/// The watching thread; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Watch {
    event: Arc<Event>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    owner: u32,
}

impl Watch {
    /// Starts the thread. When the server goes while anything is mapped, it ends the process.
    pub(crate) fn start(link: &Arc<Link>, table: &Arc<Table>, server: u32) -> Result<Self, std::io::Error> {
        let event = Arc::new(Event::new()?);
        let (link, table, heard) = (Arc::clone(link), Arc::clone(table), Arc::clone(&event));
        let thread = std::thread::Builder::new()
            .name("freehold-watch".to_owned())
            .stack_size(64 << 10)
            .spawn(move || {
                let noticed = peer_exit::wait(link.as_fd(), &heard);
                if noticed == Ok(Noticed::Hangup) && table.close() {
                    peer_exit::end_process(&format!(
                        "freehold: the memory server (process {server}) is gone: pages of this process cannot be \
                         brought any more, so it ends\n"
                    ));
                }
            })?;
        Ok(Self {
            event,
            thread: Some(thread),
            owner: std::process::id(),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::process::id() != self.owner {
            // A child of a fork has not got the thread.
            std::mem::forget(self.thread.take());
            return;
        }
        self.event.signal(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
