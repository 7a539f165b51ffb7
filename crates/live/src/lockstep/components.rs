//! Lockstep of components: real threads take, wait for and release real units in the order of a simulation. They really
//! block in the kernel, and at each release it must wake the thread that the simulator chose.

use freehold_linux::pi_word::Scope;
use freehold_linux::sched;
use freehold_linux::{PAGE_SIZE, ThreadId};
use freehold_sim::component::{KindModel, Model, Step, TransientOutcome};
use freehold_tmem::{Pool, PoolSettings, TakeError, job};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long anything may take that the simulator says happens.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the kernel has to wake a thread that is not told of.
const GRACE: Duration = Duration::from_millis(20);
/// The lowest real-time priority of a player: the conductor is none.
const LOWEST: u32 = 10;

/// What really happened in one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Requests whose wait is over, as the pool says.
    pub waits: u64,
    /// Waits that a holder's release ended: whom the kernel woke was told by the thread itself.
    pub handed_over: u64,
    /// Units that came.
    pub granted: u64,
    /// Units that went without their users' help.
    pub withdrawn: u64,
    /// Units in the pool, as it says itself.
    pub allocated: u32,
    /// Pages of units in memory, as the kernel says.
    pub resident: u64,
}

/// What a thread is told.
#[derive(Clone, Copy, Debug)]
enum Order {
    Take(usize),
    Release { cache: usize, unit: usize },
}

/// What it says when that is done: who it is, and the unit that it has, or had.
type Answer = (usize, Result<usize, String>);

struct ComponentThread {
    orders: Sender<Order>,
    number: u32,
}

/// Has real threads follow a simulation whose steps were kept; what really happened in each cache.
///
/// # Errors
/// The step at which they could not, and what happened instead.
pub fn follow(model: &Model, outcome: &TransientOutcome) -> Result<Vec<Followed>, (usize, String)> {
    let kinds = model.components.iter().flat_map(|component| component.kinds);
    let pools: Result<Vec<Pool>, String> = kinds.map(pool).collect();
    let pools = pools.map_err(|what| (0, what))?;
    let (answers, answered) = channel();
    let (pools, numbers) = (&pools, channel());
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (at, thread) in model.threads.iter().enumerate() {
            let (orders, received) = channel();
            let (answers, number, priority) = (answers.clone(), numbers.0.clone(), thread.priority);
            scope.spawn(move || {
                let ready = prepare(at, priority);
                let ready = number.send(ready.map(|()| ThreadId::current().get()));
                if ready.is_ok() {
                    play(at, pools, &received, &answers);
                }
            });
            let number = numbers.1.recv().unwrap_or_else(|_| Err("a thread ended".to_owned()));
            threads.push(ComponentThread {
                orders,
                number: number.map_err(|what| (0, what))?,
            });
        }
        let mut kernel = Kernel {
            pools,
            threads,
            answered,
            followed: vec![Followed::default(); pools.len()],
        };
        for (at, step) in outcome.steps.iter().enumerate() {
            kernel.perform(*step).map_err(|what| (at, what))?;
        }
        let end = outcome.steps.len();
        kernel.count().map_err(|what| (end, what))?;
        kernel
            .release_all(Left::of(&outcome.steps))
            .map_err(|what| (end, what))?;
        Ok(kernel.followed)
    })
}

fn pool(kind: KindModel) -> Result<Pool, String> {
    let settings = PoolSettings {
        component: 1,
        units: kind.most as usize,
        unit_bytes: kind.frames as usize * PAGE_SIZE,
        minimum: kind.minimum as usize,
        guard_pages: 0,
        bound: PATIENCE,
        scope: Scope::Shared,
    };
    let pool = Pool::create(settings).map_err(|error| error.to_string())?;
    for unit in 0..kind.most as usize {
        // Nobody uses the pool yet.
        let _ = pool.withdraw(unit);
    }
    let given = (0..kind.minimum as usize).all(|unit| pool.give(unit));
    if given {
        Ok(pool)
    } else {
        Err("no memory for a minimum".to_owned())
    }
}

