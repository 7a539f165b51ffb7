//! One context in the memory of a channel.

use super::ARGUMENTS;
use super::protocol::Request;
use crate::pi_word::{Owner, PiWord, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::atomic::AtomicU32 as Count;

/// Nobody calls.
pub(super) const IDLE: u32 = 0;
/// A request is there, or is being served.
pub(super) const CALLED: u32 = 1;
/// The result is there.
pub(super) const DONE: u32 = 2;

/// The bit of a doorbell that the callee's thread sleeps, or is about to.
const ASLEEP: u32 = 1;
/// A ring.
const RING: u32 = 2;

/// Zeros are a context without a callee.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Context {
    /// Whose turn it is among the callers.
    pub(super) claim: PiWord,
    /// Counts the times that a claim came out of use.
    claims: AtomicU32,
    /// The callee's thread owns it from before the request until after the result.
    pub(super) call: PiWord,
    /// Counts rings above its lowest bit, [`ASLEEP`]. The callee's thread sleeps on it.
    pub(super) doorbell: AtomicU32,
    pub(super) state: AtomicU32,
    /// The callee's thread; 0 where there is none.
    pub(super) callee: AtomicU32,
    function: AtomicU32,
    /// The job that the caller works for, as it says; 0 is none.
    job: AtomicU32,
    arguments: [AtomicU64; ARGUMENTS],
    result: AtomicU64,
    /// Counts calls that the callee had not ended at their callers' bounds.
    late: AtomicU32,
    /// The CPU on which the caller rang. It and the count are no part of the protocol, and no model steps through them.
    caller_cpu: Count,
    /// Counts calls that were served on another CPU than the caller's.
    cross_cpu: Count,
}

/// One claim of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    owner: Owner,
    number: u32,
}

impl Context {
    /// Who has claimed it, if anybody has.
    pub(super) fn claimed(&self) -> Option<Claimed> {
        // The number first: if it is the same later, then the owner has been the same since.
        let number = self.claims.load(Ordering::Acquire);
        match self.claim.state() {
            State::Owned(owner) => Some(Claimed { owner, number }),
            State::Free | State::Withdrawn => None,
        }
    }

    /// The claim that a wait was successful for, or that was taken from a dead caller, may have been a dead caller's.
    pub(super) fn arrived(&self) {
        if self.claimed().is_some_and(|claimed| claimed.owner.dead_before) {
            self.end_claim();
        }
    }

    /// Takes the claim from a caller that has ended with it, as the refusal of a wait tells. Others may have been told
    /// of the same end before.
    pub(super) fn take_claim_from_dead(&self, seen: Claimed, thread: u32) -> bool {
        let same = || self.claims.load(Ordering::Acquire) == seen.number;
        let taken = self.claim.take_from_dead(seen.owner, thread, same);
        if taken {
            self.end_claim();
        }
        taken
    }

    /// To be called before the claim is released, by who has it: nobody else counts then.
    pub(super) fn end_claim(&self) {
        let next = self.claims.load(Ordering::Relaxed).wrapping_add(1);
        self.claims.store(next, Ordering::Release);
    }

    /// Whether a request is there for the callee `own`. The word first: a request beside another's word is one that was
    /// made of a callee that has died, and its caller is told so.
    pub(super) fn is_called(&self, own: u32) -> bool {
        let handed = matches!(self.call.state(), State::Owned(owner) if owner.thread == own);
        handed && self.state.load(Ordering::Acquire) == CALLED
    }

    pub(super) fn put_request(&self, request: Request, job: u32) {
        self.job.store(job, Ordering::Relaxed);
        self.function.store(request.function, Ordering::Relaxed);
        for (cell, argument) in self.arguments.iter().zip(request.arguments) {
            cell.store(argument, Ordering::Relaxed);
        }
        self.state.store(CALLED, Ordering::Release);
    }

