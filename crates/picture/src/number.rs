//! Numbers for readers.

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
const UNITS: [(u64, &str); 4] = [(SECOND, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

/// A time with three digits and a unit.
pub(crate) fn time(ns: u64) -> String {
    let unit = UNITS.iter().find(|(factor, _)| ns >= *factor);
    let (factor, unit) = unit.copied().unwrap_or((1, "ns"));
    let (whole, rest) = (ns / factor, ns % factor);
    match whole {
        _ if factor == 1 || whole >= 100 => format!("{} {unit}", grouped(whole)),
        10.. => format!("{whole}.{} {unit}", rest * 10 / factor),
        _ => format!("{whole}.{:02} {unit}", rest * 100 / factor),
    }
}

/// A count with a thin space between thousands.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A coordinate: one digit after the point at most. What is not a number is nowhere.
pub(crate) fn coordinate(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A sum that ends at the largest number there is.
pub(crate) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// One number divided by another, as exact as a picture needs; 0 by 0 is 0.
pub(crate) fn ratio(above: u64, below: u64) -> f64 {
    above as f64 / below.max(1) as f64
}

/// The distance between marks of a scale up to `span`: 1, 2 or 5 times a power of ten, at most about `most` of them.
pub(crate) fn step(span: u64, most: u64) -> u64 {
    let least = (span / most.max(1)).max(1);
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(step) if step >= least => return step,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        let Some(next) = power.checked_mul(10) else {
            return u64::MAX;
        };
        power = next;
    }
}

/// Times at the marks of an axis: all in one unit, with as many digits after the point as the distance needs.
pub(crate) fn tick(at: u64, step: u64, last: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(factor, _)| last >= *factor && step >= *factor / 1_000);
    let (factor, unit) = unit.copied().unwrap_or((1, "ns"));
    let mut digits = 0;
    let mut part = factor;
    while part > 1 && !step.is_multiple_of(part) {
        part /= 10;
        digits += 1;
    }
    match digits {
        0 => format!("{} {unit}", at / factor),
        _ => format!("{}.{:0digits$} {unit}", at / factor, at % factor / part.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_counts_and_coordinates() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.50 us"),
            (43_210_000, "43.2 ms"),
            (SECOND, "1.00 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(time(u64::MAX), "18\u{202f}446\u{202f}744\u{202f}073 s");
        assert_eq!(
            (grouped(0), grouped(1_234_567)),
            ("0".to_owned(), "1\u{202f}234\u{202f}567".to_owned())
        );
        for (value, text) in [
            (0.04, "0"),
            (-0.01, "0"),
            (12.25, "12.2"),
            (3.0, "3"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
        ] {
            assert_eq!(coordinate(value), text);
        }
    }

    #[test]
    fn steps_are_round_and_few() {
        for (span, step_wanted) in [
            (0, 1),
            (10, 1),
            (11, 1),
            (95, 10),
            (101, 10),
            (2_000_000_000, 200_000_000),
        ] {
            assert_eq!(step(span, 10), step_wanted, "{span}");
        }
        assert!(step(u64::MAX, 10) > u64::MAX / 11);
        assert_eq!(step(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn ticks_of_an_axis_have_one_unit() {
        assert_eq!(tick(0, 200_000_000, 2 * SECOND), "0.0 s");
        assert_eq!(tick(1_200_000_000, 200_000_000, 2 * SECOND), "1.2 s");
        assert_eq!(tick(20_000_000, 20_000_000, 200_000_000), "20 ms");
        assert_eq!(tick(1_000_050_000, 50_000, 1_000_500_000), "1000.05 ms");
        assert_eq!(tick(7, 1, 9), "7 ns");
        assert_eq!(tick(0, 1, 0), "0 ns");
    }
}
