//! The experiments of paper 001, Adaptive Page Pinning, on models of its workloads (`experiments/app`).
//!
//! Each model runs with several seeds; rows carry the mean and its confidence interval. Differences are between means.
//! The models were committed before any policy was measured with them: a claim that does not hold is shown as such.

pub(super) mod beta;
pub(super) mod fig1;
pub(super) mod fig3;
pub(super) mod fig4;
pub(super) mod fig5;
pub(super) mod fig6;
pub(super) mod random;
mod sample;
pub(super) mod shift;
pub(super) mod stationary;

use freehold_core::units::Duration;
use freehold_scenario::format_time;
use freehold_scenario::recording::{PinningSpan, TaskRecording};
use freehold_scenario::results::ReproduceRow;

use super::files::{self, File, file};
use super::{Laboratory, task_of};
use freehold_command::engine::{Engine, Outcome};
use freehold_command::exit_status::Failure;
use freehold_command::load;
use freehold_command::output;

pub(super) use sample::{Bound, Sample, row};

/// The models of the paper's three programs.
const THREE: &[File] = &[
    file!("app/ranger.toml"),
    file!("app/opencv.toml"),
    file!("app/mplayer.toml"),
];

/// The memory-hungry neighbour.
const HOG: &str = "hog";

/// A policy, as the rows name it, and what it sets of each soft-real-time task.
struct Policy {
    name: &'static str,
    sets: &'static [&'static str],
}

const NONE: Policy = Policy {
    name: "none",
    sets: &["pinning=none"],
};
const ALL: Policy = Policy {
    name: "all",
    sets: &["pinning=all"],
};
const APP: Policy = Policy {
    name: "app",
    sets: &["pinning=app", "app.preset=paper"],
};
/// Unpinned pages go where the paper's listing of Algorithm 2 says; its text says otherwise.
const LISTING: Policy = Policy {
    name: "app, listing",
    sets: &["pinning=app", "app.preset=paper", "app.unpinned=\"listing\""],
};
const STEADY: Policy = Policy {
    name: "app, steady",
    sets: &["pinning=app", "app.preset=paper", "app.steady=true"],
};
const STEADY_RESTORE: Policy = Policy {
    name: "app, steady and restore",
    sets: &["pinning=app", "app.preset=paper", "app.steady=true", "app.restore=2000"],
};
const APP_NO_BUDGET: Policy = Policy {
    name: "app-no-budget",
    sets: &["pinning=app-no-budget", "app.preset=paper"],
};

/// How near to the misses of `all` a policy is to be, in points.
const NEAR_ALL: f64 = 1.0;

/// What the runs of one model under one policy gave, each over seeds.
struct Measured {
    /// Misses of each soft-real-time task, in per cent of its jobs.
    misses: Vec<Sample>,
    /// Pages pinned for all of them, on average over jobs.
    pinned: Sample,
    /// Jobs that the neighbour finished.
    hog_jobs: Sample,
    /// Pages read back for the neighbour.
    hog_swap_ins: Sample,
}

impl Measured {
    /// How much slower the neighbour is than `alone`, in per cent.
    fn slow_down(&self, alone: &Measured) -> Sample {
        let jobs = self.hog_jobs.values().iter().zip(alone.hog_jobs.values());
        Sample::new(
            jobs.map(|(jobs, alone)| (alone / jobs.max(1.0) - 1.0) * 100.0)
                .collect(),
        )
    }
}

/// What became of one task's pool after each job, seed by seed.
struct Judged {
    policy: &'static str,
    runs: Vec<Vec<PinningSpan>>,
    /// Jobs after those, for which a recording has no room.
    unseen: Sample,
}

impl Judged {
    fn new(policy: &Policy, tasks: impl Iterator<Item = TaskRecording>) -> Self {
        let (runs, unseen) = tasks.map(|task| (task.pinning, number(task.pinning_lost))).unzip();
        Self {
            policy: policy.name,
            runs,
            unseen: Sample::new(unseen),
        }
    }

    /// A row that does not hold, if there are jobs that nobody looked at: no claim is about them.
    fn unseen(&self) -> Option<ReproduceRow> {
        let what = format!("{}: jobs that were not looked at", self.policy);
        (self.unseen.mean() > 0.0).then(|| row(what, "jobs", None, &self.unseen, Bound::AtMost(0.0)))
    }
}

