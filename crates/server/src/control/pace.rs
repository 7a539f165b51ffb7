//! Requests of a run in lockstep, which sets the pace of its server.

use super::refused::Refused;
use super::reply::Reply;
use super::session::Session;
use super::world::World;
use freehold_core::fact;
use freehold_core::units::PageIndex;
use freehold_protocol::message::{Refusal, Request};

impl Session {
    /// Meets one of them.
    pub(super) fn pace(&self, world: &World, request: &Request<'_>) -> Result<Reply, Refused> {
        let client = self.process()?;
        let mut engine = world.shared.engine();
        match *request {
            Request::SetPace { held } => engine.set_pace(client, held)?,
            Request::Stand { task } => {
                let (standing, orders) = engine.standing(client, self.grants.task(task)?)?;
                return Ok(Reply::Stands { standing, orders });
            }
            Request::LetGo { task } => engine.let_go(client, self.grants.task(task)?)?,
            Request::EndTransfer { object, page, eviction } => {
                let object = self.grants.object(object)?.key;
                let request = if eviction {
                    fact::Request::Evict
                } else {
                    fact::Request::Fill
                };
                engine.end_transfer(object, PageIndex::new(page), request)?;
                return Ok(Reply::Ended {
                    orders: engine.orders(client),
                });
            }
            _ => return Err(Refused::new(Refusal::State, "this request is not about the pace")),
        }
        Ok(Reply::Done(Vec::new()))
    }
}
