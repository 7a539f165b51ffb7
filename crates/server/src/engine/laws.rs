//! The engine's own law, beside the core's: what it holds of private pages adds up.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::ClientId;
use crate::engine::objects::Content;
use crate::engine::orders::About;
use crate::engine::private_memory::Where;
use crate::engine::tasks::Pending;
use freehold_core::units::PageIndex;
use freehold_core::view::PageState;

impl Engine {
    /// Checks that slots in use are those of pages in them or of orders under way, that each order has a page that
    /// leaves, that pages counted in clients are those that are there, and that what the core has in no frame the
    /// engine has in none. O(everything).
    ///
    /// # Errors
    /// What does not add up.
    pub fn check_laws(&self) -> Result<(), String> {
        self.check_waits()?;
        self.check_victims()?;
        for (_, client) in self.clients.iter() {
            let places = self.count_places(client)?;
            check_counts(client, &places)?;
            client.memory.bookings.check()?;
        }
        Ok(())
    }

    /// Where a client's private pages are, each where the core lets it be.
    fn count_places(&self, client: &Client) -> Result<Places, String> {
        let mut places = Places::default();
        for object in self.objects.iter().flatten() {
            let Content::Private {
                client: owner, pages, ..
            } = &object.content
            else {
                continue;
            };
            if *owner != client.id {
                continue;
            }
            for (at, place) in (0..).zip(pages) {
                match place {
                    Where::Slot(_) => places.slots += 1,
                    Where::Client => places.inside += 1,
                    Where::Leaving => {
                        places.inside += 1;
                        places.leaving += 1;
                    }
                    Where::Lent => {
                        places.inside += 1;
                        places.lent += 1;
                    }
                    Where::Blank => places.blank += 1,
                    Where::Nowhere => {}
                }
                let page = self.core.page(object.id, PageIndex::new(at));
                let state = page.map(|page| page.state);
                let absent = matches!(state, Some(PageState::Empty | PageState::Stored));
                if state.is_some() && !absent && *place == Where::Lent {
                    return Err(format!("page {at} is lent, and {state:?} to the core"));
                }
                if absent && *place != Where::Lent && *place != Where::Nowhere && *place != Where::Leaving {
                    return Err(format!("page {at} is {place:?}, but {state:?} to the core"));
                }
            }
        }
        Ok(places)
    }

    /// Checks that whoever waits has somebody to wake him: a page that is granted comes when an order is answered that
    /// is under way, one that is to be brought when a hole is there that is being made; what was put off is looked at
    /// again by the client that it is of. O(tasks).
    pub(super) fn check_waits(&self) -> Result<(), String> {
        self.backing.holes.check()?;
        for (_, task) in self.tasks.iter() {
            let granted = |pending: &Pending| pending.mapped.is_some();
            for pending in task
                .wait_slots
                .iter()
                .filter_map(|wait_slot| wait_slot.pending)
                .filter(granted)
            {
                // Whoever waited in a process that has ended waits no more.
                let alive = self.client(pending.fault.client).filter(|client| !client.family.gone);
                let Some(client) = alive else { continue };
                let address = pending.fault.address & !(crate::PAGE - 1);
                let ordered = client.outbox.takes_from(address)
                    || client.outbox.follow(pending.object, pending.page.get()).is_some();
                if !ordered {
                    return Err(format!("{pending:?} waits for an order that is not under way"));
                }
            }
        }
        for (_, client) in self
            .clients
            .iter()
            .filter(|(_, client)| !client.waiting.deferred.is_empty())
        {
            if !self.clients.deferred.contains(&client.id) {
                return Err(format!("faults of process {} are put off for good", client.process.pid));
            }
        }
        Ok(())
    }

    /// Objects that are there, private memory and what waits for its last transfer included.
    #[must_use]
    pub fn objects_in_use(&self) -> usize {
        self.objects.iter().flatten().count()
    }

    /// A client in a few lines, for who looks for what it waits for.
    #[must_use]
    pub fn describe(&self, id: ClientId) -> String {
        let Some(client) = self.client(id) else {
            return "the client is gone".to_owned();
        };
        let mut text = format!(
            "process {}: {} resident, {} slots, parked {:?}, deferred {:?}\n",
            client.process.pid,
            client.memory.resident,
            client.slots.taken(),
            client.waiting.parked,
            client.waiting.deferred
        );
        for order in client.outbox.outstanding() {
            text.push_str(&format!("order {order:?}\n"));
        }
        for (_, task) in self.tasks.iter().filter(|(_, task)| task.client == id) {
            text.push_str(&format!("task {}: queued {:?}\n", task.name, task.queued));
            for pending in task.wait_slots.iter().filter_map(|wait_slot| wait_slot.pending) {
                let page = self.core.page(pending.object, pending.page);
                text.push_str(&format!("  waits {pending:?}: {page:?}\n"));
            }
        }
        text
    }
}

/// How many private pages of a client are where.
#[derive(Debug, Default)]
struct Places {
    slots: usize,
    /// In its page table.
    inside: u64,
    leaving: usize,
    blank: u64,
    lent: u64,
}

/// Checks that what a client's row counts is there.
fn check_counts(client: &Client, places: &Places) -> Result<(), String> {
    let Places {
        slots,
        inside,
        leaving,
        blank,
        lent,
    } = *places;
    let orders = || client.outbox.outstanding().map(|order| order.about);
    let private = orders().filter(|about| matches!(about, About::Private { .. })).count();
    let ordered = orders()
        .filter(|about| matches!(about, About::Private { slot: Some(_), .. }))
        .count();
    let taken = client.slots.taken() as usize;
    if slots + ordered != taken {
        return Err(format!(
            "{slots} pages in slots and {ordered} on their way, but {taken} slots taken"
        ));
    }
    if private != leaving {
        return Err(format!("{leaving} pages leave, but {private} orders are under way"));
    }
    if blank != client.memory.blank {
        return Err(format!(
            "{blank} pages in no frame, but {} counted",
            client.memory.blank
        ));
    }
    if lent != client.memory.lent.count() {
        return Err(format!(
            "{lent} pages are lent, but {} counted",
            client.memory.lent.count()
        ));
    }
    if inside != client.memory.resident {
        return Err(format!(
            "{inside} pages in the client, but {} counted",
            client.memory.resident
        ));
    }
    Ok(())
}
