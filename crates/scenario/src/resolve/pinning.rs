//! The rules of `pinning` and `[task.app]`.

use super::checks::{pages, refuse};
use crate::error::Fault;
use crate::model::Class;
use crate::pinning::{AppSettings, AppSpec, FREEHOLD_RESTORES, MILLION, Pinning, Preset};
use crate::spec::TaskSpec;
use freehold_core::units::Duration;

/// How a task is pinned, and its options where its pool adapts.
pub(super) fn resolve(path: &str, task: &TaskSpec, class: Class) -> Result<(Pinning, Option<AppSettings>), Fault> {
    let key = |key: &str| format!("{path}.{key}");
    let pinning = task.pinning.unwrap_or_default();
    if task.app.is_some() && !pinning.adapts() {
        let message = "belongs to pinning \"app\" and \"app-no-budget\": remove it, or state one of them as `pinning`";
        return Err(Fault::new(key("app"), message).with(key("pinning")));
    }
    if !pinning.pins() {
        return Ok((pinning, None));
    }
    let word = pinning.name();
    for (name, time) in [("period", task.period), ("budget", task.budget)] {
        if time.is_none() {
            let message = format!("pinning \"{word}\" needs a `{name}`: add one, or state \"none\"");
            return Err(Fault::new(key("pinning"), message).with(key(name)));
        }
    }
    match class {
        Class::BestEffort => {
            let message = format!(
                "pinning \"{word}\" is for real-time tasks, and class is \"best-effort\": \
                 change the class, or state \"none\""
            );
            return Err(Fault::new(key("pinning"), message).with(key("class")));
        }
        Class::Fifo { .. } if pinning == Pinning::App => {
            let message = "the swap budget of pinning \"app\" is enforced by class \"deadline\" only: \
                           state that class, or \"app-no-budget\"";
            return Err(Fault::new(key("pinning"), message).with(key("class")));
        }
        Class::Fifo { .. } | Class::Deadline => {}
    }
    if !pinning.adapts() {
        return Ok((pinning, None));
    }
    let settings = settings(&key("app"), &task.app.unwrap_or_default())?;
    Ok((pinning, Some(settings)))
}

fn settings(path: &str, app: &AppSpec) -> Result<AppSettings, Fault> {
    if app.gamma == 0 {
        return refuse(format!("{path}.gamma"), "is 0: must be at least 1, the paper's is 4");
    }
    Ok(AppSettings {
        preset: app.preset,
        capacity: pages(&format!("{path}.capacity"), app.capacity, u32::MAX)?,
        alpha: ratio(&format!("{path}.alpha"), app.alpha)?,
        beta: ratio(&format!("{path}.beta"), app.beta)?,
        gamma: app.gamma,
        lambda: ratio(&format!("{path}.lambda"), app.lambda)?,
        unpinned: app.unpinned,
        memory_share: app.memory_share,
        steady: app.steady,
        restore: match app.preset {
            Preset::Freehold => FREEHOLD_RESTORES,
            Preset::Paper => app.restore,
        },
        highest_swap_budget: Duration::ZERO,
    })
}

/// A factor in millionths, to the nearest.
fn ratio(path: &str, value: f64) -> Result<u32, Fault> {
    let wrong = || {
        refuse(
            path,
            format!("is {value}: must be above 0, at most 1, in whole millionths"),
        )
    };
    if !(value > 0.0 && value <= 1.0) {
        return wrong();
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0 and at most a million"
    )]
    let millionths = (value * f64::from(MILLION)).round() as u32;
    if millionths == 0 { wrong() } else { Ok(millionths) }
}