/// One of the models, its soft-real-time tasks, and how it is run.
struct Bench<'a> {
    laboratory: &'a Laboratory,
    file: &'static str,
    tasks: &'static [&'static str],
    seeds: u32,
}

impl<'a> Bench<'a> {
    /// A bench for one model. Live it has one seed, unless told, because a run takes as long as it says.
    ///
    /// # Errors
    /// A model that is wrong.
    fn new(
        laboratory: &'a Laboratory,
        file: &'static str,
        tasks: &'static [&'static str],
        seeds: u32,
    ) -> Result<Self, Failure> {
        let session = laboratory.session();
        let live = session.engine() == Engine::Live;
        let bench = Self {
            laboratory,
            file,
            tasks,
            seeds: laboratory.seeds(if live { 1 } else { seeds }),
        };
        let (time, seeds) = (format_time(bench.duration()?), bench.seeds);
        let kind = if live { "real" } else { "virtual" };
        output::note(&format!(
            "freehold: {file}: {time} of {kind} time, {seeds} seeds for each row"
        ));
        Ok(bench)
    }

    /// How long each run is.
    fn duration(&self) -> Result<Duration, Failure> {
        let given = self.laboratory.duration().map(|time| format!("duration={time}"));
        let sets: Vec<String> = given.into_iter().collect();
        Ok(load::embedded_with(self.file, &self.text()?, files::TRACES, &sets)?.duration)
    }

    /// Runs it under a policy, `more` set besides.
    ///
    /// # Errors
    /// A run that failed, broke a law or was stopped.
    fn measure(&self, policy: &Policy, more: &[String]) -> Result<Measured, Failure> {
        let sets: Vec<String> = self.sets(policy).into_iter().chain(more.iter().cloned()).collect();
        self.run(&sets)
    }

    /// Runs the neighbour by itself: the others begin a millisecond before the end, as they must begin in the run.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    fn alone(&self, more: &[String]) -> Result<Measured, Failure> {
        let end = self.duration()?.get();
        let last = end.saturating_sub(1_000_000);
        let last = self.tasks.iter().flat_map(|task| {
            [
                format!("task.{task}.start={last}ns"),
                format!("task.{task}-start.start={last}ns"),
                format!("task.{task}-start.stop={end}ns"),
            ]
        });
        let sets: Vec<String> = last.chain(more.iter().cloned()).collect();
        self.run(&sets)
    }

    fn run(&self, sets: &[String]) -> Result<Measured, Failure> {
        let mut misses = vec![Vec::new(); self.tasks.len()];
        let (mut pinned, mut hog_jobs, mut hog_swap_ins) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in self.outcomes(sets, false)? {
            let mut all_pinned = 0.0;
            for (task, misses) in self.tasks.iter().zip(&mut misses) {
                let Some(result) = task_of(&outcome, task) else {
                    continue;
                };
                misses.push(percent(result.misses, result.jobs));
                all_pinned += result.pinned.pinned_pages_mean;
            }
            pinned.push(all_pinned);
            if let Some(hog) = task_of(&outcome, HOG) {
                hog_jobs.push(number(hog.jobs));
                hog_swap_ins.push(number(hog.faults.swap_ins));
            }
        }
        Ok(Measured {
            misses: misses.into_iter().map(Sample::new).collect(),
            pinned: Sample::new(pinned),
            hog_jobs: Sample::new(hog_jobs),
            hog_swap_ins: Sample::new(hog_swap_ins),
        })
    }

    /// Runs it under a policy, and gives what became of the first task's pool after each job, seed by seed.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    fn judgements(&self, policy: &Policy) -> Result<Judged, Failure> {
        let outcomes = self.outcomes(&self.sets(policy), true)?;
        let recorded = |outcome: Outcome| {
            let name = self.tasks.first().copied().unwrap_or_default();
            let position = outcome.result.tasks.iter().position(|task| task.name == name)?;
            let mut tasks = outcome.recording?.tasks;
            Some(std::mem::take(tasks.get_mut(position)?))
        };
        Ok(Judged::new(policy, outcomes.into_iter().filter_map(recorded)))
    }

    fn sets(&self, policy: &Policy) -> Vec<String> {
        let each = self
            .tasks
            .iter()
            .flat_map(|task| policy.sets.iter().map(move |set| (task, set)));
        each.map(|(task, set)| format!("task.{task}.{set}")).collect()
    }

    /// With each seed, in their order.
    fn outcomes(&self, sets: &[String], recording: bool) -> Result<Vec<Outcome>, Failure> {
        let text = self.text()?;
        let mut common = sets.to_owned();
        if let Some(duration) = self.laboratory.duration() {
            common.push(format!("duration={duration}"));
        }
        if self.is_live() {
            common.extend(self.live_sets());
        }
        let scenario = |seed: u32| {
            let sets: Vec<String> = [format!("seed={seed}")]
                .into_iter()
                .chain(common.iter().cloned())
                .collect();
            load::embedded_with(self.file, &text, files::TRACES, &sets)
        };
        let scenarios = (1..=self.seeds).map(scenario).collect::<Result<Vec<_>, _>>()?;
        let shown = format!("{} {}", self.file, sets.join(" "));
        if self.is_live() {
            let run = |scenario| self.laboratory.run_recorded(scenario, &shown, recording);
            return scenarios.iter().map(run).collect();
        }
        self.laboratory.simulate_all(&scenarios, &shown, recording)
    }

    fn is_live(&self) -> bool {
        self.laboratory.session().engine() == Engine::Live
    }

    /// What a real machine has otherwise than the models: it spins for a store of this latency, and it keeps
    /// no deadline thread on some CPUs.
    fn live_sets(&self) -> Vec<String> {
        let cpus = self.tasks.iter().map(|task| format!("task.{task}.cpus=[0, 1]"));
        let wait = "memory.swap.wait=spin".to_owned();
        cpus.chain([wait]).collect()
    }

    /// The model's text. A program is one process, and all its pages are its own: so the periodic task also maps what
    /// its start touched and left, by touching one page of it per job.
    fn text(&self) -> Result<String, Failure> {
        let text = files::text(self.file).ok_or_else(|| Failure::Input(format!("there is no file `{}`", self.file)))?;
        Ok(self
            .tasks
            .iter()
            .fold(text.to_owned(), |text, task| own_all(&text, task)))
    }
}

