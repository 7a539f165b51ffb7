//! What a task did, as shapes: every interval where they are few, else for each column of the chart how its time was
//! shared.

use freehold_scenario::recording::{Span, TaskState};

use crate::number::ratio;
use crate::svg::{LEFT, Path, RIGHT, Window};

/// Height of a task that runs.
pub(super) const FULL: f64 = 24.0;

/// The states from the base line upwards, with their class and, where intervals are drawn, their height.
pub(super) const STATES: [(TaskState, &str, f64); 4] = [
    (TaskState::Running, "running", FULL),
    (TaskState::StoreSpin, "spin", 17.0),
    (TaskState::StoreWait, "wait", 17.0),
    (TaskState::Ready, "ready", 9.0),
];

/// One shape for each of [`STATES`].
pub(super) type Shapes = [Path; STATES.len()];

/// How many of these spans are to be seen in a window.
pub(super) fn seen(spans: &[Span], window: Window) -> usize {
    let inside = |span: &&Span| window.clip(span.from_ns, span.to_ns).is_some();
    spans.iter().filter(inside).count()
}

/// Every interval: its height tells the state, beside its colour and hatch.
pub(super) fn intervals(spans: &[Span], window: Window, base: f64) -> Shapes {
    let mut shapes = Shapes::default();
    for span in spans {
        let Some((from, to)) = window.clip(span.from_ns, span.to_ns) else {
            continue;
        };
        let found = STATES
            .iter()
            .zip(&mut shapes)
            .find(|((state, ..), _)| *state == span.state);
        if let Some(((_, _, height), shape)) = found {
            let (left, right) = (window.x(from), window.x(to));
            shape.rectangle(left, base - height, (right - left).max(0.3), *height);
        }
    }
    shapes
}

/// For each of `columns` equal parts of the window the shares of its time, stacked.
pub(super) fn shares(spans: &[Span], window: Window, columns: u32, base: f64) -> Shapes {
    let mut shapes = Shapes::default();
    let times = times(spans, window, columns);
    let width = (RIGHT - LEFT) / f64::from(columns.max(1));
    // Heights in steps of half a unit: columns that look the same become one shape.
    let heights = |times: &[u64; STATES.len()]| {
        let column = (window.length() / u64::from(columns.max(1))).max(1);
        times.map(|time| {
            let height = (ratio(time, column).min(1.0) * FULL * 2.0).round() / 2.0;
            if time > 0 { height.max(0.5) } else { 0.0 }
        })
    };
    let mut at = 0;
    while at < times.len() {
        let looks = heights(&times[at]);
        let alike = times[at..].iter().take_while(|times| heights(times) == looks).count();
        let (left, mut bottom) = (LEFT + ratio(at as u64, 1) * width, base);
        for (height, shape) in looks.into_iter().zip(&mut shapes) {
            let height = height.min(FULL - (base - bottom));
            if height > 0.0 {
                bottom -= height;
                shape.rectangle(left, bottom, ratio(alike as u64, 1) * width, height);
            }
        }
        at += alike;
    }
    shapes
}

/// For each column, the time in each state.
fn times(spans: &[Span], window: Window, columns: u32) -> Vec<[u64; STATES.len()]> {
    let mut times = vec![[0_u64; STATES.len()]; columns.max(1) as usize];
    let edge = |column: usize| {
        let offset = u128::from(window.length()) * column as u128 / u128::from(columns.max(1));
        window.from.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX))
    };
    let column_of = |at: u64| {
        let column = u128::from(at - window.from) * u128::from(columns.max(1)) / u128::from(window.length());
        usize::try_from(column).unwrap_or(0)
    };
    for span in spans {
        let Some((from, to)) = window.clip(span.from_ns, span.to_ns) else {
            continue;
        };
        let Some(state) = STATES.iter().position(|(state, ..)| *state == span.state) else {
            continue;
        };
        let first = column_of(from);
        for (column, sums) in times.iter_mut().enumerate().skip(first) {
            let (left, right) = (edge(column).max(from), edge(column + 1).min(to));
            sums[state] = sums[state].saturating_add(right.saturating_sub(left));
            if edge(column + 1) >= to {
                break;
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ns: u64, to_ns: u64, state: TaskState) -> Span {
        Span { from_ns, to_ns, state }
    }

    #[test]
    fn the_time_of_columns_is_all_there_is() {
        let spans = [
            span(0, 7, TaskState::Running),
            span(7, 33, TaskState::StoreWait),
            span(50, 99, TaskState::Ready),
            span(99, 200, TaskState::Running),
        ];
        for columns in [1, 3, 10, 90, 200] {
            let times = times(&spans, Window::new(3, 103), columns);
            let sum = |state: usize| times.iter().map(|times| times[state]).sum::<u64>();
            assert_eq!(
                [sum(0), sum(1), sum(2), sum(3)],
                [4 + 4, 0, 26, 49],
                "{columns} columns"
            );
        }
    }

    #[test]
    fn columns_that_look_the_same_are_one_shape() {
        let spans = [span(0, 1_000_000, TaskState::Running)];
        let shapes = shares(&spans, Window::new(0, 2_000_000), 1_000, 24.0);
        let mut expected = Path::default();
        expected.rectangle(LEFT, 0.0, (RIGHT - LEFT) / 2.0, FULL);
        assert_eq!(format!("{:?}", shapes[0]), format!("{expected:?}"));
        assert!(shapes[1..].iter().all(Path::is_empty));
    }

    #[test]
    fn huge_times_are_drawn() {
        let spans = [span(0, u64::MAX, TaskState::Ready)];
        let window = Window::new(0, u64::MAX);
        assert!(!shares(&spans, window, 10, 24.0)[3].is_empty());
        assert!(!intervals(&spans, window, 24.0)[3].is_empty());
        assert_eq!(seen(&spans, window), 1);
    }
}
