//! The callee's side.

use super::Channel;
use super::protocol::{self, Request};
use super::system::System;
use crate::job;
use crate::pool::Pool;
use crate::stack::with_stack;
use freehold_linux::thread::Thread;
use freehold_linux::{ThreadId, futex, service};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Handler = dyn Fn(Request) -> i64 + Send + Sync;

struct Shared {
    channel: Channel,
    stacks: Arc<Pool>,
    handler: Box<Handler>,
    stop: AtomicBool,
    /// Of each context, counted by its thread alone.
    served: Box<[AtomicU64]>,
}

/// The callee's side of a channel: a thread for each context. Dropping it lets them end their calls.
pub struct Callee {
    shared: Arc<Shared>,
    threads: Vec<Thread<()>>,
}

impl Callee {
    /// Serves the channel with `handler`, each call on a stack of the pool. A request that gets no stack is answered
    /// with the negative error of [`Pool::take`]; a handler that panics ends the process, as its caller's callee died.
    ///
    /// # Errors
    /// The system's refusal of a thread.
    pub fn start(
        name: &str,
        channel: Channel,
        stacks: Arc<Pool>,
        handler: impl Fn(Request) -> i64 + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let served = (0..channel.contexts()).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared {
            channel,
            stacks,
            handler: Box::new(handler),
            stop: AtomicBool::new(false),
            served,
        });
        let mut callee = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for context in 0..shared.channel.contexts() {
            let shared = Arc::clone(&shared);
            let thread = service::spawn(name, move || serve(&shared, context))?;
            callee.threads.push(thread);
        }
        // A caller that comes before a thread would find no callee.
        let contexts = callee.shared.channel.all();
        while contexts
            .iter()
            .any(|context| context.callee.load(Ordering::Acquire) == 0)
        {
            std::thread::yield_now();
        }
        Ok(callee)
    }

    /// Calls that were served.
    #[must_use]
    pub fn served(&self) -> u64 {
        let served = self.shared.served.iter();
        served.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for context in self.shared.channel.all() {
            if context.ring() {
                futex::wake_shared(&context.doorbell, u32::MAX);
            }
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Callee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callee")
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

fn serve(shared: &Shared, number: usize) {
    let (context, served) = (&shared.channel.all()[number], &shared.served[number]);
    let stop = || shared.stop.load(Ordering::Acquire);
    let own = ThreadId::current().get();
    protocol::serve(context, own, &System::without_bound(), stop, |request, job| {
        let result = work(shared, request, job);
        served.store(served.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        result
    });
}

fn work(shared: &Shared, request: Request, job: u32) -> i64 {
    job::set(job);
    let result = with_stack(&shared.stacks, || abort_on_panic(|| (shared.handler)(request)));
    job::set(job::NONE);
    result.unwrap_or_else(|error| -i64::from(crate::capi::take_errno(error)))
}

fn abort_on_panic<T>(work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::abort())
}
