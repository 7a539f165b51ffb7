//! The callee's side.

use super::context::{CALLED, Context, IDLE};
use super::{ARGUMENTS, Channel};
use crate::job;
use crate::pool::Pool;
use crate::stack::with_stack;
use freehold_linux::pi_word::{Scope, unlock};
use freehold_linux::{Errno, ThreadId, futex, service};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// What a caller asks for. All of it is the caller's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The function's number.
    pub function: u32,
    /// Its arguments.
    pub arguments: [u64; ARGUMENTS],
}

type Handler = dyn Fn(Request) -> i64 + Send + Sync;

struct Shared {
    channel: Channel,
    stacks: Arc<Pool>,
    handler: Box<Handler>,
    stop: AtomicBool,
    served: AtomicU64,
}

/// The callee's side of a channel: a thread for each context. Dropping it lets them end their calls.
pub struct Callee {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
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
        let shared = Arc::new(Shared {
            channel,
            stacks,
            handler: Box::new(handler),
            stop: AtomicBool::new(false),
            served: AtomicU64::new(0),
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
        self.shared.served.load(Ordering::Relaxed)
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for context in self.shared.channel.all() {
            context.bell.fetch_add(1, Ordering::Release);
            futex::wake_shared(&context.bell, u32::MAX);
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

fn serve(shared: &Shared, context: usize) {
    let context = &shared.channel.all()[context];
    let own = ThreadId::current().get();
    // A callee before this one has died: what it left is nobody's.
    context.state.store(IDLE, Ordering::Relaxed);
    context.callee.store(own, Ordering::Release);
    loop {
        let before = context.bell.load(Ordering::Acquire);
        if context.state.load(Ordering::Acquire) == CALLED {
            serve_one(shared, context, own);
        } else if shared.stop.load(Ordering::Acquire) {
            break;
        } else {
            // Its end has no other cause than a ring, a signal, or memory that is gone with the process.
            let _ = futex::wait_shared(&context.bell, before, None);
        }
    }
    context.callee.store(0, Ordering::Release);
}

fn serve_one(shared: &Shared, context: &Context, own: u32) {
    let (function, arguments) = context.request();
    let request = Request { function, arguments };
    job::set(context.job());
    let result = with_stack(&shared.stacks, || abort_on_panic(|| (shared.handler)(request)));
    context.put_result(result.unwrap_or_else(|error| -i64::from(crate::capi::take_errno(error))));
    job::set(job::NONE);
    shared.served.fetch_add(1, Ordering::Relaxed);
    if !context.call.release(own) {
        // The caller waits. One that has overwritten the word waits for whom it named.
        let _: Result<(), Errno> = unlock(context.call.raw(), Scope::Shared);
    }
}

fn abort_on_panic<T>(work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::abort())
}
