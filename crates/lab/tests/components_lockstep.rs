//! Lockstep of components: real threads take, wait for and release real units in the order of a simulation. They really
//! block in the kernel, and at each release it must wake the thread that the simulator chose.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_core::transient::Policy;
use freehold_linux::pi_word::Scope;
use freehold_linux::sched;
use freehold_linux::{PAGE_SIZE, ThreadId};
use freehold_sim::component::{
    ComponentModel, KindModel, Model, Step, ThreadModel, TransientOptions, TransientOutcome, best_effort,
    simulate_components,
};
use freehold_tmem::{Pool, PoolSettings, job};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// What a thread is told.
#[derive(Clone, Copy, Debug)]
enum Order {
    Take(usize),
    Release { cache: usize, unit: usize },
}

/// What it says when that is done: the unit that it has, or had.
type Answer = (usize, usize);

struct Player {
    orders: Sender<Order>,
    number: u32,
}

fn pool(kind: KindModel) -> Pool {
    let settings = PoolSettings {
        component: 1,
        units: kind.most as usize,
        unit_bytes: PAGE_SIZE,
        minimum: kind.minimum as usize,
        guard_pages: 0,
        bound: PATIENCE,
        scope: Scope::Shared,
    };
    let pool = Pool::create(settings).unwrap();
    for unit in kind.minimum..kind.most {
        assert!(pool.withdraw(unit as usize));
    }
    pool
}

/// Does what it is told, with the priority of a simulated thread.
fn play(thread: usize, priority: u32, pools: &[Pool], orders: &Receiver<Order>, answers: &Sender<Answer>) {
    job::set(u32::try_from(thread + 1).unwrap());
    if priority > 0 {
        let policy = sched::Policy::Fifo {
            priority: 10 + priority,
        };
        sched::set_policy(ThreadId::current(), policy).unwrap();
    }
    let mut starts = std::collections::BTreeMap::new();
    for order in orders {
        let unit = match order {
            Order::Take(cache) => {
                let buffer = pools[cache].take(1).unwrap();
                let unit = usize::try_from(buffer.id.raw() >> 24 & 0xff_ffff).unwrap();
                starts.insert((cache, unit), buffer.start);
                unit
            }
            Order::Release { cache, unit } => {
                pools[cache].release(starts.remove(&(cache, unit)).unwrap()).unwrap();
                unit
            }
        };
        answers.send((thread, unit)).unwrap();
    }
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
struct Stage<'a> {
    pools: &'a [Pool],
    players: Vec<Player>,
    answered: Receiver<Answer>,
}

impl Stage<'_> {
    fn tell(&self, thread: usize, order: Order) {
        self.players[thread].orders.send(order).unwrap();
    }

    fn next(&self) -> Answer {
        self.answered.recv_timeout(PATIENCE).unwrap()
    }

    /// Has a step done, and checks that it comes out as in the simulation.
    fn perform(&self, at: usize, step: Step) {
        match step {
            Step::Take { thread, cache, unit } => {
                self.tell(thread, Order::Take(cache));
                assert_eq!(self.next(), (thread, unit), "step {at}: {step:?}");
            }
            Step::Wait { thread, cache, .. } => {
                self.tell(thread, Order::Take(cache));
                let began = Instant::now();
                while !is_blocked(self.players[thread].number) {
                    assert!(began.elapsed() < PATIENCE, "step {at}: {step:?} does not block");
                    std::thread::yield_now();
                }
            }
            Step::HandOver {
                thread,
                cache,
                unit,
                to,
            } => {
                self.tell(thread, Order::Release { cache, unit });
                let mut both = [self.next(), self.next()];
                both.sort_by_key(|answer| answer.0 != thread);
                assert_eq!(both, [(thread, unit), (to, unit)], "step {at}: {step:?}");
            }
            Step::Free { thread, cache, unit } => {
                self.tell(thread, Order::Release { cache, unit });
                assert_eq!(self.next(), (thread, unit), "step {at}: {step:?}");
            }
            Step::Withdraw { cache, unit } => assert!(self.pools[cache].withdraw(unit), "step {at}: {step:?}"),
            Step::Relinquish { cache, unit, wanted } => self.pools[cache].relinquish(unit, wanted),
            Step::Give { cache, unit } => assert!(self.pools[cache].give(unit), "step {at}: {step:?}"),
        }
    }

    /// Threads that still wait when the simulation ends get their units from who has them.
    fn release_all(&self, mut left: Left) {
        while let Some((thread, cache, unit)) = left.holders.pop() {
            self.tell(thread, Order::Release { cache, unit });
            let mut answer = self.next();
            while answer.0 != thread {
                left.note(answer);
                answer = self.next();
            }
            while let Ok(answer) = self.answered.recv_timeout(Duration::from_millis(20)) {
                left.note(answer);
            }
        }
    }
}

