//! The run.

use super::model::Model;
use super::report::{ComponentReport, Second, Step, ThreadReport, TransientOutcome, WaitReport};
use super::threads::{Held, Next, Thread, signed};
use super::units::{Cache, Leaves, Request};
use super::walk::{Walk, part};
use freehold_core::transient::{ComponentSpec, Policy, ScheduleError, Scheduler, Settings, TransientEffect, Usage};
use freehold_core::units::{Duration, FrameCount};
use freehold_scenario::results::ResponseRecorder;

const SECOND: u64 = 1_000_000_000;
/// Runs of the policy after which unused units go back, as in a composition that runs.
const IDLE_RUNS: u32 = 4;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientOptions {
    /// Frames of all units, at most.
    pub limit: u32,
    /// Who gets them.
    pub policy: Policy,
    /// Between runs of the policy, in nanoseconds.
    pub period: u64,
    /// Whether holders inherit the priorities of who waits for them.
    pub inheritance: bool,
    /// The end, in nanoseconds.
    pub duration: u64,
    /// Of the walks from component to component.
    pub seed: u64,
    /// Whether to keep every step.
    pub steps: bool,
}

struct Simulation<'a> {
    model: &'a Model,
    options: TransientOptions,
    caches: Vec<Cache>,
    threads: Vec<Thread>,
    /// Threads of which the policy knows.
    judged: Vec<Option<usize>>,
    walks: Vec<Walk>,
    responses: Vec<ResponseRecorder>,
    scheduler: Scheduler,
    now: u64,
    /// Counts what happens: who came first among equals.
    order: u64,
    outcome: TransientOutcome,
}