/// A thread becomes a simulated one.
fn prepare(thread: usize, priority: u32) -> Result<(), String> {
    job::set(u32::try_from(thread + 1).unwrap_or(job::NONE));
    if priority == 0 {
        return Ok(());
    }
    let policy = sched::Policy::Fifo {
        // Priorities of scenarios are 1 to 99, of which the order counts.
        priority: (LOWEST + priority).min(99),
    };
    sched::set_policy(ThreadId::current(), policy)
        .map_err(|error| format!("real threads follow with their priorities: {error}"))
}

/// Does what it is told.
fn play(thread: usize, pools: &[Pool], orders: &Receiver<Order>, answers: &Sender<Answer>) {
    let mut starts = BTreeMap::new();
    for order in orders {
        let done = match order {
            Order::Take(cache) => take(&pools[cache], cache, &mut starts).map_err(|error| error.to_string()),
            Order::Release { cache, unit } => match starts.remove(&(cache, unit)) {
                Some(start) => {
                    let released = pools[cache].release(start as *const u8);
                    released.map(|()| unit).map_err(|errno| errno.to_string())
                }
                None => Err("it does not have the unit".to_owned()),
            },
        };
        if answers.send((thread, done)).is_err() {
            break;
        }
    }
}

fn take(pool: &Pool, cache: usize, starts: &mut BTreeMap<(usize, usize), usize>) -> Result<usize, TakeError> {
    let buffer = pool.take(1)?;
    let unit = buffer.id.unit();
    starts.insert((cache, unit), buffer.start.expose_provenance());
    Ok(unit)
}

/// Whether the kernel has the thread wait for a lock with priority inheritance.
fn is_blocked(number: u32) -> bool {
    const FUTEX: &str = "202";
    const LOCK_PI2: u64 = 13;
    let Ok(call) = std::fs::read_to_string(format!("/proc/self/task/{number}/syscall")) else {
        return false;
    };
    let mut fields = call.split(' ');
    let is_futex = fields.next() == Some(FUTEX);
    let operation = fields
        .nth(1)
        .and_then(|field| u64::from_str_radix(field.trim_start_matches("0x"), 16).ok());
    is_futex && operation.is_some_and(|operation| operation & 0x7f == LOCK_PI2)
}

/// Real threads, told what to do one after the other.
struct Kernel<'a> {
    pools: &'a [Pool],
    threads: Vec<ComponentThread>,
    answered: Receiver<Answer>,
    followed: Vec<Followed>,
}

