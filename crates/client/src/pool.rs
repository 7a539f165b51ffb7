//! Pinned page pools: Adaptive Page Pinning for a periodic program without a reservation.

use std::sync::Arc;
use std::time::Duration;

use freehold_protocol::message::{Answer, JobReport, Judgement, PageCount, PinningSettings, Request};

use crate::error::RequestError;
use crate::link::Link;
use crate::reservation::{Reservation, Ticket};

/// What follows from a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedJob {
    /// Capacity and swap budget from now on, and why.
    pub judgement: Judgement,
    /// Pages pinned now.
    pub pinned: PageCount,
    /// Pages brought back before releases so far.
    pub restored: u64,
}

/// A pinned page pool that this connection holds. It closes when this and all tasks in it are gone.
#[derive(Debug)]
pub struct PinnedPool {
    /// A handle and a ticket, as a reservation has; without frames.
    held: Reservation,
}

impl PinnedPool {
    pub(crate) fn open(link: &Arc<Link>, name: &str, settings: PinningSettings) -> Result<Self, RequestError> {
        let held = Reservation::ask(link, &Request::OpenPool { name, settings })?;
        Ok(Self { held })
    }

    /// What lets the program whose pages it pins join it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.ticket()
    }

    /// Tells the server that a job has ended, and waits for what follows. `next_release`: when the next job is
    /// released, by `CLOCK_MONOTONIC`, if that is known and still to come: until then pages are brought back, where the
    /// pool was opened for that.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn judge(&self, job: &JobReport, next_release: Option<Duration>) -> Result<JudgedJob, RequestError> {
        let next_release = next_release.unwrap_or_default().as_nanos();
        let request = Request::ReportJob {
            pool: self.held.held.handle,
            job: *job,
            next_release: u64::try_from(next_release).unwrap_or(u64::MAX),
        };
        self.held.held.link.ask(&request, &[], |answer, _| match answer {
            Answer::Judged {
                judgement,
                pinned,
                restored,
            } => Some(JudgedJob {
                judgement,
                pinned,
                restored,
            }),
            _ => None,
        })
    }
}
