//! Setting the pace of a server that was started for one run in lockstep.

use freehold_protocol::message::{Answer, Request, Standing};

use crate::connection::Connection;
use crate::error::RequestError;
use crate::region::Region;
use crate::task::Task;

/// How a task's thread stands, and what its connection's agent has still to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stands {
    /// How.
    pub standing: Standing,
    /// Orders of the server that the agent has not carried out.
    pub orders: u32,
}

impl Connection {
    /// From now on transfers end, and threads that waited go on, when this connection says so; or no longer.
    ///
    /// # Errors
    /// See [`RequestError`]; refused by every server but one that was started for a run in lockstep.
    pub fn set_pace(&self, held: bool) -> Result<(), RequestError> {
        self.link().ask_done(&Request::SetPace { held })
    }
}

impl Task {
    /// How its thread stands.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn stands(&self) -> Result<Stands, RequestError> {
        let (link, task) = self.place();
        link.ask(&Request::Stand { task }, &[], |answer, _| match answer {
            Answer::Stands { standing, orders } => Some(Stands { standing, orders }),
            _ => None,
        })
    }

    /// Lets its thread go on, whose fault is over.
    ///
    /// # Errors
    /// See [`RequestError`]; refused where it does not wait for that.
    pub fn let_go(&self) -> Result<(), RequestError> {
        let (link, task) = self.place();
        link.ask_done(&Request::LetGo { task })
    }
}

impl Region {
    /// Ends a transfer of a page: its eviction, or its fill. How many orders of the server the agent has not carried
    /// out.
    ///
    /// # Errors
    /// See [`RequestError`]; refused where none such is under way, or not yet.
    pub fn end_transfer(&self, page: u32, eviction: bool) -> Result<u32, RequestError> {
        let object = self.handle();
        let request = Request::EndTransfer { object, page, eviction };
        self.link().ask(&request, &[], |answer, _| match answer {
            Answer::Ended { orders } => Some(orders),
            _ => None,
        })
    }
}