/// Runs a model.
///
/// # Errors
/// [`ScheduleError`]: the model is too large for the policy, or its minima are above the limit.
pub fn simulate_components(model: &Model, options: TransientOptions) -> Result<TransientOutcome, ScheduleError> {
    let mut simulation = Simulation::new(model, options)?;
    simulation.run();
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    fn new(model: &'a Model, options: TransientOptions) -> Result<Self, ScheduleError> {
        let kinds = model.components.iter().flat_map(|component| component.kinds);
        let caches: Vec<Cache> = kinds.clone().map(|kind| Cache::new(kind.minimum, kind.most)).collect();
        let specs: Vec<ComponentSpec> = kinds
            .enumerate()
            .map(|(at, kind)| ComponentSpec {
                unit: FrameCount::new(kind.frames),
                minimum: kind.minimum,
                most: kind.most,
                restarts: false,
                // Stacks and buffers of a component stand side by side, and a call takes one of both.
                companion: Some(at ^ 1),
            })
            .collect();
        let mut count = 0;
        let judged: Vec<Option<usize>> = model
            .threads
            .iter()
            .map(|thread| {
                let judged = (thread.priority > 0).then_some(count);
                count += usize::from(thread.priority > 0);
                judged
            })
            .collect();
        let settings = Settings {
            limit: FrameCount::new(options.limit),
            policy: options.policy,
            idle_runs: IDLE_RUNS,
        };
        let scheduler = Scheduler::new(settings, &specs, count)?;
        let outcome = TransientOutcome {
            caches: vec![ComponentReport::default(); caches.len()],
            threads: vec![ThreadReport::default(); model.threads.len()],
            ..TransientOutcome::default()
        };
        Ok(Self {
            walks: (0..model.threads.len())
                .map(|thread| Walk::new(options.seed, thread))
                .collect(),
            responses: vec![ResponseRecorder::new(); model.threads.len()],
            threads: model.threads.iter().cloned().map(Thread::new).collect(),
            model,
            options,
            caches,
            judged,
            scheduler,
            now: 0,
            order: 0,
            outcome,
        })
    }

    fn run(&mut self) {
        let mut policy_due = 0;
        let mut second_due = SECOND;
        self.outcome.seconds.push(Second::default());
        while self.now < self.options.duration {
            if self.now >= policy_due {
                self.run_policy();
                policy_due += self.options.period;
            }
            if self.now >= second_due {
                self.end_second();
                self.outcome.seconds.push(Second::default());
                second_due += SECOND;
            }
            self.begin_jobs();
            let until = policy_due.min(second_due).min(self.options.duration);
            self.advance(until);
        }
        self.end_second();
    }

    /// Runs the most urgent thread until its step is done, or something else is due.
    fn advance(&mut self, until: u64) {
        let releases = self.threads.iter().filter_map(Thread::next_release);
        let until = releases.filter(|release| *release > self.now).fold(until, u64::min);
        let Some(running) = self.most_urgent() else {
            self.now = until;
            return;
        };
        let thread = &mut self.threads[running];
        let worked = thread.step.min(until - self.now);
        thread.step -= worked;
        self.now += worked;
        if self.threads[running].step == 0 {
            self.go_on(running);
        }
    }

    fn most_urgent(&self) -> Option<usize> {
        let ready = (0..self.threads.len()).filter(|at| self.threads[*at].is_ready());
        ready.max_by_key(|at| {
            let thread = &self.threads[*at];
            (thread.rank, u64::MAX - thread.order)
        })
    }

    fn begin_jobs(&mut self) {
        for at in 0..self.threads.len() {
            if self.threads[at].is_due(self.now) {
                let component = self.walks[at].enter(&self.threads[at].model);
                let order = self.next_order();
                let thread = &mut self.threads[at];
                thread.next = Some(Next::Take { component, kind: 0 });
                (thread.step, thread.left) = (0, thread.model.work);
                (thread.rank, thread.order) = (thread.model.priority, order);
            }
        }
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The step of a thread is done: what comes next?
    fn go_on(&mut self, at: usize) {
        match self.threads[at].next {
            Some(Next::Take { component, kind }) => self.request(at, 2 * component + kind),
            Some(Next::Work { component }) => self.call(at, component),
            Some(Next::Release) => self.release(at),
            None => {}
        }
    }

    fn request(&mut self, at: usize, cache: usize) {
        let order = self.next_order();
        if !self.caches[cache].has_free() {
            self.scheduler.handle_wanted(cache);
            self.carry_out();
        }
        match self.caches[cache].request(at, order) {
            Request::Taken(unit) => {
                self.note(Step::Take {
                    thread: at,
                    cache,
                    unit,
                });
                self.arrived(at, Held { cache, unit });
            }
            Request::Waits(unit) => {
                self.note(Step::Wait {
                    thread: at,
                    cache,
                    unit,
                });
                self.threads[at].waits = Some((Held { cache, unit }, self.now));
                self.lend_from(at);
            }
        }
    }

    /// A thread has the unit that it asked for.
    fn arrived(&mut self, at: usize, held: Held) {
        let thread = &mut self.threads[at];
        thread.held.push(held);
        let component = held.cache / 2;
        if held.cache.is_multiple_of(2) {
            thread.next = Some(Next::Take { component, kind: 1 });
            return;
        }
        let part = part(&thread.model, &self.model.components[component], thread.left);
        thread.next = Some(Next::Work { component });
        (thread.step, thread.left) = (part, thread.left - part);
    }

    fn call(&mut self, at: usize, component: usize) {
        let callee = self.walks[at].call(&self.model.components[component], self.threads[at].left);
        self.threads[at].next = Some(match callee {
            Some(component) => Next::Take { component, kind: 0 },
            None => Next::Release,
        });
    }

    fn release(&mut self, at: usize) {
        let Some(Held { cache, unit }) = self.threads[at].held.pop() else {
            self.end_job(at);
            return;
        };
        let threads = &self.threads;
        let next = self.caches[cache].release(unit, |waiter| threads[waiter].rank);
        match next {
            Some(to) => {
                self.note(Step::HandOver {
                    thread: at,
                    cache,
                    unit,
                    to,
                });
                self.outcome.caches[cache].handed_over += 1;
                self.end_wait(to);
            }
            None => self.note(Step::Free {
                thread: at,
                cache,
                unit,
            }),
        }
        self.lower(at);
        if let Some(to) = next {
            self.lower(to);
        }
    }

    fn end_wait(&mut self, at: usize) {
        if let Some((held, since)) = self.threads[at].waits.take() {
            let blocked = self.now - since;
            self.outcome.threads[at].blocked += blocked;
            self.scheduler.handle_blocked(held.cache, self.judged[at], 1, blocked);
            self.arrived(at, held);
        }
    }

    fn end_job(&mut self, at: usize) {
        let release = self.threads[at].release;
        let tardiness = self.threads[at].end_job(self.now);
        let late = u64::try_from(tardiness).unwrap_or(0);
        let report = &mut self.outcome.threads[at];
        report.jobs += 1;
        report.misses += u64::from(late > 0);
        report.tardiness += late;
        report.latest = report.latest.max(late);
        self.responses[at].record(Duration::new(self.now - release));
        let Some(judged) = self.judged[at] else { return };
        self.scheduler.handle_job_end(judged, tardiness.max(0));
        if let Some(second) = self.outcome.seconds.last_mut() {
            second.jobs += 1;
            second.misses += u64::from(late > 0);
            second.tardiness = second.tardiness.max(late);
        }
    }

    /// A waiter's rank goes to whom it waits for, and on from there.
    fn lend_from(&mut self, at: usize) {
        if !self.options.inheritance {
            return;
        }
        let mut from = at;
        while let Some((held, _)) = self.threads[from].waits {
            let Some(holder) = self.caches[held.cache].holder(held.unit) else {
                break;
            };
            if self.threads[holder].rank >= self.threads[from].rank {
                break;
            }
            self.threads[holder].rank = self.threads[from].rank;
            from = holder;
        }
    }

    /// A holder's rank is its own, or that of the most urgent that waits for one of its units.
    fn lower(&mut self, at: usize) {
        let thread = &self.threads[at];
        let waiters = thread
            .held
            .iter()
            .flat_map(|held| self.caches[held.cache].waiters(held.unit));
        let lent = waiters.map(|waiter| self.threads[waiter].rank).max();
        let lent = lent.filter(|_| self.options.inheritance).unwrap_or(0);
        self.threads[at].rank = thread.model.priority.max(lent);
    }

    fn run_policy(&mut self) {
        for (at, thread) in self.threads.iter().enumerate() {
            let late = signed(self.now) - signed(thread.release + thread.model.deadline);
            if let Some(judged) = self.judged[at].filter(|_| thread.next.is_some() && late > 0) {
                self.scheduler.handle_unfinished(judged, late);
            }
            // What was waited until now counts now.
            if let Some((held, since)) = thread.waits {
                let blocked = self.now - since;
                self.outcome.threads[at].blocked += blocked;
                self.scheduler.handle_blocked(held.cache, self.judged[at], 0, blocked);
            }
        }
        for thread in &mut self.threads {
            if let Some((_, since)) = &mut thread.waits {
                *since = self.now;
            }
        }
        self.collect();
        let usage: Vec<Usage> = self
            .caches
            .iter_mut()
            .map(|cache| {
                let (used, waiting_peak) = cache.take_usage();
                Usage {
                    used,
                    waiting_peak,
                    suspended: 0,
                }
            })
            .collect();
        let all = FrameCount::new(self.options.limit);
        // As many as it was made for.
        let ran = self.scheduler.run_policy(&usage, all);
        debug_assert_eq!(ran, Ok(()));
        self.carry_out();
    }

    /// Units that their holders have let go.
    fn collect(&mut self) {
        for (at, cache) in self.caches.iter().enumerate() {
            let known = self.scheduler.view(at).unwrap_or_default().allocated;
            self.scheduler.handle_taken(at, known.saturating_sub(cache.present()));
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                TransientEffect::Take { component, units } => {
                    let steps = self.options.steps.then_some(&mut self.outcome.steps);
                    let taken = self.caches[component].take(units, told(component, steps));
                    self.scheduler.handle_taken(component, taken);
                }
                TransientEffect::Grant { component, units } => {
                    let steps = &mut self.outcome.steps;
                    let keep = self.options.steps;
                    self.caches[component].give(units, |unit| {
                        if keep {
                            steps.push(Step::Give { cache: component, unit });
                        }
                    });
                    self.scheduler.handle_granted(component, units);
                }
                TransientEffect::Restart { .. } => {}
            }
        }
        self.outcome.peak = self.outcome.peak.max(self.scheduler.frames().get());
        if let Err(law) = self.scheduler.check_laws() {
            self.outcome.broken.push(format!("{law:?} at {} ns", self.now));
        }
    }

    fn end_second(&mut self) {
        let units = self.caches.iter().map(Cache::present).sum();
        if let Some(second) = self.outcome.seconds.last_mut() {
            second.units = units;
        }
    }

    fn note(&mut self, step: Step) {
        if self.options.steps {
            self.outcome.steps.push(step);
        }
    }

    /// Who waits, where, and for whom.
    fn waits(&self) -> Vec<WaitReport> {
        let waiting = self.threads.iter().enumerate();
        let waiting = waiting.filter_map(|(thread, of)| Some((thread, of.waits?.0)));
        waiting
            .map(|(thread, held)| WaitReport {
                thread,
                cache: held.cache,
                holder: self.caches[held.cache].holder(held.unit),
            })
            .collect()
    }

    fn finish(mut self) -> TransientOutcome {
        self.collect();
        for (at, cache) in self.caches.iter().enumerate() {
            let view = self.scheduler.view(at).unwrap_or_default();
            self.outcome.caches[at].view = view;
            if view.allocated != cache.present() {
                self.outcome
                    .broken
                    .push(format!("cache {at}: the policy's books differ from its units"));
            }
        }
        for (report, responses) in self.outcome.threads.iter_mut().zip(&self.responses) {
            report.response = responses.response();
        }
        self.outcome.waits = self.waits();
        self.outcome.frames = self.scheduler.frames().get();
        self.outcome.runs = self.scheduler.runs();
        self.outcome
    }
}

/// Keeps what becomes of units of a cache.
fn told(cache: usize, mut steps: Option<&mut Vec<Step>>) -> impl FnMut(usize, Leaves) + '_ {
    move |unit, leaves| {
        let step = match leaves {
            Leaves::Now => Step::Withdraw { cache, unit },
            Leaves::Later => Step::Relinquish {
                cache,
                unit,
                wanted: true,
            },
            Leaves::Stays => Step::Relinquish {
                cache,
                unit,
                wanted: false,
            },
        };
        if let Some(steps) = &mut steps {
            steps.push(step);
        }
    }
}