/// Puts an access to one page of the task's cold region before its first access.
fn own_all(text: &str, task: &str) -> String {
    const ACCESS: &str = "[[task.access]]";
    let at = text
        .find(&format!("name = \"{task}\"\n"))
        .and_then(|name| Some(name + text.get(name..)?.find(ACCESS)?));
    let Some((before, after)) = at.and_then(|at| text.split_at_checked(at)) else {
        return text.to_owned();
    };
    let cold =
        format!("{ACCESS}\nregion = \"{task}-cold\"\npattern = \"window\"\nsize = \"4KiB\"\nshift = \"0KiB\"\n\n");
    format!("{before}{cold}{after}")
}

/// Not a number of nothing: no claim holds of that.
fn percent(part: u64, whole: u64) -> f64 {
    number(part) * 100.0 / number(whole)
}

#[allow(clippy::cast_precision_loss, reason = "counts of jobs and pages are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_found_no_room_are_a_row_that_does_not_hold() {
        let recorded = |lost| TaskRecording {
            pinning: vec![PinningSpan::default(); 3],
            pinning_lost: lost,
            ..TaskRecording::default()
        };
        let whole = Judged::new(&APP, [recorded(0), recorded(0)].into_iter());
        assert!(whole.unseen().is_none());
        let cut = Judged::new(&APP, [recorded(0), recorded(5)].into_iter());
        assert_eq!(cut.runs.len(), 2);
        let row = cut.unseen().unwrap();
        assert_eq!((row.ours, row.holds), (2.5, false), "{row:?}");
    }

    #[test]
    fn every_model_gives_its_tasks_what_their_start_touched() {
        for (file, task) in [
            ("app/ranger.toml", "ranger"),
            ("app/opencv.toml", "opencv"),
            ("app/mplayer.toml", "mplayer"),
            ("app/three.toml", "opencv"),
        ] {
            let text = own_all(files::text(file).unwrap(), task);
            let scenario = load::embedded_with(file, &text, files::TRACES, &[]).unwrap();
            let maps = |name: &str| {
                let found = scenario.tasks.iter().find(|other| other.name == name).unwrap();
                let mut regions: Vec<_> = found.accesses.iter().map(|access| access.region).collect();
                regions.sort_unstable();
                regions
            };
            assert_eq!(maps(task), maps(&format!("{task}-start")), "{file}");
        }
    }
}