impl Kernel<'_> {
    fn tell(&self, thread: usize, order: Order) -> Result<(), String> {
        let told = self.threads[thread].orders.send(order);
        told.map_err(|_| format!("thread {thread} has ended"))
    }

    /// What the next thread says that is done.
    fn next(&self) -> Result<(usize, usize), String> {
        let (thread, done) = self
            .answered
            .recv_timeout(PATIENCE)
            .map_err(|_| "no thread is done".to_owned())?;
        done.map(|unit| (thread, unit))
            .map_err(|what| format!("thread {thread}: {what}"))
    }

    /// Has a step done, and checks that it comes out as in the simulation.
    fn perform(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Take { thread, cache, unit } => {
                self.tell(thread, Order::Take(cache))?;
                same(step, self.next()?, (thread, unit))
            }
            Step::Wait { thread, cache, .. } => {
                self.tell(thread, Order::Take(cache))?;
                self.until_blocked(thread)
            }
            Step::HandOver {
                thread,
                cache,
                unit,
                to,
            } => {
                self.tell(thread, Order::Release { cache, unit })?;
                let mut both = [self.next()?, self.next()?];
                both.sort_by_key(|answer| answer.0 != thread);
                self.followed[cache].handed_over += 1;
                same(step, both[0], (thread, unit))?;
                same(step, both[1], (to, unit))
            }
            Step::Free { thread, cache, unit } => {
                self.tell(thread, Order::Release { cache, unit })?;
                same(step, self.next()?, (thread, unit))
            }
            Step::Withdraw { cache, unit } => {
                self.followed[cache].withdrawn += 1;
                happens(step, self.pools[cache].withdraw(unit))
            }
            Step::Relinquish { cache, unit, wanted } => {
                self.pools[cache].relinquish(unit, wanted);
                Ok(())
            }
            Step::Give { cache, unit } => {
                self.followed[cache].granted += 1;
                happens(step, self.pools[cache].give(unit))
            }
        }
    }

    fn until_blocked(&self, thread: usize) -> Result<(), String> {
        let began = Instant::now();
        while !is_blocked(self.threads[thread].number) {
            if began.elapsed() > PATIENCE {
                return Err(format!("thread {thread} does not block in the kernel"));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// What pools and kernel say at the end. Nobody may have more than the simulator gave.
    fn count(&mut self) -> Result<(), String> {
        if let Ok((thread, _)) = self.answered.try_recv() {
            return Err(format!("thread {thread} has a unit that the simulator gave nobody"));
        }
        for (pool, followed) in self.pools.iter().zip(&mut self.followed) {
            for unit in 0..pool.settings().units {
                // Units that their users gave up are out of the pool, their memory is dropped here.
                pool.drop_withdrawn(unit);
            }
            followed.allocated = pool.allocated();
            followed.waits = pool.waiting().1;
            followed.resident = pool.resident().map_err(|error| error.to_string())? as u64;
        }
        Ok(())
    }

    /// Threads that still wait when the simulation ends get their units from who has them.
    fn release_all(&self, mut left: Left) -> Result<(), String> {
        while let Some((thread, cache, unit)) = left.holders.pop() {
            self.tell(thread, Order::Release { cache, unit })?;
            let mut answer = self.next()?;
            while answer.0 != thread {
                left.note(answer);
                answer = self.next()?;
            }
            while let Ok((thread, Ok(unit))) = self.answered.recv_timeout(GRACE) {
                left.note((thread, unit));
            }
        }
        Ok(())
    }
}

fn same(step: Step, found: (usize, usize), expected: (usize, usize)) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{step:?}: thread {} has unit {}", found.0, found.1))
}

fn happens(step: Step, done: bool) -> Result<(), String> {
    if done {
        Ok(())
    } else {
        Err(format!("{step:?} cannot be done"))
    }
}

/// Who has what at the end, and who waits.
struct Left {
    holders: Vec<(usize, usize, usize)>,
    waits: Vec<(usize, usize)>,
}

impl Left {
    fn of(steps: &[Step]) -> Self {
        let mut left = Self {
            holders: Vec::new(),
            waits: Vec::new(),
        };
        for step in steps {
            match *step {
                Step::Take { thread, cache, unit } => left.holders.push((thread, cache, unit)),
                Step::Wait { thread, cache, .. } => left.waits.push((thread, cache)),
                Step::HandOver {
                    thread,
                    cache,
                    unit,
                    to,
                } => {
                    left.holders.retain(|holder| *holder != (thread, cache, unit));
                    left.waits.retain(|wait| wait.0 != to);
                    left.holders.push((to, cache, unit));
                }
                Step::Free { thread, cache, unit } => left.holders.retain(|holder| *holder != (thread, cache, unit)),
                Step::Withdraw { .. } | Step::Relinquish { .. } | Step::Give { .. } => {}
            }
        }
        left
    }

    fn note(&mut self, (thread, unit): (usize, usize)) {
        if let Some(at) = self.waits.iter().position(|wait| wait.0 == thread) {
            let (_, cache) = self.waits.remove(at);
            self.holders.push((thread, cache, unit));
        }
    }
}
