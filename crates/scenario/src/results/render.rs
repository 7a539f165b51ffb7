//! The document of `run` as text.

use super::late::{LateJob, Reason};
use super::run::{RegionResult, RunResult, StoreResult, TaskResult};
use super::table::{Align, TextTable};
use super::transient::TransientResult;
use freehold_report::reservation::Number;
use std::fmt::Write;

impl RunResult {
    /// How regions that several reservations use are shared, in a word or two; `-` where none is. Where `auto` was
    /// asked, what was decided.
    #[must_use]
    pub fn policy(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for region in &self.regions {
            let mut name = region.sharing.name().to_owned();
            if region.asked != region.sharing {
                name.push_str(&format!(" ({})", region.asked.name()));
            }
            if (region.max_use.iter().filter(|pages| **pages > 0).count() > 1) && !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            "-".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// The result for a reader: tables, then for every task with misses how many and why.
    #[must_use]
    pub fn to_text(&self) -> String {
        let engine = match self.head.engine {
            super::Engine::Sim => "sim",
            super::Engine::Live => "live",
        };
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "{}: {engine}, seed {}, {}",
            self.head.scenario,
            self.head.seed,
            span(self.head.duration_ns)
        );
        let _ = write!(
            out,
            "\n{}\n{}\n{}\n{}{}",
            self.tasks(),
            self.reservations(),
            self.regions(),
            self.memory(),
            self.store.line()
        );
        if let Some(lock) = &self.lock {
            let (hold, wait) = (span(lock.longest_hold_ns), span(lock.longest_wait_ns));
            let _ = writeln!(
                out,
                "\ncore lock: held {} times, at most {hold}; waited for at most {wait}",
                lock.holds
            );
        }
        for table in self.transient.iter().flat_map(TransientResult::tables) {
            let _ = write!(out, "\n{table}");
        }
        for task in self.tasks.iter().filter(|task| task.misses > 0) {
            let _ = write!(out, "\n{}", task.why_late());
        }
        if !self.laws.violations.is_empty() {
            out.push('\n');
        }
        for violation in &self.laws.violations {
            let _ = writeln!(
                out,
                "law {} broken at {}: {}",
                violation.law,
                span(violation.at_ns),
                violation.what
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        out
    }

    fn tasks(&self) -> TextTable {
        let columns = [
            "jobs",
            "misses",
            "max tardiness",
            "p50",
            "p99",
            "max",
            "soft",
            "zero",
            "swap-ins",
            "shared swap-ins",
            "evictions",
        ];
        let mut table = table("task", &columns);
        for task in &self.tasks {
            let response = &task.response_ns;
            let times = [task.max_tardiness_ns, response.p50, response.p99, response.max].map(span);
            let counts = [
                task.faults.soft_faults,
                task.faults.zero_fills,
                task.faults.swap_ins,
                task.faults.shared_swap_ins,
                task.faults.evictions,
            ];
            let head = [task.name.clone(), task.jobs.to_string(), task.misses.to_string()];
            table.row(
                head.into_iter()
                    .chain(times)
                    .chain(counts.map(|count| count.to_string())),
            );
        }
        table
    }

    fn reservations(&self) -> TextTable {
        let columns: Vec<String> = Number::shown().map(Number::label).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut table = table("reservation", &columns);
        for row in &self.reservations {
            let counts = row.counts();
            let numbers = Number::shown().map(|number| number.of(&counts).to_string());
            table.row(std::iter::once(row.name.clone()).chain(numbers));
        }
        table
    }

    fn regions(&self) -> TextTable {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = TextTable::new(&[
            ("region", left),
            ("resident", right),
            ("sharing", left),
            ("max use", left),
            ("avg use", left),
        ]);
        for region in &self.regions {
            let max: Vec<String> = region.max_use.iter().map(u64::to_string).collect();
            let avg: Vec<String> = region.avg_use.iter().map(|avg| format!("{avg:.1}")).collect();
            table.row([
                region.name.clone(),
                region.resident.to_string(),
                self.sharing(region),
                max.join(" "),
                avg.join(" "),
            ]);
        }
        table
    }

    /// The region's sharing, and that of reservations for which another is in force: `spc, r2 spel`.
    fn sharing(&self, region: &RegionResult) -> String {
        let mut text = region.sharing.name().to_owned();
        if region.asked != region.sharing {
            let _ = write!(text, " ({})", region.asked.name());
        }
        for (reservation, used) in self.reservations.iter().zip(&region.in_force) {
            if let Some(used) = used.filter(|used| *used != region.sharing) {
                let _ = write!(text, ", {} {}", reservation.name, used.name());
            }
        }
        text
    }

    fn memory(&self) -> TextTable {
        let columns = [
            "pool",
            "used",
            "peak",
            "resident measured",
            "store reads",
            "store writes",
        ];
        let mut table = table("memory", &columns);
        let (memory, store) = (&self.memory, &self.store);
        let numbers = [
            memory.pool,
            memory.used,
            memory.peak,
            memory.resident_measured,
            store.reads,
            store.writes,
        ];
        table.row(std::iter::once("frames".to_owned()).chain(numbers.map(|number| number.to_string())));
        table
    }
}

impl TransientResult {
    /// The units of each component, and whose job waits for whose where any does.
    #[must_use]
    pub fn tables(&self) -> Vec<TextTable> {
        let columns = ["r", "a", "δ", "used", "waits", "b", "handed over", "granted", "taken"];
        let columns: Vec<&str> = std::iter::once("kind").chain(columns).collect();
        let mut units = table("component", &columns);
        for row in &self.components {
            let state = &row.state;
            let counts = [state.requested, state.allocated, state.desired, state.used].map(|count| count.to_string());
            let head = [state.component.clone(), state.kind.clone()];
            let waits = [state.contended.to_string(), span(state.blocked_ns)];
            let moves = [row.handed_over, row.granted, row.taken].map(|count| count.to_string());
            units.row(head.into_iter().chain(counts).chain(waits).chain(moves));
        }
        let left = Align::Left;
        let mut waits = TextTable::new(&[("job of", left), ("waits for", left), ("in", left), ("kind", left)]);
        for wait in &self.waits {
            let holder = wait.holder.clone().unwrap_or_else(|| "another".to_owned());
            waits.row([wait.thread.clone(), holder, wait.component.clone(), wait.kind.clone()]);
        }
        [units, waits].into_iter().filter(|table| !table.is_empty()).collect()
    }
}

impl StoreResult {
    /// What moved the bytes and what came of it, in one line; empty for a simulated store.
    #[must_use]
    pub fn line(&self) -> String {
        let Some(backend) = &self.backend else {
            return String::new();
        };
        let mut line = format!("store {}", self.kind);
        if backend != "inline" {
            line.push_str(&format!(" by {backend}"));
        }
        if self.direct {
            line.push_str(", past the page cache");
        }
        let mut add = |number: u64, what: &str| {
            if number > 0 {
                line.push_str(&format!(", {number} {what}"));
            }
        };
        add(self.own_frames, "frames of its own");
        add(self.stored_bytes, "bytes compressed in them");
        add(self.failed_reads, "reads failed");
        add(self.failed_writes, "writes failed");
        add(self.retried, "attempts repeated");
        line.push('\n');
        line
    }
}

impl TaskResult {
    /// How many jobs were late and why: one or two sentences ending in a newline; empty without misses.
    #[must_use]
    pub fn why_late(&self) -> String {
        if self.misses == 0 {
            return String::new();
        }
        let head = format!("{}: {} of {} jobs late", self.name, self.misses, self.jobs);
        let shares = shares(
            &self.late.late_delays_ns.shares(self.late.late_response_ns),
            self.late.late_response_ns,
        );
        match &self.late.worst_late_job {
            Some(worst) => format!("{head}: {shares}; worst {}\n", describe(worst)),
            None => format!("{head}\n"),
        }
    }
}

fn describe(job: &LateJob) -> String {
    let shares = shares(&job.delays.shares(job.response_ns), job.response_ns);
    format!(
        "job {}: late by {}, {} ({shares})",
        job.job,
        span(job.tardiness_ns),
        job.reason
    )
}

/// `store wait 93 %, CPU wait 4 %`: the causes that matter, largest first.
fn shares(shares: &[(Reason, u64)], whole: u64) -> String {
    let mut shares: Vec<_> = shares.iter().filter(|(_, share)| *share > 0).collect();
    shares.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
    let part = |(reason, share): &(Reason, u64)| {
        let percent = u128::from(*share) * 100 / u128::from(whole.max(1));
        if percent == 0 {
            format!("{reason} below 1 %")
        } else {
            format!("{reason} {percent} %")
        }
    };
    shares.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

fn table(first: &str, numbers: &[&str]) -> TextTable {
    let numbers = numbers.iter().map(|name| (*name, Align::Right));
    TextTable::new(&std::iter::once((first, Align::Left)).chain(numbers).collect::<Vec<_>>())
}

/// A time to three digits after the point, in the unit that suits it.
fn span(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(factor, _)| ns >= *factor) {
        Some((factor, unit)) => format!("{}.{:03}{unit}", ns / factor, ns % factor / (factor / 1_000)),
        None => format!("{ns}ns"),
    }
}