/// Runs all steps with real threads; how many waits there were.
fn conduct(model: &Model, outcome: &TransientOutcome) -> usize {
    let kinds = model.components.iter().flat_map(|component| component.kinds);
    let pools: Vec<Pool> = kinds.map(pool).collect();
    let (answers, answered) = channel();
    std::thread::scope(|scope| {
        let (pools, numbers) = (&pools, channel());
        let player = |(at, thread): (usize, &ThreadModel)| {
            let (orders, received) = channel();
            let (answers, number, priority) = (answers.clone(), numbers.0.clone(), thread.priority);
            scope.spawn(move || {
                number.send(ThreadId::current().get()).unwrap();
                play(at, priority, pools, &received, &answers);
            });
            let number = numbers.1.recv().unwrap();
            Player { orders, number }
        };
        let stage = Stage {
            pools,
            players: model.threads.iter().enumerate().map(player).collect(),
            answered,
        };
        for (at, step) in outcome.steps.iter().enumerate() {
            stage.perform(at, *step);
        }
        assert!(
            stage.answered.try_recv().is_err(),
            "nobody has more than the simulator gave"
        );
        check_counts(pools, outcome);
        stage.release_all(open_waits(&outcome.steps));
    });
    let waits = outcome.steps.iter().filter(|step| matches!(step, Step::Wait { .. }));
    waits.count()
}

fn check_counts(pools: &[Pool], outcome: &TransientOutcome) {
    for (at, (pool, report)) in pools.iter().zip(&outcome.caches).enumerate() {
        assert_eq!(pool.allocated(), report.view.allocated, "units of cache {at}");
        let open = outcome.steps.iter().fold(0_i64, |open, step| match step {
            Step::Wait { cache, .. } if *cache == at => open + 1,
            Step::HandOver { cache, .. } if *cache == at => open - 1,
            _ => open,
        });
        let ended = i64::try_from(pool.usage().contended).unwrap();
        let waits = outcome
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Wait { cache, .. } if *cache == at));
        assert_eq!(
            ended + open,
            i64::try_from(waits.count()).unwrap(),
            "waits of cache {at}"
        );
    }
}

/// Who has what at the end, and who waits.
struct Left {
    holders: Vec<(usize, usize, usize)>,
    waits: Vec<(usize, usize)>,
}

impl Left {
    fn note(&mut self, (thread, unit): Answer) {
        let at = self.waits.iter().position(|wait| wait.0 == thread).unwrap();
        let (_, cache) = self.waits.remove(at);
        self.holders.push((thread, cache, unit));
    }
}

fn open_waits(steps: &[Step]) -> Left {
    let mut left = Left {
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

fn may_have_priorities() -> bool {
    let probe =
        std::thread::spawn(|| sched::set_policy(ThreadId::current(), sched::Policy::Fifo { priority: 1 }).is_ok());
    let may = probe.join().unwrap();
    if !may {
        eprintln!("left out: no right to real-time priorities");
    }
    may
}

fn options(policy: Policy, limit: u32, seed: u64, duration: u64) -> TransientOptions {
    TransientOptions {
        limit,
        policy,
        period: 50 * MS,
        inheritance: true,
        duration,
        seed,
        steps: true,
    }
}

/// Eight threads of few priorities, so that equals wait beside each other, over three components.
fn small(seed: u64) -> Model {
    let kind = |most| KindModel { minimum: 1, most };
    let component = |calls: &[(usize, f64)]| ComponentModel {
        kinds: [kind(3), kind(2)],
        calls: calls.to_vec(),
    };
    let threads = (0..8).map(|at| ThreadModel {
        entries: vec![usize::from(at % 3 == 0)],
        period: (5 + 3 * at) * MS,
        work: (4 + (seed + at) % 5) * MS / 4,
        priority: [0, 3, 1, 3, 2, 0, 2, 1][usize::try_from(at).unwrap()],
        active: (at * MS / 3, u64::MAX / 2),
    });
    Model {
        components: vec![component(&[(1, 0.5), (2, 0.5)]), component(&[(2, 1.0)]), component(&[])],
        threads: threads.collect(),
    }
}

#[test]
fn the_kernel_wakes_whom_the_simulator_chose() {
    if !may_have_priorities() {
        return;
    }
    let mut waits = 0;
    for (seed, policy) in (1..).zip([Policy::Minimum, Policy::Static, Policy::Tardiness, Policy::Greedy]) {
        let model = small(seed);
        let outcome = simulate_components(&model, options(policy, 10, seed, 1500 * MS)).unwrap();
        waits += conduct(&model, &outcome);
    }
    assert!(waits > 200, "{waits} waits");
}

#[test]
fn the_papers_components_run_in_lockstep_under_the_papers_policy() {
    if !may_have_priorities() {
        return;
    }
    let model = best_effort(3, 0, 2);
    let outcome = simulate_components(&model, options(Policy::Tardiness, model.minima() + 16, 3, 1500 * MS)).unwrap();
    let moved = outcome
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Give { .. } | Step::Withdraw { .. }));
    assert!(moved.count() > 0, "the policy moves units");
    assert!(conduct(&model, &outcome) > 50);
}
