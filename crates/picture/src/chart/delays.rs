//! Where the time of late jobs went.

use freehold_scenario::results::{LateJob, Reason, TaskResult};

use crate::number;
use crate::svg::{Anchor, Chart, Numbers, Path, Window, Words};

/// The causes with their class, as they are stacked.
pub(crate) const CAUSES: [(Reason, &str); 5] = [
    (Reason::CpuWait, "cpu-wait"),
    (Reason::StoreWait, "wait"),
    (Reason::FaultService, "service"),
    (Reason::LockWait, "lock-wait"),
    (Reason::OwnComputation, "running"),
];

/// So many late jobs are drawn.
pub(crate) const MOST_JOBS: usize = 16;
const ROW: f64 = 18.0;
const TOP: f64 = 6.0;

/// The late jobs of a task, a bar each; the worst is among them.
pub(crate) fn draw(task: &TaskResult, numbers: &mut Numbers) -> String {
    let jobs = chosen(task);
    let longest = jobs.iter().map(|job| job.response_ns).max().unwrap_or(0);
    let window = Window::new(0, longest.max(task.deadline_ns.unwrap_or(0)));
    let bottom = TOP + ROW * number::ratio(jobs.len() as u64, 1);
    let mut chart = Chart::new();
    window.axis(&mut chart, TOP, bottom);
    for (at, job) in jobs.iter().enumerate() {
        draw_job(&mut chart, job, window, TOP + ROW * number::ratio(at as u64, 1));
    }
    if let Some(deadline) = task.deadline_ns {
        let x = window.x(deadline);
        chart.line((x, 0.0), (x, bottom), "deadline");
    }
    let title = format!("Late jobs of {}", task.name);
    let mut caption = String::from("From release to end, by where the time went; the line is the deadline.");
    if (jobs.len() as u64) < task.late.late_jobs_total {
        caption.push_str(&format!(
            " {} of {} late jobs are drawn: the first, and the worst.",
            jobs.len(),
            task.late.late_jobs_total
        ));
    }
    let words = Words {
        title: &title,
        description: &description(task),
        caption: &caption,
    };
    chart.finish(numbers, bottom + 20.0, &words)
}

/// The first late jobs, and the worst.
fn chosen(task: &TaskResult) -> Vec<LateJob> {
    let mut jobs: Vec<LateJob> = task.late.late_jobs.iter().take(MOST_JOBS).copied().collect();
    if let Some(worst) = task
        .late
        .worst_late_job
        .filter(|worst| jobs.iter().all(|job| job.job != worst.job))
    {
        jobs.truncate(MOST_JOBS - 1);
        jobs.push(worst);
    }
    jobs
}

fn draw_job(chart: &mut Chart, job: &LateJob, window: Window, top: f64) {
    let mut from = 0_u64;
    for ((reason, share), (_, class)) in job.delays.shares(job.response_ns).iter().zip(CAUSES) {
        let to = from.saturating_add(*share);
        let (left, right) = (window.x(from), window.x(to));
        let mut path = Path::default();
        if right > left {
            path.rectangle(left, top + 3.0, right - left, ROW - 5.0);
        }
        chart.titled_path(&path, class, &format!("{reason}: {}", number::time(*share)));
        from = to;
    }
    chart.text(4.0, top + 14.0, Anchor::Start, "name", &format!("job {}", job.job));
}

fn description(task: &TaskResult) -> String {
    let shares = task.late.late_delays_ns.shares(task.late.late_response_ns);
    let shares: Vec<String> = shares
        .iter()
        .map(|(reason, share)| format!("{reason} {}", number::time(*share)))
        .collect();
    format!(
        "All {} late jobs together: {}.",
        task.late.late_jobs_total,
        shares.join(", ")
    )
}
