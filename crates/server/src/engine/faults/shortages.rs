//! What a program cannot be given is said where its user sees it, before it gets an error.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::faults::FaultMessage;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::orders::{About, Outstanding};
use crate::error::EngineError;
use freehold_protocol::channel::{Action, Shortage};

/// Of files that found no room in the tables.
const FILES: &str = "a file that a program maps is left to the kernel, outside every reservation: files may have \
                     half of the memory server's tables, and a larger pool has room for more (--pool, of a server \
                     of its own --reserve)";

/// Why private memory cannot be booked, for the program's user.
pub(in crate::engine) fn shortage_of(error: &EngineError) -> Shortage {
    match error {
        EngineError::Limit { what }
            if [crate::engine::objects::OF_ONE_USER, crate::engine::tasks::OF_ONE_USER].contains(what) =>
        {
            Shortage::User
        }
        EngineError::Limit { what } if *what == crate::engine::private_memory::booking::OF_A_CLIENT => {
            Shortage::Segments
        }
        _ => Shortage::Tables,
    }
}

impl Engine {
    /// What a thread waits for is not to be had: it gets an error, when the client's agent has said why.
    pub(in crate::engine) fn cannot_give(&mut self, fault: &FaultMessage, shortage: Shortage) {
        if !self.say(fault.client, fault.address, About::Error(*fault, shortage), shortage) {
            self.give_error(fault, shortage.text());
        }
    }

    /// A client ends, because there is no room for something that cannot be refused, when its agent has said why.
    pub(in crate::engine) fn no_room_to_live(&mut self, id: ClientId, shortage: Shortage) {
        let ends = |client: &Client| client.outbox.death().is_some();
        if self.client(id).is_some_and(ends) {
            return;
        }
        if !self.say(id, 0, About::Death(shortage), shortage) {
            self.expel(id, shortage.text());
        }
    }

    /// Whoever touches a page will get an error: the client's agent says why, of the first such page.
    pub(in crate::engine) fn say_lost(&mut self, id: ClientId, address: u64) {
        let shortage = Shortage::Content;
        let knows = |client: &Client| client.family.knows_of_loss;
        // Who has no agent finds it in the log.
        if !self.client(id).is_some_and(knows)
            && self.say(id, address, About::Loss(shortage), shortage)
            && let Some(client) = self.client_mut(id)
        {
            client.family.knows_of_loss = true;
        }
    }

    fn say(&mut self, id: ClientId, address: u64, about: About, shortage: Shortage) -> bool {
        if let Some(times) = self.journal.tally.shortages.get_mut(shortage.number() as usize) {
            *times += 1;
        }
        let since = self.step.now;
        let able = |client: &&mut Client| client.process.role == ClientRole::Program && client.has_agent();
        let Some(client) = self.client_mut(id).filter(able) else {
            return false;
        };
        client
            .outbox
            .order(Action::Tell, 1, Outstanding { about, address, since });
        self.announce_later(id);
        true
    }

    /// What was not to be had so far, and how often.
    pub(in crate::engine) fn shortages(&self) -> Vec<String> {
        let all = Shortage::ALL.iter().zip(&self.journal.tally.shortages);
        let all = all.filter(|(_, times)| **times > 0);
        let all = all.map(|(shortage, times)| (shortage.text(), *times));
        let files = Some((FILES, self.objects.files_left_out)).filter(|(_, times)| *times > 0);
        all.chain(files)
            .map(|(text, times)| format!("{text} ({times} times)"))
            .collect()
    }
}
