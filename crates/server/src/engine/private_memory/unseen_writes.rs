//! Private pages that are written, or may be, without a fault of the program.
//!
//! The core has a page written to the store before it leaves if the program has faulted to write it. But the agent's
//! own thread makes pages writable, which it needs to have to itself before the kernel moves them, and brings back
//! pages that could not be stored: from then on the program writes to them unseen.

use crate::engine::Engine;
use crate::engine::faults::fault_completion::Installed;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::orders::{About, Follow};
use crate::engine::private_memory::Where;
use freehold_core::fact::{PageRef, Request};
use freehold_driver::{End, Ended};

impl Engine {
    /// The agent's own thread must never wait for the core: whatever is there is mapped at once.
    pub(in crate::engine) fn serve_agent(&mut self, fault: &FaultMessage) {
        let installed = match fault.which {
            Which::Private => {
                self.note_writable(fault);
                self.install(fault, Where::Blank, true)
            }
            Which::Shared => Installed::Gone,
        };
        match installed {
            Installed::Yes => {}
            // A fork of its program is being told of. Nobody else would come back to it: whoever is given pages by
            // the fork waits for what this thread is about to surrender.
            Installed::Later => self.defer(*fault),
            Installed::Gone => self.notice("an agent waits for its client's memory"),
        }
    }

    /// The agent is about to make a page writable, to carry out an order.
    fn note_writable(&mut self, fault: &FaultMessage) {
        let Some(client) = self.client(fault.client) else {
            return;
        };
        let address = fault.address & !(crate::PAGE - 1);
        let ordered = client.outbox.outstanding().find_map(|order| match order.about {
            About::Private { page, follow, .. } if order.address == address => Some((page, follow)),
            _ => None,
        });
        if let Some((page, follow)) = ordered {
            let after = self.note_written(page, follow);
            self.change_follow(page, |follow| *follow = after);
        }
    }

    /// A page for which there is an order may have been written: an eviction that would lose that is called off. What
    /// follows on the order now.
    pub(super) fn note_written(&mut self, page: PageRef, follow: Follow) -> Follow {
        let called_off = follow == Follow::Discard;
        if called_off {
            self.tell(Ended {
                page,
                request: Request::Evict,
                end: End::Kept,
            });
            self.drain();
        }
        self.core.handle_written(page.object(), page.page());
        if called_off { Follow::Demote } else { follow }
    }
}
