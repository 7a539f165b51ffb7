//! Sizes and times as text: `10MiB`, `40ms`. Whole numbers only, one unit, no sign.

use freehold_core::units::{ByteLen, Duration};

const SIZE_UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
const TIME_UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Reads a size: a whole number with B, KiB, MiB or GiB.
///
/// ```
/// use freehold_scenario::parse_size;
/// assert_eq!(parse_size("10MiB").map(|size| size.get()), Ok(10 << 20));
/// assert!(parse_size("1.5MiB").is_err());
/// ```
///
/// # Errors
/// A sentence saying what is wrong and what to write instead.
pub fn parse_size(text: &str) -> Result<ByteLen, String> {
    parse(text, "size", &SIZE_UNITS, "10MiB").map(ByteLen::new)
}

/// Reads a time: a whole number with ns, us, ms or s.
///
/// ```
/// use freehold_scenario::parse_time;
/// assert_eq!(parse_time("40ms").map(|time| time.get()), Ok(40_000_000));
/// assert!(parse_time("40").is_err());
/// ```
///
/// # Errors
/// A sentence saying what is wrong and what to write instead.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    parse(text, "time", &TIME_UNITS, "40ms").map(Duration::new)
}

/// A size in the largest unit that divides it: the inverse of [`parse_size`].
#[must_use]
pub fn format_size(size: ByteLen) -> String {
    format(size.get(), &SIZE_UNITS)
}

/// A time in the largest unit that divides it: the inverse of [`parse_time`].
#[must_use]
pub fn format_time(time: Duration) -> String {
    format(time.get(), &TIME_UNITS)
}

fn parse(text: &str, what: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    if number.is_empty() {
        return Err(format!(
            "`{text}` is not a {what}: write a whole number and a unit ({names}), such as \"{example}\""
        ));
    }
    if rest.starts_with('.') {
        return Err(format!(
            "`{text}` has a fraction: write a whole number of a smaller unit ({names})"
        ));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == rest) else {
        let found = if rest.is_empty() {
            "no unit".to_owned()
        } else {
            format!("the unknown unit `{rest}`")
        };
        return Err(format!(
            "`{text}` has {found}: use one of {names}, such as \"{example}\""
        ));
    };
    let too_large = || format!("`{text}` is too large for a {what}: at most {}", u64::MAX);
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*factor))
        .ok_or_else(too_large)
}

fn format(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| value.is_multiple_of(*factor) && (value != 0 || *factor == 1);
    match units.iter().rev().find(fits) {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("10MiB", 10 << 20),
            ("4KiB", 4096),
            ("0B", 0),
            ("1GiB", 1 << 30),
            ("7B", 7),
            ("18446744073709551615B", u64::MAX),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(ByteLen::new(bytes)), "{text}");
        }
        let bad = [
            ("1.5MiB", "fraction"),
            ("10", "no unit"),
            ("10MB", "unknown unit `MB`"),
            ("10 MiB", "unknown unit"),
            ("-1MiB", "not a size"),
            ("MiB", "not a size"),
            ("", "not a size"),
            ("18446744073709551616B", "too large"),
            ("17179869184GiB", "too large"),
        ];
        for (text, part) in bad {
            let message = parse_size(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn times() {
        let good = [
            ("40ms", 40_000_000),
            ("500us", 500_000),
            ("1s", 1_000_000_000),
            ("100ns", 100),
            ("0s", 0),
        ];
        for (text, ns) in good {
            assert_eq!(parse_time(text), Ok(Duration::new(ns)), "{text}");
        }
        for (text, part) in [
            ("1.5s", "fraction"),
            ("5", "no unit"),
            ("5m", "unknown unit `m`"),
            ("18446744074s", "too large"),
        ] {
            let message = parse_time(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn format_inverts_parse(raw: u64) {
            proptest::prop_assert_eq!(parse_size(&format_size(ByteLen::new(raw))), Ok(ByteLen::new(raw)));
            proptest::prop_assert_eq!(parse_time(&format_time(Duration::new(raw))), Ok(Duration::new(raw)));
        }
    }
}