    /// What is asked for, and the job that it is for.
    pub(super) fn request(&self) -> (Request, u32) {
        let request = Request {
            function: self.function.load(Ordering::Relaxed),
            arguments: std::array::from_fn(|at| self.arguments[at].load(Ordering::Relaxed)),
        };
        (request, self.job.load(Ordering::Relaxed))
    }

    pub(super) fn put_result(&self, result: i64) {
        self.result.store(result.cast_unsigned(), Ordering::Relaxed);
        self.state.store(DONE, Ordering::Release);
    }

    /// Has the callee look again; whether its thread sleeps, and has to be woken. One that has been woken still looks
    /// after it has answered, often when it is called again already: then nobody is woken.
    #[must_use = "a callee that is not woken sleeps for ever"]
    pub(super) fn ring(&self) -> bool {
        self.doorbell.fetch_add(RING, Ordering::AcqRel) & ASLEEP != 0
    }

    /// For the callee, before it looks: it is awake. What [`Context::doze`] has to be told.
    pub(super) fn awake(&self) -> u32 {
        let heard = self.doorbell.load(Ordering::Acquire);
        if heard & ASLEEP == 0 {
            return heard;
        }
        self.doorbell.fetch_and(!ASLEEP, Ordering::AcqRel) & !ASLEEP
    }

    /// The callee found nothing, and goes to sleep while the doorbell is what is returned; `None` where somebody has
    /// called since it was `heard`. Both sides change one word, so that either sees the other.
    pub(super) fn doze(&self, heard: u32) -> Option<u32> {
        let asleep = heard | ASLEEP;
        let said = self
            .doorbell
            .compare_exchange(heard, asleep, Ordering::AcqRel, Ordering::Relaxed);
        said.is_ok().then_some(asleep)
    }

    /// What a callee that has died leaves: nobody to wait for. Another may have taken its place already. For who has
    /// the claim.
    pub(super) fn bury(&self, callee: u32) {
        self.call.reset();
        if self
            .callee
            .compare_exchange(callee, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            self.state.store(IDLE, Ordering::Release);
        }
    }

    /// Takes the claim for `thread` where it is of a thread that `lives` says is none of the caller's any more, or
    /// never was; whether it has, and is to release it. A caller that takes it from a dead one meanwhile keeps it.
    #[must_use = "a claim that is not released is waited for"]
    pub(super) fn take_stray_claim(&self, thread: u32, lives: impl FnOnce(u32) -> bool) -> bool {
        if self.claim.state() == State::Withdrawn {
            // No caller can have done that.
            let _ = self.claim.restore();
        }
        let stray = self.claimed().filter(|seen| !lives(seen.owner.thread));
        stray.is_some_and(|seen| self.take_claim_from_dead(seen, thread))
    }

    /// For the caller, before it rings.
    pub(super) fn note_caller_cpu(&self, cpu: u32) {
        self.caller_cpu.store(cpu, Ordering::Relaxed);
    }

    /// For the callee, when it begins to serve.
    pub(super) fn note_callee_cpu(&self, cpu: u32) {
        if self.caller_cpu.load(Ordering::Relaxed) != cpu {
            let next = self.cross_cpu.load(Ordering::Relaxed).wrapping_add(1);
            self.cross_cpu.store(next, Ordering::Relaxed);
        }
    }

    /// Calls that were served on another CPU than the caller's, around the wrap.
    pub(super) fn cross_cpu(&self) -> u32 {
        self.cross_cpu.load(Ordering::Relaxed)
    }

    /// A call has not ended at its caller's bound.
    pub(super) fn note_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have not, around the wrap.
    pub(super) fn late(&self) -> u32 {
        self.late.load(Ordering::Relaxed)
    }

    /// Whether a caller waits for the callee now.
    pub(super) fn is_waited_for(&self) -> bool {
        self.claimed().is_some() && self.state.load(Ordering::Relaxed) == CALLED
    }

    pub(super) fn result(&self) -> i64 {
        self.result.load(Ordering::Relaxed).cast_signed()
    }
}
